from __future__ import annotations

import pytest
from test_schedule import SLOTS, chain, report

from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.signal import DrainSignal
from sparkdrain.errors import Cancelled, TruncatedInput, WorkerLost
from sparkdrain.rounds.driver.checkpoints import NoCheckpoints
from sparkdrain.rounds.driver.loop import Play, RoundLoop
from sparkdrain.rounds.driver.pace import Pace
from sparkdrain.rounds.driver.schedule import Schedule
from sparkdrain.types import CancelToken
from sparkdrain.watermarks.frontier import BEGIN, END


class FakeClock:
    def __init__(self) -> None:
        self.time = 0
        self.waits: list[int | None] = []

    def now(self) -> int:
        return self.time

    def wait_until(self, then, cancel) -> None:
        self.waits.append(then)
        if then is None:
            cancel.cancel()
        else:
            self.time = max(self.time, then)


class FakeLevels:
    """Answers with what ``script`` says for (round, level): a time to wake at, or an error."""

    def __init__(self, script=None) -> None:
        self.script = script or {}
        self.ran: list[tuple[int, int]] = []
        self.headers = []
        self.ended = 0

    def run(self, headers):
        first = headers[0]
        self.headers += headers
        self.ran.append((first.number, first.level))
        said = self.script.pop((first.number, first.level), None)
        if isinstance(said, Exception):
            raise said
        time = BEGIN if said is not None else END
        return [
            report(
                h.level, h.slot, time=time, wake=said, attempt=len(self.headers), number=h.number
            )
            for h in headers
        ]

    def end_round(self) -> None:
        self.ended += 1

    def check_hosts(self) -> None: ...

    def on_loss(self, tell) -> None: ...


def loop(levels, clock=None, attempts=3, cancel=None):
    return RoundLoop(
        Schedule(chain(2), SLOTS),
        levels,
        clock or FakeClock(),
        Pace(1.0),
        Play(),
        cancel or CancelToken(),
        attempts,
        lambda schedule, reports: None,
    )


def test_ends_when_nothing_is_left_to_do():
    levels = FakeLevels()
    loop(levels).run()
    assert levels.ran == [(1, 0), (1, 1)]
    assert levels.ended == 1


def test_sleeps_until_the_first_thing_is_due_and_runs_what_is():
    levels, clock = FakeLevels({(1, 0): 500}), FakeClock()
    loop(levels, clock).run()
    assert clock.waits[-1] == 500
    assert levels.ran == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_a_job_that_waits_ends_when_a_host_is_lost():
    class Mortal(FakeLevels):
        is_lost = False

        def on_loss(self, tell) -> None:
            self.tell = tell

        def check_hosts(self) -> None:
            if self.is_lost:
                message = "a host is gone"
                raise WorkerLost(message)

    levels = Mortal({(1, 0): 500, (2, 0): 900})

    class Clock(FakeClock):
        def wait_until(self, then, interrupt) -> None:
            super().wait_until(then, interrupt)
            levels.is_lost = len(self.waits) == 2
            if levels.is_lost:
                levels.tell()
                assert interrupt.wait(0)

    with pytest.raises(WorkerLost):
        loop(levels, Clock()).run()
    assert levels.ran == [(1, 0), (1, 1), (2, 0)]


def test_runs_a_round_again_that_lost_data_from_where_the_one_before_ended():
    levels = FakeLevels({(1, 1): TruncatedInput("gone")})
    loop(levels).run()
    assert levels.ran == [(1, 0), (1, 1), (1, 0), (1, 1)]
    assert {header.committed for header in levels.headers} == {None}
    assert levels.ended == 2


def test_gives_up_on_a_round_that_loses_data_time_and_again():
    class Losing(FakeLevels):
        def run(self, headers):
            self.ran.append((headers[0].number, headers[0].level))
            message = "gone"
            raise TruncatedInput(message)

    levels = Losing()
    with pytest.raises(TruncatedInput):
        loop(levels, attempts=2).run()
    assert levels.ran == [(1, 0), (1, 0)]


def test_does_not_run_a_round_again_in_which_user_code_failed():
    levels = FakeLevels({(1, 1): ValueError("mine")})
    with pytest.raises(ValueError, match="mine"):
        loop(levels).run()
    assert levels.ended == 1


def test_refuses_a_round_whose_consumer_saw_another_attempt_than_was_reported():
    class Torn(FakeLevels):
        def run(self, headers):
            reports = super().run(headers)
            if headers[0].level == 1:
                reports[0].inputs[0, 0] = -1
            return reports

    with pytest.raises(TruncatedInput, match="run again"):
        loop(Torn(), attempts=1).run()


def test_ends_with_an_error_when_it_is_cancelled():
    cancel = CancelToken()
    cancel.cancel()
    with pytest.raises(Cancelled):
        loop(FakeLevels(), cancel=cancel).run()


def test_a_job_that_always_has_something_to_do_hears_that_it_is_drained():
    cancel = CancelToken()

    class Busy(FakeLevels):
        def run(self, headers):
            if headers[0].number == 10:
                cancel.cancel()
            self.script[headers[0].number, headers[0].level] = 0
            return super().run(headers)

    levels = Busy()
    busy = loop(levels, cancel=cancel)
    busy.drain.signal = DrainSignal()

    def drain_after_three(schedule, reports):
        if schedule.number == 3:
            busy.drain.signal.request(DrainNotification.create("job/1", 0))

    busy.tell = drain_after_three
    with pytest.raises(Cancelled):
        busy.run()
    drained = {header.number: header.orders.drain is not None for header in levels.headers}
    assert drained[3] is False
    assert drained[4] is True


def test_nothing_is_played_while_the_cut_is_made_durable():
    cancel = CancelToken()

    class Busy(FakeLevels):
        def run(self, headers):
            if headers[0].number == 10:
                cancel.cancel()
            self.script[headers[0].number, headers[0].level] = 0
            return super().run(headers)

    class Script(Play):
        is_over = False
        asked = 0

        def next(self, *, quiet):
            self.asked += 1
            return {}

    class SlowCut(NoCheckpoints):
        """The cut is durable when the seventh round begins."""

        has_cut = False

        def committed(self, reports, now) -> None:
            super().committed(reports, now)
            self.has_cut = reports[0].number >= 6

    playing = loop(Busy(), cancel=cancel)
    playing.play, playing.checkpoints = Script(), SlowCut()
    playing.drain.signal = DrainSignal()
    asked = {}

    def look(schedule, reports) -> None:
        asked[schedule.number] = playing.play.asked
        if schedule.number == 3:
            playing.drain.signal.request(DrainNotification.create("job/1", 0))

    playing.tell = look
    with pytest.raises(Cancelled):
        playing.run()
    assert asked[3] == asked[4] == asked[5] == asked[6] == 3
