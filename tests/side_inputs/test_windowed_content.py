from __future__ import annotations

import pytest

from sparkdrain.side_inputs.windows import WindowedContent, chunk_of, count_of
from timers_state import MemoryStore, Overlay

STATE = 3


@pytest.fixture
def overlay():
    with Overlay(MemoryStore(), 1 << 20) as overlay:
        yield overlay


def decode(chunk):
    return [chunk]


def read(content, window, key=b""):
    return list(content.values(window, key, decode))


def test_windows_have_contents_of_their_own(overlay):
    content = WindowedContent(overlay, STATE, multimap=False)
    content.append(b"w", b"", b"1")
    content.append(b"", b"", b"2")
    content.append(b"w", b"", b"3")
    assert read(content, b"w") == [b"1", b"3"]
    assert read(content, b"") == [b"2"]
    assert read(content, b"x") == []


def test_values_are_found_by_key(overlay):
    content = WindowedContent(overlay, STATE, multimap=True)
    content.append(b"w", b"k", b"1")
    content.append(b"w", b"l", b"2")
    content.append(b"w", b"k", b"3")
    assert read(content, b"w", b"k") == [b"1", b"3"]
    assert read(content, b"w", b"l") == [b"2"]
    assert read(content, b"w", b"m") == []


@pytest.mark.parametrize("multimap", [False, True])
def test_replacing_leaves_nothing_of_what_was_there(overlay, multimap):
    content = WindowedContent(overlay, STATE, multimap=multimap)
    content.append(b"w", b"", b"1")
    content.append(b"v", b"", b"2")
    assert not content.has_fired(b"w")
    content.replace(b"w", [(b"", b"3"), (b"", b"4")])
    assert read(content, b"w") == [b"3", b"4"]
    assert read(content, b"v") == [b"2"]
    assert content.has_fired(b"w")
    content.replace(b"w", [])
    assert read(content, b"w") == []
    assert content.has_fired(b"w")


def test_every_change_is_told(overlay):
    content = WindowedContent(overlay, STATE, multimap=False)
    for change in (
        lambda: content.append(b"w", b"", b"1"),
        lambda: content.replace(b"w", []),
        lambda: (content.date(b"w", 5), content.forget(5)),
    ):
        content.changed = False
        change()
        assert content.changed
    content.changed = False
    content.forget(9)
    assert not content.changed


def test_windows_are_forgotten_when_their_time_has_come(overlay):
    content = WindowedContent(overlay, STATE, multimap=False)
    for time in (10, 20, 30):
        window = b"%d" % time
        content.replace(window, [(b"", b"1")])
        content.date(window, time)
    content.forget(20)
    assert [read(content, w) for w in (b"10", b"20", b"30")] == [[], [], [b"1"]]
    assert not content.has_fired(b"10")
    content.append(b"10", b"", b"late")
    content.date(b"10", 10)
    content.forget(20)
    assert read(content, b"10") == []


def test_a_chunk_knows_how_many_values_it_has():
    assert count_of(chunk_of([b"a", b"b", b"c"])) == 3
    assert count_of(chunk_of([])) == 0
