from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from timers_state import Domain, MemoryStore, Overlay

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
    overlay = Overlay(MemoryStore(), budget, rounds=True)
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
