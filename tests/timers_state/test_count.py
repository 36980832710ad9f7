from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from timers_state import Domain, MemoryStore, Overlay
from timers_state.keys import time_bound

STATE = 3
steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from("abc"), st.sampled_from("xy"), st.integers(0, 9)),
        st.tuples(st.just("clear"), st.sampled_from("abc"), st.sampled_from("xy")),
        st.tuples(st.just("pop"), st.integers(0, 9)),
        st.tuples(st.just("forget"), st.sampled_from("abc")),
        st.tuples(st.just("flush")),
        st.tuples(st.just("commit")),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(steps, st.sampled_from([1 << 20, 200]))
def test_timers_are_counted_wherever_they_are(steps, budget):
    overlay = Overlay(MemoryStore(), budget)
    expected: dict[tuple[str, str], int] = {}
    for what, *how in steps:
        match what:
            case "set":
                key, tag, time = how
                overlay.scope(STATE, key.encode()).timers(Domain.EVENT).set(
                    time, b"f", tag.encode()
                )
                expected[key, tag] = time
            case "clear":
                key, tag = how
                overlay.scope(STATE, key.encode()).timers(Domain.EVENT).clear(b"f", tag.encode())
                expected.pop((key, tag), None)
            case "pop":
                (up_to,) = how
                found = overlay.next_due(STATE, Domain.EVENT, up_to)
                if found is not None:
                    timer = overlay.scope(STATE, found).timers(Domain.EVENT).pop_due(up_to)
                    del expected[found.decode(), timer.tag.decode()]
            case "forget":
                (key,) = how
                overlay.forget(STATE, key.encode())
                expected = {name: time for name, time in expected.items() if name[0] != key}
            case "flush":
                overlay.flush()
            case "commit":
                overlay.prepare()
                overlay.commit()
        assert overlay.count_timers(STATE, Domain.EVENT) == len(expected)
        assert overlay.count_timers(STATE, Domain.PROCESSING) == 0


def test_what_only_the_store_has_is_counted_from_the_first_row_that_is_left(monkeypatch):
    """No row is taken apart, and none is passed that was removed."""
    store = MemoryStore()
    overlay = Overlay(store, 1 << 20)
    for key in (b"a", b"\x00", b"\x00\x01"):
        for time in range(4):
            overlay.scope(STATE, key).timers(Domain.EVENT).set(time, b"%d" % time)
    overlay.flush()
    for due in overlay.read_due(STATE, Domain.EVENT, 1, 100):
        for timer in due.timers:
            assert overlay.take(STATE, Domain.EVENT, due.key, timer)
    overlay.read_on(STATE, Domain.EVENT)
    overlay.prepare()
    overlay.commit()
    looked_from, iterate_rows = [], store.iterate_rows

    def look(lower, upper):
        looked_from.append(lower)
        return iterate_rows(lower, upper)

    monkeypatch.setattr(store, "iterate_rows", look)
    monkeypatch.setattr("timers_state.overlay.due_index.key_of_time_row", None)
    assert overlay.count_timers(STATE, Domain.EVENT) == 6
    assert looked_from == [time_bound(STATE, Domain.EVENT, 2)]
