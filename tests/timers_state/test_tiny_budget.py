"""A key that is alone more than the budget: nothing is lost, however often it is written out."""

from __future__ import annotations

import pytest

from timers_state import MemoryStore, Overlay


@pytest.mark.parametrize("commits", [True, False])
def test_a_cell_that_somebody_has_is_not_made_again(commits) -> None:
    overlay = Overlay(MemoryStore(), 3000)
    scope = overlay.scope(1, b"key")
    windows = [b"%d" % number for number in range(30)]
    held = [scope.value(b"value", window) for window in windows]
    for number, window in enumerate(windows):
        scope.bag(b"bag", window).append(window)
        scope.value(b"value", window).set(b"%d!" % number)
    assert [cell.get() for cell in held] == [b"%d!" % number for number in range(30)]
    if commits:
        overlay.prepare()
        overlay.commit()
    else:
        overlay.flush()
    again = overlay.scope(1, b"key")
    assert [again.value(b"value", window).get() for window in windows] == [
        b"%d!" % number for number in range(30)
    ]
    assert [list(again.bag(b"bag", window).read()) for window in windows] == [[w] for w in windows]
