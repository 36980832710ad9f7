"""What is kept of windows is read back as it was written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.panes.window_state import StatesTogether, WindowState
from timers_state import MemoryStore, Overlay

numbers = st.integers(-(1 << 63) + 1, (1 << 63) - 1)
times = st.none() | numbers
states = st.builds(
    WindowState,
    numbers=st.lists(numbers, max_size=5),
    bags=st.lists(st.integers(0, (1 << 32) - 1), max_size=5),
    finished=st.booleans(),
    fresh=st.booleans(),
    panes=st.integers(0, (1 << 32) - 1),
    panes_on_time=st.integers(0, (1 << 32) - 1),
    hold=times,
    event=times,
    wake=times,
    held=times,
)


@given(states)
def test_a_windows_state_is_what_its_bytes_say(state):
    assert WindowState.decode(state.encode()) == state


@given(st.dictionaries(st.binary(), st.binary()), st.lists(st.binary(), max_size=3))
def test_windows_that_are_kept_together_are_found_by_name(kept, removed):
    overlay = Overlay(MemoryStore(), 1 << 20)
    table = StatesTogether(overlay.scope(1, b"key"))
    for window, state in kept.items():
        table.put(window, state)
    table.flush()
    table = StatesTogether(overlay.scope(1, b"key"))
    for window in removed:
        table.remove(window)
    table.flush()
    table = StatesTogether(overlay.scope(1, b"key"))
    left = {window: state for window, state in kept.items() if window not in removed}
    assert {window: table.get(window) for window in table.windows()} == left
