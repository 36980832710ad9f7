from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.phases import DrainPhase
from sparkdrain.errors import CheckpointFailed, NotAcknowledged
from sparkdrain.rounds.driver.checkpointing import Checkpointing
from sparkdrain.rounds.driver.checkpoints import NoCheckpoints
from sparkdrain.rounds.messages import RoundReport
from sparkdrain.watermarks.frontier import BEGIN

SECOND = 1_000_000
SLOTS = ((0, 0), (0, 1), (1, 0), (1, 1))


@dataclass(frozen=True)
class Uploaded:
    number: int
    files: tuple = ()
    error: str = ""


class Job:
    """A schedule, and rounds that are what a test wants them to be."""

    class plan:
        levels = ((), ())

    def __init__(self, checkpoints, *, now=0):
        self.checkpoints = checkpoints
        self.number = 0
        self.now = now
        self._last = []

    def reports(self):
        return self._last

    def orders(self, play=0):
        return self.checkpoints.orders(self, play, self.now)

    def commit(self, *, changed=True, uploaded=None, complaints=(), unsettled=0, waits=False):
        self.number += 1
        self._last = [
            RoundReport(
                level,
                slot,
                self.number,
                self.number,
                {},
                (),
                frozenset(),
                None,
                prepared_bytes=int(changed),
                uploaded=(uploaded or {}).get((level, slot)),
                complaints=complaints if (level, slot) == SLOTS[1] else (),
                unsettled=unsettled if (level, slot) == SLOTS[1] else 0,
                waits=waits and (level, slot) == SLOTS[1],
            )
            for level, slot in SLOTS
        ]
        self.checkpoints.committed(self._last, self.now)

    def round(self, **what):
        orders = self.orders()
        self.commit(**what)
        return orders


class Published(list):
    """Those that were published; with ``slow``, they are on their way until it is taken back."""

    slow = False

    def publish(self, cut):
        self.append(cut)

    def is_published(self):
        return not self.slow


def job(attempts=3, number=0):
    published = Published()
    return Job(Checkpointing(10 * SECOND, published, attempts, number=number)), published


def all_uploaded(number):
    return dict.fromkeys(SLOTS, Uploaded(number))


def test_the_first_checkpoint_comes_an_interval_after_the_job_began_and_covers_what_was_committed():
    running, published = job()
    assert running.round().checkpoint is None
    running.now = 10 * SECOND - 1
    assert running.round().checkpoint is None
    running.now += 1
    orders = running.round()
    assert (orders.checkpoint, orders.levels) == (1, frozenset({0, 1}))
    running.now += SECOND
    running.round(uploaded=all_uploaded(1))
    (cut,) = published
    assert (cut.number, cut.round, cut.phase) == (1, 2, DrainPhase.READING)
    assert {report.number for report in cut.reports.values()} == {2}
    assert set(cut.files) == set(SLOTS)


def test_a_life_that_goes_on_makes_its_first_checkpoint_as_soon_as_output_waits_for_it():
    running, published = job(number=3)
    assert running.round().checkpoint is None
    assert running.round(waits=True).checkpoint is None
    running.now += SECOND // 5
    orders = running.round(waits=True)
    assert (orders.checkpoint, orders.awaited) == (4, True)
    assert running.checkpoints.wake() <= running.now + SECOND // 50
    orders = running.round(uploaded=all_uploaded(4))
    assert orders.levels == frozenset({0, 1}), "slots are asked in each round"
    (cut,) = published
    assert cut.is_awaited
    running.now += SECOND
    assert running.round(waits=True).checkpoint is None, "the second one waits for its time"
    assert running.round(waits=True).checkpoint is None


def test_output_of_a_job_that_begins_waits_for_the_interval():
    running, _ = job()
    running.round(waits=True)
    running.now += SECOND
    assert running.round(waits=True).checkpoint is None


def test_an_attempt_that_failed_is_told_the_same_and_the_next_round_nothing():
    running, _ = job()
    running.round()
    running.now = 10 * SECOND
    orders = running.orders()
    assert orders.checkpoint == 1
    running.commit()  # whichever attempt it was
    assert running.orders().checkpoint is None


def test_it_is_published_when_the_last_slot_has_uploaded_and_all_slots_are_told_in_the_next_round():
    running, published = job()
    running.round()
    running.now = 10 * SECOND
    running.round()
    for shard in SLOTS[:-1]:
        running.round(uploaded={shard: Uploaded(1)})
    assert not published
    running.round(uploaded={SLOTS[-1]: Uploaded(1)})
    assert [cut.number for cut in published] == [1]
    orders = running.orders()
    assert (orders.published, orders.levels) == (1, frozenset({0, 1}))
    running.commit()
    assert running.orders().levels == frozenset()


def test_rounds_go_on_while_it_is_published():
    running, published = job()
    published.slow = True
    running.round()
    running.now = 10 * SECOND
    running.round()
    running.round(uploaded=all_uploaded(1))
    for _ in range(3):
        running.now = 100 * SECOND
        orders = running.round(uploaded=all_uploaded(1))
        assert (orders.checkpoint, orders.published, orders.levels) == (None, 0, frozenset())
    assert len(published) == 1
    published.slow = False
    assert running.now < running.checkpoints.wake() < running.now + SECOND
    orders = running.round()
    assert (orders.published, orders.levels) == (1, frozenset({0, 1}))
    assert orders.checkpoint == 2


def test_a_job_that_is_about_to_stand_still_begins_no_other_checkpoint_before():
    running, published = job()
    assert running.checkpoints.rest()
    published.slow = True
    running.round()
    running.now = 10 * SECOND
    running.round()
    running.round(uploaded=all_uploaded(1))
    running.now = 100 * SECOND
    assert not running.checkpoints.rest()
    published.slow = False
    orders = running.round()
    assert (orders.checkpoint, orders.published) == (None, 1)
    assert running.checkpoints.rest()
    assert running.round().checkpoint == 2, "it did not stand still"


def test_a_publication_that_fails_between_rounds_is_a_failure_of_the_checkpoint():
    class Late(Published):
        looks = 0

        def is_published(self):
            self.looks += 1
            if self.looks < 3:
                return False
            message = "the storage hangs"
            raise CheckpointFailed(message)

    late = Late()
    running = Job(Checkpointing(10 * SECOND, late, 2))
    running.round()
    running.now = 10 * SECOND
    running.round()
    running.round(uploaded=all_uploaded(1))
    assert running.round().checkpoint is None
    running.now = 20 * SECOND
    assert running.round().checkpoint == 2
    assert running.orders().published == 0
    said = r"2nd failure in a row; the job fails after 2\): the storage hangs"
    with pytest.raises(CheckpointFailed, match=said):
        running.commit(uploaded=all_uploaded(2))


def test_a_job_in_which_nothing_happens_makes_no_checkpoint():
    running, published = job()
    running.round()
    running.now = 10 * SECOND
    running.round(changed=False)
    running.round(changed=False, uploaded=all_uploaded(1))
    running.round(changed=False)
    assert running.checkpoints.wake() is None
    running.now = 100 * SECOND
    assert running.round(changed=False).checkpoint is None
    assert len(published) == 1
    running.round(changed=True)
    running.now = 200 * SECOND
    assert running.round(changed=False).checkpoint == 2


def test_slots_that_have_nothing_to_do_are_asked_until_they_have_uploaded():
    running, published = job()
    running.round()
    running.now = 10 * SECOND
    running.round(changed=False)
    running.commit(changed=False, uploaded={SLOTS[0]: Uploaded(1), SLOTS[1]: Uploaded(1)})
    wake = running.checkpoints.wake()
    assert running.now < wake <= running.now + SECOND
    running.now = wake
    assert running.round(changed=False).levels == {1}
    running.now = running.checkpoints.wake()
    running.round(changed=False, uploaded={SLOTS[2]: Uploaded(1), SLOTS[3]: Uploaded(1)})
    assert published


def ending(publish=None):
    """A job of which the checkpoint that has everything is there."""
    running, published = job()
    if publish is not None:
        running.checkpoints._publication = publish
    running.round()
    running.checkpoints.enter(DrainPhase.ENDING)
    assert running.round(changed=False).checkpoint == 1
    assert not running.round(changed=False, uploaded=all_uploaded(1)).last
    return running, published


def test_the_end_has_two_checkpoints_and_between_them_everybody_is_told_and_waited_for():
    running, published = ending()
    assert [cut.phase for cut in published] == [DrainPhase.ENDING]
    assert running.checkpoints.wake() == BEGIN
    orders = running.round()  # what slots have told the outside, they write down: no news
    assert (orders.last, orders.published, orders.levels) == (True, 1, {0, 1})
    assert [(cut.number, cut.phase) for cut in published] == [
        (1, DrainPhase.ENDING),
        (2, DrainPhase.DONE),
    ]
    assert published[1].files == published[0].files
    assert running.checkpoints.wake() is None


def test_who_could_not_be_told_is_told_again_before_the_job_is_over():
    running, published = ending()
    running.round(complaints=("t[0]: nobody there",))
    assert len(published) == 1
    assert running.checkpoints.wake() == running.now + SECOND
    running.now += SECOND
    assert running.round().last
    assert published[1].phase is DrainPhase.DONE


def test_if_somebody_cannot_be_told_the_job_fails_and_can_be_taken_up_where_that_is_left():
    running, published = ending()
    for _ in range(2):
        running.round(complaints=("t[0]: nobody there",))
    with pytest.raises(NotAcknowledged, match=r"in 3 attempts: t\[0\]: nobody there"):
        running.round(complaints=("t[0]: nobody there",))
    assert [cut.phase for cut in published] == [DrainPhase.ENDING]


def test_the_checkpoint_that_says_that_it_is_over_may_fail_too_often_as_any_other():
    class Full(Published):
        def is_published(self):
            if self[-1].phase is DrainPhase.DONE:
                message = "no space left"
                raise CheckpointFailed(message)
            return True

    published = Full()
    running, _ = ending(published)
    for number in (2, 4):  # then all of it is done again
        assert running.round().last
        assert published[-1].number == number
        assert running.round().checkpoint == number + 1
        running.round(uploaded=all_uploaded(number + 1))
    said = r"3rd failure in a row; the job fails after 3.*no space left"
    with pytest.raises(CheckpointFailed, match=said):
        running.round()


def test_without_checkpoints_the_outside_is_waited_for_if_it_has_not_answered():
    running = Job(NoCheckpoints())
    running.round(unsettled=1)
    assert running.checkpoints.wake() is None
    running.checkpoints.enter(DrainPhase.ENDING)
    assert running.checkpoints.wake() == BEGIN
    orders = running.round(unsettled=1, complaints=("t[0]: nobody there",))
    assert (orders.last, orders.levels) == (True, {SLOTS[1][0]})
    assert running.checkpoints.wake() == running.now + SECOND
    running.round()
    assert running.checkpoints.wake() is None


def test_without_checkpoints_a_job_of_which_nobody_is_told_just_ends():
    running = Job(NoCheckpoints())
    running.round()
    running.checkpoints.enter(DrainPhase.ENDING)
    assert running.checkpoints.wake() is None


def test_a_job_that_was_cut_in_another_life_is_not_cut_again():
    checkpoints = Checkpointing(10 * SECOND, Published(), number=4, phase=DrainPhase.CUT)
    checkpoints.enter(DrainPhase.TRUNCATED, DrainNotification.create("again", 1))
    assert checkpoints.has_cut
    assert checkpoints.wake() is None


def test_a_cut_whose_checkpoint_failed_is_made_again_at_once():
    running, published = job()
    running.round()
    request = DrainNotification.create("the run", 1)
    running.checkpoints.enter(DrainPhase.CUT, request)
    assert running.round().checkpoint == 1
    running.round(uploaded={SLOTS[0]: Uploaded(1, error="no space left")})
    assert not running.checkpoints.has_cut
    assert running.round().checkpoint == 2
    running.round(uploaded=all_uploaded(2))
    assert running.checkpoints.has_cut
    assert [(cut.number, cut.drain) for cut in published] == [(2, request)]


def test_one_that_fails_is_followed_by_another_and_too_many_in_a_row_fail_the_job():
    running, published = job(attempts=2)
    running.round()
    running.now = 10 * SECOND
    running.round()
    running.round(uploaded={SLOTS[1]: Uploaded(1, error="no space left in /somewhere")})
    assert not published
    running.now = 20 * SECOND
    assert running.round().checkpoint == 2
    running.round(uploaded=all_uploaded(2))
    running.now = 30 * SECOND
    for number in (3, 4):
        running.now += 10 * SECOND
        assert running.round(changed=False).checkpoint == number
        if number == 3:
            running.round(uploaded={SLOTS[0]: Uploaded(3, error="gone")})
    with pytest.raises(CheckpointFailed, match=r"slot 1 of level 1: gone"):
        running.round(uploaded={SLOTS[3]: Uploaded(4, error="gone")})


def test_an_upload_for_a_checkpoint_that_was_given_up_is_no_part_of_the_next():
    running, published = job()
    running.round()
    running.now = 10 * SECOND
    running.round()
    running.round(uploaded={SLOTS[1]: Uploaded(1, error="no space left")})
    running.now = 20 * SECOND
    assert running.round().checkpoint == 2
    late = {SLOTS[0]: Uploaded(1)}
    running.round(uploaded={shard: Uploaded(2) for shard in SLOTS[1:]} | late)
    assert not published
    running.round(uploaded={SLOTS[0]: Uploaded(2)})
    (cut,) = published
    assert {part.number for part in cut.files.values()} == {2}


def test_an_upload_that_never_ends_is_given_up():
    running, published = job(attempts=1)
    running.round()
    running.now = 10 * SECOND
    running.round()
    running.now += 601 * SECOND
    with pytest.raises(CheckpointFailed, match="4 slots have not uploaded"):
        running.round()
    assert not published


def test_what_publishing_says_is_a_failure_of_the_checkpoint():
    class Refused(Published):
        def is_published(self):
            message = f"{self[-1].number} is not ours to publish"
            raise CheckpointFailed(message)

    running = Job(Checkpointing(0, Refused(), 1))
    running.round()
    running.round()
    with pytest.raises(CheckpointFailed, match="1 is not ours"):
        running.round(uploaded=all_uploaded(1))


@given(st.lists(st.tuples(st.sampled_from(SLOTS), st.integers(0, 15), st.booleans()), max_size=60))
def test_whatever_comes_a_checkpoint_has_the_reports_of_the_round_it_covers(
    events,
):
    running, published = job(attempts=1000)
    begun = {}
    for shard, seconds, good in events:
        running.now += seconds * SECOND
        covered = running.number
        orders = running.orders()
        if orders.checkpoint is not None:
            begun[orders.checkpoint] = covered
        newest = max(begun, default=0)
        error = "" if good else "broken"
        running.commit(uploaded={shard: Uploaded(newest, error=error)})
    for cut in published:
        assert cut.round == begun[cut.number]
        assert {report.number for report in cut.reports.values()} == {cut.round}
        assert set(cut.files) == set(SLOTS)
        assert all(part.number == cut.number and not part.error for part in cut.files.values())
    assert [cut.number for cut in published] == sorted({cut.number for cut in published})
