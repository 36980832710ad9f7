"""Drain: sources are cut, and what is left of their restrictions is truncated."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.transforms import window
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from sparkdrain.drain.phases import DrainPhase
from sparkdrain.errors import TruncatedInput
from sparkdrain.rounds.driver.durable import DurableJob
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.drained import drain_after, emitted_when_drained
from tests.support.endless import Endless
from tests.support.recorded import emitted_in_rounds
from tests.support.restrictions import START, Count, LeapingClock, Ranges
from tests.support.scripts import Mark, streamed

TRUNCATED: list = []


@pytest.fixture(autouse=True)
def _forget():
    TRUNCATED.clear()


class UpToNext(Endless):
    """Truncated, goes on to the next hundred."""

    def truncate(self, element, restriction):
        TRUNCATED.append((element, restriction.start))
        stop = -(-restriction.start // 100) * 100
        return OffsetRange(restriction.start, stop)


def reader(provider, seconds=1):
    class Read(beam.DoFn):
        @beam.DoFn.unbounded_per_element()
        def process(self, element, tracker=beam.DoFn.RestrictionParam(provider)):
            position = tracker.current_restriction().start
            for _ in range(3):
                if not tracker.try_claim(position):
                    return
                yield TimestampedValue(position, Timestamp(position))
                position += 1
            tracker.defer_remainder(Duration(seconds))

    return Read()


def numbers_of(*elements, provider, seconds=1):
    return lambda p: p | beam.Create(elements) | beam.ParDo(reader(provider, seconds))


def test_nothing_more_is_read_from_what_has_no_end():
    read = numbers_of((0, 10**9), (10**6, 10**9), provider=Endless())
    before, after = emitted_when_drained(read, 4, clock=LeapingClock())
    assert len(before) > 6
    assert after == []


def test_a_job_that_is_drained_before_it_begins_reads_nothing():
    read = numbers_of((0, 10**9), provider=Endless())
    assert emitted_when_drained(read, 0, clock=LeapingClock()) == ([], [])


def test_what_is_bounded_is_read_to_its_end():
    read = numbers_of((0, 50), (1000, 1100), provider=Ranges())
    for after in (0, 3):
        before, rest = emitted_when_drained(read, after, clock=LeapingClock())
        assert sorted(before + rest) == [*range(50), *range(1000, 1100)]


def test_truncate_says_what_is_still_read_and_is_asked_once():
    read = numbers_of((0, 10**9), (1000, 10**9), provider=UpToNext())
    before, rest = emitted_when_drained(read, 3, clock=LeapingClock())
    assert sorted(before + rest) == [*range(100), *range(1000, 1100)]
    assert sorted(TRUNCATED) == [
        ((0, 10**9), len([n for n in before if n < 1000])),
        ((1000, 10**9), 1000 + len([n for n in before if n >= 1000])),
    ]


def test_who_waits_is_truncated_too_and_does_not_wait_any_longer():
    clock = LeapingClock()
    read = numbers_of((0, 10**9), provider=UpToNext(), seconds=3600)
    before, rest = emitted_when_drained(read, 2, clock=clock)
    assert sorted(before + rest) == list(range(100))
    assert clock.now() / 1e6 - START < 3600 + 60


def test_truncation_goes_on_in_the_next_round_when_the_budget_is_spent():
    elements = [(n * 1000, 10**9) for n in range(1, 8)]
    read = numbers_of(*elements, provider=UpToNext(), seconds=50)
    before, rest = emitted_when_drained(read, 2, clock=LeapingClock(), elements=2, slots=1)
    begun = {n for n in range(1, 8) if n * 1000 in before}
    assert len(begun) > 1
    expected = [number for n in begun for number in range(n * 1000, n * 1000 + 100)]
    # Those that had not begun stand at a full hundred: nothing of them is left.
    assert sorted(before + rest) == sorted(expected)
    assert sorted(element for element, _ in TRUNCATED) == elements


def test_slots_tell_that_restrictions_wait_for_truncation():
    elements = [(n * 1000, 10**9) for n in range(1, 8)]
    read = numbers_of(*elements, provider=UpToNext(), seconds=50)
    told = []

    def begin(rounds):
        tell = rounds.loop.tell

        def look(schedule, reports):
            tell(schedule, reports)
            told.append((rounds.loop.phases.state, any(r.untruncated for r in reports)))

        rounds.loop.tell = look

    emitted_when_drained(read, 2, clock=LeapingClock(), elements=2, slots=1, begin=begin)
    assert (DrainPhase.TRUNCATED, True) in told
    flushing = [waits for phase, waits in told if phase is DrainPhase.FLUSHING]
    assert flushing
    assert not any(flushing)


class Length:
    """A restriction that is false when nothing of it is left but its last number."""

    def __init__(self, start, stop):
        self.start, self.stop = start, stop

    def __len__(self):
        return self.stop - self.start - 1


class LengthCoder(beam.coders.Coder):
    def encode(self, value):
        return f"{value.start} {value.stop}".encode()

    def decode(self, encoded):
        return Length(*map(int, encoded.split()))

    def is_deterministic(self):
        return True


class LengthTracker(beam.io.iobase.RestrictionTracker):
    def __init__(self, length):
        self._length = length
        self._position = None

    def current_restriction(self):
        return self._length

    def try_claim(self, position):
        self._position = position
        return position < self._length.stop

    def try_split(self, fraction_of_remainder):
        return None

    def check_done(self):
        return True

    def is_bounded(self):
        return False


class Lengths(RestrictionProvider):
    def initial_restriction(self, element):
        return Length(0, element)

    def create_tracker(self, restriction):
        return LengthTracker(restriction)

    def restriction_size(self, element, restriction):
        return restriction.stop - restriction.start

    def restriction_coder(self):
        return LengthCoder()

    def truncate(self, element, restriction):
        return Length(restriction.start, restriction.start + 1)


def test_a_restriction_that_is_false_is_not_lost():
    class Read(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Lengths())):
            position = tracker.current_restriction().start
            while tracker.try_claim(position):
                yield element, position
                position += 1

    def build(p):
        return p | beam.Create([5]) | beam.ParDo(Read())

    assert not Lengths().truncate(5, Length(0, 5))
    assert emitted_when_drained(build, 0) == ([], [(5, 0)])


class Refuses(Endless):
    def truncate(self, element, restriction):
        message = f"cannot truncate {restriction}"
        raise ValueError(message)


def test_an_error_in_truncate_tells_the_element():
    read = numbers_of((7, 10**9), provider=Refuses())
    with pytest.raises(ValueError, match="cannot truncate") as raised:
        emitted_when_drained(read, 2, clock=LeapingClock())
    assert "of (7, 1000000000), to drain the job" in "".join(raised.value.__notes__)


class Negative(Endless):
    """Has a size until the restriction is truncated."""

    def truncate(self, element, restriction):
        return OffsetRange(restriction.start, restriction.start + 3)

    def restriction_size(self, element, restriction):
        return 1 if restriction.stop == element[1] else -1


def test_a_size_below_zero_is_refused():
    read = numbers_of((0, 10**9), provider=Negative())
    expected = r"size >= 0 but received -1 for OffsetRange\(.*\), a truncated restriction"
    with pytest.raises(ValueError, match=expected):
        emitted_when_drained(read, 2, clock=LeapingClock())


def test_a_periodic_impulse_ends_at_once():
    def build(p):
        return p | PeriodicImpulse(start_timestamp=START, fire_interval=1) | beam.Map(float)

    before, after = emitted_when_drained(build, 4, clock=LeapingClock())
    assert before
    assert after == []


def test_a_script_is_cut_where_it_is():
    def build(p):
        return p | streamed([("a", 1, 1)], Mark(5), [("a", 2, 6)], [("a", 3, 7)])

    # The first round is before the first event.
    for rounds, given in enumerate([0, 0, 1, 1, 2]):
        before, after = emitted_when_drained(build, rounds)
        assert before == [("a", 1), ("a", 2)][:given]
        assert after == []


def test_a_window_that_was_open_ends_with_what_was_read():
    script = streamed([("a", 1, 1)], [("a", 2, 6), ("b", 5, 3)], [("a", 3, 7)])

    def build(p):
        return (
            p
            | script
            | beam.Map(lambda pair: pair).with_output_types(tuple[str, int])
            | beam.WindowInto(FixedWindows(10))
            | beam.CombinePerKey(sum)
        )

    before, after = emitted_when_drained(build, 3)
    assert before == []
    assert sorted(after) == [("a", 3), ("b", 5)]


def test_rounds_that_fail_while_the_job_is_drained_truncate_nothing_twice():
    failed = []

    def fail(header):
        if header.orders.drain and header.level == 1 and header.slot == 1 and len(failed) < 3:
            failed.append(header.number)
            message = "lost"
            raise TruncatedInput(message)

    read = numbers_of((0, 10**9), (1000, 10**9), provider=UpToNext())
    before, rest = emitted_when_drained(read, 3, clock=LeapingClock(), fail=fail, attempts=9)
    assert len(failed) == 3
    assert sorted(before + rest) == [*range(100), *range(1000, 1100)]


def test_restrictions_of_restrictions_are_truncated_as_they_come():
    def build(p):
        return (
            p
            | beam.Create([(0, 30)])
            | beam.ParDo(Count())
            | beam.Map(lambda n: (n * 1000, 10**9))
            | "then" >> beam.ParDo(reader(UpToNext()))
        )

    before, rest = emitted_when_drained(build, 0, clock=LeapingClock())
    assert before == rest == []
    assert len(TRUNCATED) == 30


def test_a_source_is_drained_while_its_elements_are_grouped():
    def build(p):
        return (
            p
            | beam.Create([(0, 10**9)])
            | beam.ParDo(reader(UpToNext()))
            | beam.WindowInto(window.FixedWindows(40))
            | beam.Map(lambda n: ("all", n))
            | beam.CombinePerKey(sum)
        )

    before, rest = emitted_when_drained(build, 5, clock=LeapingClock())
    assert sum(total for _, total in before + rest) == sum(range(100))


def test_nothing_is_read_while_the_cut_is_made_also_of_what_could_go_on_at_once(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(service, "Uploader", AtOnce)
    held = set()

    def look(header):
        if header.orders.held:
            held.add(header.number)

    kept = emitted_in_rounds(
        lambda p: p | beam.Create([(0, 50)]) | beam.ParDo(Count()),
        begin=lambda rounds: drain_after(3, rounds),
        durable=DurableJob.at(str(tmp_path), "job", "run", {}, 2, 2),
        clock=LeapingClock(),
        elements=6,
        fail=look,
    )
    cut = min(held) - 1
    assert 0 < len([number for part in kept[:cut] for number in part]) < 50
    assert [kept[number - 1] for number in held] == [[]] * len(held)
    assert sorted(number for part in kept for number in part) == list(range(50))
