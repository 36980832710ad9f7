"""However often it crashes, and whoever else is at it, each entry is published once, in order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sparkdrain.io.kafka.outbox import Older, Outbox, Publish, Verdict, decide, publish

outboxes = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(
    lambda pair: Outbox(pair[0], sum(pair))
)


class Fenced(Exception):
    pass


class Crash(Exception):
    pass


class Brokers:
    """Transactions of one id: visible is what was committed."""

    def __init__(self) -> None:
        self.visible: list[object] = []
        self.number: int | None = None
        self.epoch = 0


class Producer:
    """One of those that have the id; dies after so many calls."""

    def __init__(self, brokers: Brokers, calls: int) -> None:
        self.brokers = brokers
        self.calls = calls
        self.sent: list[object] = []
        self.noted: int | None = None

    def _call(self) -> None:
        self.calls -= 1
        if self.calls < 0:
            raise Crash

    def fence(self) -> None:
        self._call()
        self.brokers.epoch += 1
        self.epoch = self.brokers.epoch

    def recorded(self) -> int | None:
        self._call()
        return self.brokers.number

    def begin(self) -> None:
        self._call()
        self.sent, self.noted, self.over = [], None, False

    def send(self, entry: object) -> None:
        self._call()
        self.sent.append(entry)

    def record(self, number: int) -> None:
        self._call()
        self.noted = number

    def commit(self) -> None:
        self._call()
        if self.epoch != self.brokers.epoch or self.over:
            raise Fenced
        self.over = True
        self.brokers.visible += self.sent
        self.brokers.number = self.noted
        self._call()  # it is committed, but nobody hears of it


class Job(RuleBasedStateMachine):
    """Rounds, checkpoints, publishers that die half-way, restarts from the newest checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.brokers = Brokers()
        self.fresh = 0
        self.outbox, self.entries = Outbox(), {}
        self.checkpoint = (self.outbox, dict(self.entries))
        self.covered: list[object] = []
        self.half_done: list[tuple[Producer, Outbox]] = []

    @rule(count=st.integers(1, 3))
    def a_round_adds_entries(self, count):
        self.outbox, numbers = self.outbox.added(count)
        for number in numbers:
            # Never the same again, even if it is the same round that is run again.
            self.fresh += 1
            self.entries[number] = (number, self.fresh)

    @rule()
    def a_checkpoint_is_published(self):
        self.checkpoint = (self.outbox, dict(self.entries))
        known = {number for number, _ in self.covered}
        self.covered += [entry for n, entry in sorted(self.entries.items()) if n not in known]

    @rule(calls=st.integers(0, 12))
    def entries_are_published_until_something_dies(self, calls):
        covered, entries = self.checkpoint
        producer = Producer(self.brokers, calls)
        try:
            result = publish(covered, lambda numbers: [entries[n] for n in numbers], producer)
        except Crash:
            return
        assert isinstance(result, int)
        self.outbox, deleted = self.outbox.without(result)
        for number in deleted:
            del self.entries[number]

    @rule(calls=st.integers(2, 6))
    def somebody_hangs_in_the_midst_of_a_transaction(self, calls):
        covered, entries = self.checkpoint
        producer = Producer(self.brokers, calls)
        try:
            publish(covered, lambda numbers: [entries[n] for n in numbers], producer)
        except Crash:
            if producer.noted is not None:
                self.half_done.append((producer, covered))

    @precondition(lambda self: self.half_done)
    @rule()
    def it_wakes_up_and_wants_to_commit(self):
        producer, _ = self.half_done.pop()
        producer.calls = 5
        try:
            producer.commit()
        except Fenced:
            return

    @rule()
    def the_job_goes_on_from_its_checkpoint(self):
        outbox, entries = self.checkpoint
        self.outbox, self.entries = outbox, dict(entries)

    @invariant()
    def what_is_visible_is_what_checkpoints_cover_in_order(self):
        assert self.brokers.visible == self.covered[: len(self.brokers.visible)]

    def teardown(self):
        covered, entries = self.checkpoint
        result = publish(
            covered, lambda numbers: [entries[n] for n in numbers], Producer(self.brokers, 10_000)
        )
        assert result == covered.next
        assert self.brokers.visible == self.covered


TestJob = Job.TestCase
TestJob.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def entries(numbers):
    return list(numbers)


def test_the_number_is_read_when_nobody_else_can_change_it_any_more():
    class Late(Producer):
        """Fences when another one, that was before, has just committed."""

        def fence(self):
            other.commit()
            super().fence()

    brokers = Brokers()
    other = Producer(brokers, 7)
    other.fence()
    other.begin()
    other.send(0)
    other.record(1)
    assert publish(Outbox(0, 2), entries, Late(brokers, 20)) == 2
    assert brokers.visible == [0, 1]


def test_who_was_before_cannot_commit_any_more():
    brokers = Brokers()
    old = Producer(brokers, 4)
    with pytest.raises(Crash):
        publish(Outbox(0, 2), entries, old)
    assert publish(Outbox(0, 2), entries, Producer(brokers, 20)) == 2
    old.calls = 5
    with pytest.raises(Fenced):
        old.commit()
    assert brokers.visible == [0, 1]


def test_what_was_published_is_not_published_again_and_comes_in_order():
    brokers = Brokers()
    outbox, numbers = Outbox().added(3)
    assert numbers == range(3)
    for _ in range(2):
        assert publish(outbox, entries, Producer(brokers, 20)) == 3
    outbox, numbers = outbox.without(3)[0].added(2)
    assert (outbox, numbers) == (Outbox(3, 5), range(3, 5))
    for _ in range(2):
        assert publish(outbox, entries, Producer(brokers, 20)) == 5
    assert brokers.visible == [0, 1, 2, 3, 4]


@given(outboxes, st.integers(0, 20))
def test_what_is_published_follows_what_is_recorded_and_ends_with_the_checkpoint(covered, number):
    decision = decide(covered, number)
    if covered.first <= number <= covered.next:
        assert decision == Publish(range(number, covered.next), covered.next)
    else:
        assert isinstance(decision, Verdict)


def test_going_on_from_an_older_checkpoint_is_refused_unless_somebody_decides():
    assert decide(Outbox(2, 5), 7) is Verdict.OLDER
    skipped = decide(Outbox(2, 5), 7, Older.SKIP)
    assert skipped == Publish(range(5, 5), 7)


def test_a_record_that_brokers_have_lost_is_not_taken_for_a_new_job():
    assert decide(Outbox(0, 3), None) == Publish(range(3), 3)
    assert decide(Outbox(1, 3), None) is Verdict.FORGOTTEN


def test_a_record_of_something_else_is_noticed():
    assert decide(Outbox(4, 6), 2) is Verdict.GAP


@pytest.mark.parametrize(
    ("recorded", "verdict"), [(9, Verdict.OLDER), (1, Verdict.GAP), (None, Verdict.FORGOTTEN)]
)
def test_what_may_not_be_published_is_refused_to_the_caller(recorded, verdict):
    brokers = Brokers()
    brokers.number = recorded
    assert publish(Outbox(2, 5), entries, Producer(brokers, 20)) is verdict
    assert (brokers.visible, brokers.number) == ([], recorded)


@given(outboxes, st.integers(0, 30))
def test_only_what_was_published_is_deleted(outbox, published):
    after, deleted = outbox.without(published)
    assert after.next == outbox.next
    assert list(deleted) == [n for n in range(outbox.first, outbox.next) if n < published]
    assert after.first == max(outbox.first, min(published, outbox.next))


def test_nothing_new_costs_no_transaction():
    brokers = Brokers()
    brokers.number = 3
    # Fence and record are all that it may call.
    assert publish(Outbox(1, 3), lambda _: pytest.fail("asked"), Producer(brokers, 2)) == 3
