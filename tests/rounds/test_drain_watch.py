from __future__ import annotations

import threading

from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.phases import DrainPhase
from sparkdrain.drain.progress import Hold, Left
from sparkdrain.drain.signal import DrainSignal
from sparkdrain.rounds.driver.drain_watch import DrainWatch, attention
from sparkdrain.types import CancelToken

SECOND = 1_000_000


class Report:
    def __init__(self, level, slot, *left) -> None:
        self.level, self.slot, self.left = level, slot, left


class Schedule:
    """As far as the watch looks at it."""

    def __init__(self, *reports, holds=()) -> None:
        self._reports, self._holds = list(reports), list(holds)

    def reports(self):
        return self._reports

    def holds(self):
        return self._holds


def watched():
    drain, told = DrainSignal(), []
    return drain, told, DrainWatch(drain, told.append)


def full(windows: int) -> Schedule:
    return Schedule(
        Report(1, 1, Left("Group", 2, 1, windows=windows)),
        Report(0, 0, Left("Read", 0, 0, residuals=3)),
        Report(1, 0, Left("Group", 2, 2, windows=windows)),
        holds=[Hold("Group", "windows", 7)],
    )


class TestWatch:
    def test_nobody_counts_anything_while_nobody_wants_to_know(self):
        _, told, watch = watched()
        assert not watch.wants(0)
        watch.committed(full(5), 1)
        assert told == []

    def test_a_drain_is_surveyed_at_once_and_then_now_and_then(self):
        drain, told, watch = watched()
        drain.request(DrainNotification.create("mine", 1))
        surveys = []
        for now in range(0, 10 * SECOND, SECOND // 2):
            if watch.wants(now):
                surveys.append(now / SECOND)
                watch.committed(full(10), now)
        assert surveys == [0, 2, 4, 6, 8]
        assert len(told) == 5
        assert told[0].run_id == "mine"
        assert told[0].stages == (
            Left("Read", 0, 0, residuals=3),
            Left("Group", 4, 3, windows=20),
        )
        assert told[-1].hold.reason == "windows"
        assert told[-1].held_since == 0

    def test_each_phase_of_a_drain_is_told_at_once(self):
        drain, told, watch = watched()
        watch.entered(DrainPhase.ENDING, 0)
        assert told == []
        drain.request(DrainNotification.create("mine", 1))
        watch.entered(DrainPhase.CUT, 1)
        watch.entered(DrainPhase.TRUNCATED, 2)
        assert [(each.phase, each.now) for each in told] == [
            (DrainPhase.CUT, 1),
            (DrainPhase.TRUNCATED, 2),
        ]
        assert watch.wants(3)
        watch.committed(full(1), 3)
        assert told[-1].phase is DrainPhase.TRUNCATED

    def test_a_drain_of_very_much_is_surveyed_more_seldom(self):
        drain, _, watch = watched()
        drain.request(DrainNotification.create("mine", 1))
        surveys = []
        for second in range(20):
            if watch.wants(second * SECOND):
                surveys.append(second)
                watch.committed(full(500_000), second * SECOND)
        assert surveys == [0, 6, 12, 18]

    def test_a_round_that_failed_is_surveyed_again(self):
        drain, told, watch = watched()
        drain.request(DrainNotification.create("mine", 1))
        assert watch.wants(0)
        assert watch.wants(1)
        watch.committed(full(1), 1)
        assert not watch.wants(2)
        assert len(told) == 1

    def test_a_question_is_answered_by_the_next_round_and_not_told_as_a_drain(self):
        drain, told, watch = watched()
        answers, asked = [], threading.Event()
        drain.inquiry.on_ask(asked.set)
        thread = threading.Thread(target=lambda: answers.append(drain.inquiry.ask(30)))
        thread.start()
        assert asked.wait(30)
        assert watch.is_asked()
        assert watch.wants(5)
        watch.committed(full(4), 6)
        thread.join(30)
        assert not watch.is_asked()
        assert [answer.things for answer in answers] == [11]
        assert told == []

    def test_at_the_end_nothing_is_left_and_who_asks_is_told_so(self):
        drain, told, watch = watched()
        drain.request(DrainNotification.create("mine", 1))
        watch.wants(0)
        watch.committed(full(3), 1)
        watch.over(DrainPhase.DRAINED, 2)
        assert told[-1].stages_drained == len(told[-1].stages) == 2
        assert told[-1].things == 0
        assert told[-1].phase is DrainPhase.DRAINED
        assert "over" in drain.inquiry.ask(30)

    def test_a_job_that_was_not_drained_tells_nothing_at_its_end(self):
        _, told, watch = watched()
        watch.over(DrainPhase.DRAINED, 2)
        assert told == []


class TestAttention:
    def test_it_is_called_for_by_a_cancel_a_drain_and_a_question_again_and_again(self):
        cancel, drain = CancelToken(), DrainSignal()
        wanted = attention(cancel, drain)
        assert not wanted.wait(0)
        for want in (
            lambda: drain.inquiry.ask(0),
            lambda: drain.inquiry.ask(0),
            lambda: drain.request(DrainNotification.create("mine", 1)),
            cancel.cancel,
        ):
            want()
            assert wanted.wait(30)
            wanted.clear()

    def test_what_was_wanted_before_is_not_missed(self):
        cancel, drain = CancelToken(), DrainSignal()
        drain.request(DrainNotification.create("mine", 1))
        assert attention(cancel, drain).is_set()
