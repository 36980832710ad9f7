from __future__ import annotations

from dataclasses import replace

from test_schedule import SLOTS, chain, report, reports

from sparkdrain.drain.progress import Hold
from sparkdrain.rounds.driver.schedule import Schedule
from sparkdrain.rounds.driver.tell import Teller, shown
from sparkdrain.watermarks.frontier import BEGIN, END


class Board:
    def __init__(self, progress="plain") -> None:
        self.time = 0.0
        self.more = ""
        self.lines: list[str] = []
        self.published = 0
        self.teller = Teller(
            progress, self.publish, lambda: self.more, lambda: self.time, self.lines.append
        )

    def publish(self) -> None:
        self.published += 1

    def rounds(self, schedule, *times) -> None:
        for self.time in times:
            self.teller.tell(schedule, [])


def schedule(**facts):
    made = Schedule(chain(), SLOTS)
    made.commit([r for level in range(3) for r in reports(level, **facts)])
    return made


def test_says_now_and_then_how_long_rounds_are_and_where_the_watermark_is():
    board = Board()
    board.rounds(schedule(time=1_000_000), 0.5, 1.0, 1.5, 2.0)
    assert board.lines == [
        "round 1: 500 ms each, 0.0 MB/s shuffled, watermark 1970-01-01 00:00:01.000"
    ]
    assert board.published == 1


def test_says_what_holds_the_watermark():
    made = schedule()
    held = report(0, 0)
    made.commit(
        [type(held)(0, 0, 1, 1, {}, (5,), frozenset(), None, holds=(Hold("Read", "source", 5),))]
    )
    board = Board()
    board.rounds(made, 3.0)
    assert board.lines[0].endswith("watermark not known yet, held by source of 'Read'")


def test_says_how_much_came_too_late():
    made = schedule()
    made.commit([replace(report(level, slot), dropped=600) for level in (0, 1) for slot in (0, 1)])
    board = Board()
    board.rounds(made, 3.0)
    assert board.lines[0].endswith(", 2,400 elements dropped as late")


def test_says_what_else_there_is():
    board = Board()
    board.more = "2 of 30 tasks away from their slot's state"
    board.rounds(schedule(), 3.0)
    assert board.lines[0].endswith(", 2 of 30 tasks away from their slot's state")


def test_says_nothing_if_it_is_not_to_but_metrics_are_published():
    board = Board("off")
    board.rounds(schedule(), 3.0)
    assert board.lines == []
    assert board.published == 1


def test_times_are_shown_for_people():
    assert shown(BEGIN) == "not known yet"
    assert shown(END) == "at the end of time"
    assert shown(END - 1).endswith("µs")
