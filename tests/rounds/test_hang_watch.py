"""When rounds that take long are told of, what is said, and when a round is ended."""

from __future__ import annotations

import json

import pytest

from sparkdrain.errors import RoundLimitExceeded
from sparkdrain.hosts.line import HostId, HostRecord, Seen, Sight
from sparkdrain.rounds.driver.hang_watch import HangWatch
from sparkdrain.rounds.messages import AtWork

STACK = (("/their/code.py", 7, "process"), ("/x/sparkdrain/stages/shards/shard.py", 9, "run"))
DUMP = """\
Current thread 0x00007f (most recent call first):
  File "/their/code.py", line 7 in process
  File "<compiled chain 1 from a>", line 4 in run
"""
NOTES = "\n".join(
    json.dumps(note)
    for note in (["/their/code.py", 1, 9, "Bad"], ["/their/code.py", 20, 30, "Other"])
)


def seen(slot: int, seconds: float | None, told: AtWork | None = None, **more) -> Seen:
    record = HostRecord(HostId("job", slot), "box", 100 + slot, ("127.0.0.1", 1))
    return Seen(record, Sight(1, seconds, None if told is None else told.encode(), **more))


class Bench:
    """A watch whose time and hosts a test moves."""

    def __init__(self, patience: float = 30, limit: float = 0) -> None:
        self.now = 1000.0
        self.hosts: list[Seen] = [seen(0, 5.0, AtWork("Bad", "0badcafe", STACK))]
        self.told: list[str] = []
        self.ended = 0
        self.watch = HangWatch(patience, limit, self.look, self.told.append, self.end, self.time)

    def time(self) -> float:
        return self.now

    def look(self) -> list[Seen]:
        return self.hosts

    def end(self) -> None:
        self.ended += 1

    def times(self, seconds: int) -> list[float]:
        """When something is told, in seconds of a round that takes so long."""
        self.watch.level(1)
        times = []
        for second in range(seconds):
            before = len(self.told)
            self.watch.look()
            times += [float(second)] * (len(self.told) - before)
            self.now += 1
        self.watch.end_round()
        return times


def test_a_long_round_is_told_of_ever_more_rarely():
    assert Bench().times(500) == [30, 60, 120, 240, 480]


def test_rounds_that_all_take_long_are_told_of_once_until_one_is_short():
    bench = Bench()
    assert bench.times(40) == [30]
    assert bench.times(40) == []
    assert bench.times(20) == []
    assert bench.times(40) == [30]


def test_nothing_is_told_of_between_two_rounds_and_of_a_round_that_has_just_ended():
    bench = Bench()
    bench.watch.level(0)
    bench.watch.end_round()
    bench.now += 100
    bench.watch.look()
    bench.watch.level(0)
    bench.now += 100

    def look() -> list[Seen]:
        bench.watch.end_round()
        return bench.hosts

    bench.watch._look = look
    bench.watch.look()
    assert bench.told == []


def test_the_message_names_level_slot_process_step_key_and_the_users_part_of_the_stack():
    bench = Bench()
    bench.times(31)
    (text,) = bench.told
    assert "at work for 30 seconds, and is in level 1" in text
    assert "Slot 0 (process 100 on box) runs step 'Bad', for a key with hash 0badcafe" in text
    assert "got its part of the level 5 seconds ago" in text
    assert 'File "/their/code.py", line 7, in process' in text
    assert "sparkdrain/rounds" not in text
    assert "--round_limit_ms" in text


def test_of_a_process_that_cannot_answer_the_notes_tell_the_step():
    bench = Bench()
    bench.hosts = [seen(3, 5.0, dump=DUMP, notes=NOTES)]
    bench.times(31)
    assert "Slot 3 (process 103 on box) runs step 'Bad'; it got" in bench.told[0]
    assert "keeps the interpreter's lock" in bench.told[0]
    assert 'File "/their/code.py", line 7, in process' in bench.told[0]


def test_of_a_process_that_is_stopped_it_is_said_that_it_does_not_answer():
    bench = Bench()
    bench.hosts = [seen(3, 5.0)]
    bench.times(31)
    assert "Slot 3 (process 103 on box)" in bench.told[0]
    assert "does not answer: it is stopped" in bench.told[0]


def test_three_slots_are_told_of_in_full_the_longest_first_and_idle_ones_are_not():
    bench = Bench()
    bench.hosts = [seen(slot, 10.0 + slot, AtWork("Bad", "", STACK)) for slot in range(5)]
    bench.hosts.append(seen(9, None))
    bench.times(31)
    (text,) = bench.told
    assert text.index("Slot 4 ") < text.index("Slot 3 ") < text.index("Slot 2 ")
    assert "Slot 1 " not in text
    assert "At work too: slots 1, 0." in text
    assert "9" not in text.partition("At work too")[2].partition(".")[0]


def test_if_no_slot_is_at_work_spark_is_named_and_no_code():
    bench = Bench()
    bench.hosts = [seen(0, None)]
    bench.times(31)
    assert "No slot is at work: Spark has not started its tasks" in bench.told[0]
    assert "this code" not in bench.told[0]


def test_a_round_beyond_its_limit_is_ended_once_and_fails_with_the_step():
    bench = Bench(patience=0, limit=12)
    bench.watch.level(0)
    bench.now += 11
    bench.watch.look()
    bench.watch.level(1)
    bench.watch.check()
    for _ in range(3):
        bench.now += 1
        bench.watch.look()
    assert bench.ended == 1
    with pytest.raises(RoundLimitExceeded, match=r"--round_limit_ms \(12000\) .* step 'Bad'"):
        bench.watch.check()
    assert bench.told == []


def test_without_patience_and_limit_nobody_looks():
    bench = Bench(patience=0)
    bench.watch.start()
    assert bench.watch._thread.ident is None
    assert bench.times(100) == []
    bench.watch.close()


def test_a_watch_looks_by_itself_until_it_is_closed():
    bench = Bench()
    bench.watch.start()
    assert bench.watch._thread.is_alive()
    bench.watch.close()
    assert not bench.watch._thread.is_alive()
