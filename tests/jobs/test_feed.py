from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.jobs.messages import MessageFeed, Skipped


def feed(entries, capacity=100) -> MessageFeed:
    made = MessageFeed(capacity)
    for entry in entries:
        made.append(entry)
    return made


@given(st.lists(st.integers(), max_size=50), st.integers(min_value=1, max_value=60))
def test_a_late_reader_sees_the_newest_entries_and_how_many_it_missed(entries, capacity):
    late = feed(entries, capacity)
    late.close()
    missed = max(0, len(entries) - capacity)
    kept = entries[missed:]
    assert list(late.follow()) == ([Skipped(missed)] if missed else []) + kept


def test_a_reader_that_follows_sees_every_entry_in_order():
    live = feed([])
    seen, threads = [[], []], []
    for reader in seen:
        thread = threading.Thread(target=lambda r=reader: r.extend(live.follow()))
        thread.start()
        threads.append(thread)
    for number in range(90):
        live.append(number)
    live.close()
    for thread in threads:
        thread.join(30)
    assert seen == [list(range(90))] * 2


def test_a_slow_reader_is_told_what_it_missed_in_the_middle():
    live = feed([1, 2], capacity=2)
    reader = live.follow()
    assert [next(reader), next(reader)] == [1, 2]
    for number in (3, 4, 5, 6):
        live.append(number)
    live.close()
    assert list(reader) == [Skipped(2), 5, 6]


def test_nothing_can_be_added_to_a_closed_feed():
    closed = feed([1])
    closed.close()
    closed.append(2)
    assert list(closed.follow()) == [1]


def test_a_reader_whom_nobody_wants_any_more_stops_waiting():
    live, wanted = feed([1]), threading.Event()
    wanted.set()
    seen, done = [], threading.Event()

    def read() -> None:
        seen.extend(live.follow(wanted.is_set))
        done.set()

    threading.Thread(target=read, daemon=True).start()
    wanted.clear()
    live.wake()
    assert done.wait(30)
    assert seen in ([], [1])
