"""No resume, older checkpoint, copy, expiry or kill loses or doubles a record without an error."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from once_world import GROUPS, PARTITIONS, Crash, Job, World

from sparkdrain.io.kafka import choose, patience
from sparkdrain.io.kafka.errors import KafkaFailed, KafkaRefused

ORDERS = st.lists(st.integers(0, PARTITIONS - 1), min_size=1, max_size=4)
STEPS = st.none() | st.integers(0, 30)


class Law(RuleBasedStateMachine):
    """Jobs of one sink's name, and all that may happen to them."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.world = World()
        self.patch.setattr(choose, "open_client", self.world.kafka.open_client)
        self.patch.setattr(patience, "_PAUSE", 0.0)
        self.jobs = [Job(self.world)]
        self.zombies = []
        self.may_begin = True
        self.count = 0

    def teardown(self):
        self.world.crash_after(None)
        for job in self.jobs:
            if job.lives:
                self.it_comes_to_rest(job)
        self.patch.undo()

    def attempt(self, job, *steps):
        """Do this in a life of the job; an error ends the life, and is the law's error."""
        try:
            for step in steps:
                step()
        except (KafkaFailed, Crash):
            self.zombies = [*self.zombies[-2:], job.kill()]
            return False
        finally:
            self.world.crash_after(None)
        return True

    @staticmethod
    def knows_the_sink(job):
        """Whether all checkpoints of a job have state of the sink.

        A job that has read, and written nothing, cannot know what happened in the sink meanwhile.
        """
        return bool(job.folder and job.folder[0].cells)

    def job(self, data, *, lives):
        jobs = [job for job in self.jobs if job.lives == lives]
        return data.draw(st.sampled_from(jobs)) if jobs else None

    @rule(partition=st.integers(0, PARTITIONS - 1), count=st.integers(1, 3))
    def there_is_more_to_read(self, partition, count):
        for _ in range(count):
            self.world.source[partition].append(self.count)
            self.count += 1

    @rule(data=st.data(), order=ORDERS, steps=STEPS)
    def a_round(self, data, order, steps):
        if job := self.job(data, lives=True):
            self.world.crash_after(steps)
            self.attempt(job, lambda: job.read(order))

    @rule(data=st.data())
    def a_checkpoint(self, data):
        if job := self.job(data, lives=True):
            job.checkpoint()

    @rule(data=st.data(), batches=st.none() | st.integers(0, 3), steps=STEPS)
    def what_a_checkpoint_has_is_published(self, data, batches, steps):
        if job := self.job(data, lives=True):
            self.world.crash_after(steps)
            self.attempt(job, lambda: job.release(batches))

    @rule(data=st.data())
    def a_kill(self, data):
        if job := self.job(data, lives=True):
            self.zombies = [*self.zombies[-2:], job.kill()]

    @rule(data=st.data())
    def somebody_who_was_replaced_does_not_know_it(self, data):
        if self.zombies:
            try:
                data.draw(st.sampled_from(self.zombies)).finish_bundle()
            except KafkaFailed:
                return

    @rule(data=st.data())
    def a_resume(self, data):
        job = self.job(data, lives=False)
        if job is not None and (self.may_begin or job.folder):
            job.resume()

    @rule(data=st.data(), checkpoints=st.integers(1, 3))
    def an_older_checkpoint_is_put_in_place(self, data, checkpoints):
        if job := self.job(data, lives=False):
            job.lose(checkpoints)

    @precondition(lambda self: 0 < len(self.jobs) < 4)
    @rule(data=st.data())
    def a_copy(self, data):
        self.jobs.append(data.draw(st.sampled_from(self.jobs)).copy())

    @precondition(lambda self: len(self.jobs) < 4)
    @rule()
    def another_job(self):
        self.jobs.append(Job(self.world))

    @rule(group=st.integers(0, GROUPS - 1))
    def offsets_expire(self, group):
        self.may_begin = False
        self.world.forget(group)
        self.jobs = [job for job in self.jobs if self.knows_the_sink(job)]

    @rule(data=st.data(), steps=STEPS)
    def a_drain(self, data, steps):
        if job := self.job(data, lives=True):
            self.world.crash_after(steps)
            if self.attempt(job, job.end, job.checkpoint, job.release):
                assert not job.missing()
                self.world.committed = job.state.positions
                self.jobs = [
                    one for one in self.jobs if one is not job and self.knows_the_sink(one)
                ]
            else:
                # A drain is finished before another job begins: groups end one after the other.
                self.may_begin = False

    @rule(data=st.data())
    def rest(self, data):
        if job := self.job(data, lives=True):
            self.it_comes_to_rest(job)

    def it_comes_to_rest(self, job):
        if self.attempt(job, job.read_all, job.checkpoint, job.release):
            assert not job.missing()

    @invariant()
    def nothing_is_there_twice(self):
        written = self.world.written()
        assert len(written) == len(set(written))


TestLaw = Law.TestCase
TestLaw.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


# --- each once, by itself: what was lost or doubled before -------------------------------------


@pytest.fixture
def world(monkeypatch):
    made = World()
    monkeypatch.setattr(choose, "open_client", made.kafka.open_client)
    monkeypatch.setattr(patience, "_PAUSE", 0.0)
    made.source = [[0, 1, 2, 3, 4, 5], [10, 11, 12, 13, 14, 15]]
    return made


def started(world, **how):
    job = Job(world, **how)
    job.resume()
    return job


def runs(job, *orders):
    """Each order is a round with a checkpoint, whose records are published."""
    for order in orders:
        job.read(order)
        job.checkpoint()
        job.release()


def is_refused(job, why, *orders):
    with pytest.raises(KafkaRefused, match=why):
        runs(job, *orders)
    assert len(job.world.written()) == len(set(job.world.written()))
    job.kill()


def test_an_older_checkpoint_is_refused_if_records_come_in_another_order(world):
    job = started(world)
    runs(job, [0, 1], [0, 0, 0, 1], [1, 1])
    job.kill()
    job.lose(2)
    job.resume()
    is_refused(job, "the brokers have", [1, 1, 1, 1, 1, 0, 0, 0, 0, 0])


def test_an_older_checkpoint_goes_on_if_records_come_in_the_same_order(world):
    job = started(world)
    runs(job, [0, 1], [0, 0, 1])
    job.kill()
    job.lose(1)
    job.resume()
    runs(job, [0, 0, 1, 1], [0, 1])
    assert sorted(world.written()) == [0, 1, 2, 3, 10, 11, 12, 13]


def test_another_job_of_the_name_is_refused(world):
    runs(started(world), [0, 1])
    is_refused(started(world), "was not drained", [0, 1])


def test_a_copy_that_has_gone_on_is_noticed(world):
    job = started(world)
    runs(job, [0, 1])
    copy = job.copy()
    copy.resume()
    runs(copy, [1, 1, 1, 0, 0])
    is_refused(job, "the brokers have", [0, 0, 0, 0, 1])


def test_offsets_that_have_expired_are_noticed_before_the_first_record(world):
    job = started(world)
    job.read([0, 1, 0])
    job.checkpoint()
    job.release()
    job.kill()
    job.lose(0)
    for group in range(GROUPS):
        world.forget(group)
    job.resume()
    is_refused(job, "the brokers have forgotten", [0])


def test_a_job_that_was_idle_for_too_long_goes_on_if_that_is_overruled(world):
    job = started(world, overruled=["sink"])
    runs(job, [0, 1])
    job.checkpoint()  # nothing is on the way
    job.kill()
    for group in range(GROUPS):
        world.forget(group)
    job.resume()
    runs(job, [0, 0], [1, 1])
    assert sorted(world.written()) == [0, 1, 2, 10, 11, 12]


def test_a_job_goes_on_behind_one_that_was_drained(world):
    job = started(world)
    job.read([0, 1, 0, 0])
    job.end()
    job.checkpoint()
    job.release()
    world.committed = job.state.positions
    again = started(world)
    again.read_all()
    runs(again, [])
    assert sorted(world.written()) == sorted([*world.source[0], *world.source[1]])
    is_refused(started(world), "was not drained", [0])


def test_a_start_by_mistake_in_the_midst_of_a_drain_does_no_harm(world):
    job = started(world)
    runs(job, [0, 0, 0, 0, 0])
    stages = [recorded.note().stage.value for recorded in world.kafka.recorded.values()]
    assert stages == ["open"] * GROUPS
    job.read([1, 1, 1, 1, 1])
    job.end()
    job.checkpoint()
    committed = []

    def kill_when_a_group_is_over(step):
        if step == "committed":
            committed.append(step)
        elif committed:
            raise Crash

    world.kafka.before = kill_when_a_group_is_over
    with pytest.raises(Crash):
        job.release()
    world.crash_after(None)
    stages = [recorded.note().stage.value for recorded in world.kafka.recorded.values()]
    assert sorted(stages) == ["open", "over"]
    is_refused(started(world), "was not drained", [0, 1])
    job.kill()
    job.resume()
    job.release()
    assert not job.missing()
    assert sorted(world.written()) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
