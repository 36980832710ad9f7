"""The user is told where the state of opened slots came from, and once what is wrong."""

from __future__ import annotations

from sparkdrain.checkpoints.upload import Uploaded
from sparkdrain.rounds.driver.tell import FETCHED, LOCAL, Openings
from sparkdrain.rounds.messages import Opened, RoundReport


def report(slot: int, opened: Opened | None = None, told: str = "") -> RoundReport:
    uploaded = Uploaded(1, told=told) if told else None
    return RoundReport(1, slot, 1, 1, {}, (), frozenset(), None, opened=opened, uploaded=uploaded)


def test_bytes_are_added_up_over_all_lives():
    told: list[str] = []
    openings = Openings(told.append, told.append)
    openings.heard([report(0)])
    assert (told, openings.counts) == ([], {})
    openings.heard([report(0, Opened(0.5, 1000, 0)), report(1, Opened(1.25, 200, 30))])
    openings.heard([report(0)])
    openings.heard([report(2, Opened(0.1, 0, 5))])
    assert told == [
        "2 slots were opened with the state of the checkpoint: 1,200 bytes were on their hosts, 30 "
        "came from --checkpoint_dir. The slowest took 1.2 s.",
        "1 slot was opened with the state of the checkpoint: 0 bytes were on their hosts, 5 came "
        "from --checkpoint_dir. The slowest took 0.1 s.",
    ]
    assert openings.counts == {LOCAL: 1200, FETCHED: 35}
    assert list(openings.counts) == [LOCAL, FETCHED]


def test_what_is_wrong_with_a_folder_is_told_once():
    warned: list[str] = []
    openings = Openings(lambda text: None, warned.append)
    for _ in range(3):
        openings.heard([report(0, told="no room"), report(1, told="no room")])
        openings.heard([report(2, Opened(0.1, 0, 1, "no right"))])
    assert warned == ["no room", "no right"]
