"""Each record is written once, whoever dies when, and whoever else is at it."""

from __future__ import annotations

import itertools

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.io.kafka import ProducerRecord, WriteToKafka, patience
from sparkdrain.io.kafka.client import Partition
from sparkdrain.io.kafka.errors import KafkaRefused, KafkaUnreachable, KafkaWriteFailed
from sparkdrain.io.kafka.settings import Settings
from sparkdrain.io.kafka.write import Encoding
from sparkdrain.io.kafka.write_once import Group, Number, Publish, Transactional
from sparkdrain.rounds.slots import open_slot
from tests.support.at_once import AtOnce
from tests.support.in_memory_rounds import plan_of
from tests.support.mortal_job import made_in
from tests.support.scripts import streamed


@pytest.fixture(autouse=True)
def _at_once(monkeypatch, kafka):
    monkeypatch.setattr(patience, "_PAUSE", 0.0)
    monkeypatch.setattr(open_slot, "Uploader", AtOnce)
    kafka.topic("out")


SINK = Transactional(Settings("fake"), "sink", "out")


def numbered(*numbers, group=0):
    """Elements as they come to be published; the value is the number."""
    return [(group, (n, ProducerRecord(None, b"%d" % n, "out", 0))) for n in numbers]


def publish(elements, dofn=None):
    dofn = dofn or Publish(SINK)
    dofn.start_bundle()
    for element in elements:
        dofn.process(element)
    dofn.finish_bundle()
    return dofn


def written(kafka):
    return [int(value) for value in kafka.values("out")]


def once(step, *actions):
    """Does each of these before one such step, one after the other."""
    left = list(actions)

    def before(what):
        if what == step and left:
            action = left.pop(0)
            if isinstance(action, Exception):
                raise action
            action()

    return before


def test_records_are_written_in_the_order_of_their_numbers(kafka):
    dofn = publish(numbered(2, 0, 1))
    publish(numbered(4, 3), dofn)
    assert written(kafka) == [0, 1, 2, 3, 4]
    assert kafka.numbers == {"sink-0": 5}
    assert kafka.opened == 1
    dofn.teardown()
    assert kafka.closed == 1


def test_what_comes_again_is_not_written_again(kafka):
    dofn = publish(numbered(0, 1))
    publish(numbered(0, 1), dofn)
    publish(numbered(0, 1))
    publish(numbered(0, 1, 2, 3))
    publish(numbered(1, 2))
    assert written(kafka) == [0, 1, 2, 3]
    assert kafka.numbers == {"sink-0": 4}


@pytest.mark.parametrize("step", ["fence", "recorded", "begin", "send", "record", "commit"])
@pytest.mark.parametrize("error", [KafkaUnreachable(), KafkaWriteFailed()])
def test_a_transaction_that_failed_is_begun_anew(kafka, step, error):
    dofn = publish(numbered(0))
    kafka.before = once(step, error)
    publish(numbered(1, 2), dofn)
    publish(numbered(3))
    assert written(kafka) == [0, 1, 2, 3]
    dofn.teardown()
    assert kafka.opened == kafka.closed + 1


def test_a_commit_of_which_nobody_heard_is_not_repeated(kafka):
    kafka.before = once("committed", KafkaUnreachable())
    publish(numbered(0, 1))
    assert written(kafka) == [0, 1]
    assert kafka.opened == 2
    assert kafka.closed == 1


@pytest.mark.parametrize("step", ["recorded", "begin", "send", "record", "commit"])
def test_who_was_replaced_while_it_wrote_writes_nothing(kafka, step):
    kafka.before = once(step, lambda: publish(numbered(0, 1)))
    publish(numbered(0, 1))
    assert written(kafka) == [0, 1]


def test_what_is_written_to_one_group_is_of_no_concern_to_another(kafka):
    both = [*numbered(0, 1), *numbered(0, 1, 2, group=1)]
    dofn = publish(both)
    publish(both, dofn)
    assert kafka.numbers == {"sink-0": 2, "sink-1": 3}
    assert sorted(written(kafka)) == [0, 0, 1, 1, 2]


def test_records_of_a_bundle_that_was_given_up_are_not_part_of_the_next(kafka):
    dofn = Publish(SINK)
    dofn.start_bundle()
    dofn.process(numbered(0)[0])
    publish(numbered(0, 1), dofn)
    assert written(kafka) == [0, 1]


def test_numbers_with_a_gap_are_never_written(kafka):
    with pytest.raises(AssertionError, match="no gaps"):
        publish(numbered(0, 2))
    assert written(kafka) == []


@pytest.mark.parametrize(
    ("recorded", "told"), [(2, "the brokers lack records"), (None, "the brokers have forgotten")]
)
def test_brokers_that_know_less_than_was_written_are_an_error(kafka, recorded, told):
    if recorded is not None:
        kafka.numbers["sink-0"] = recorded
    with pytest.raises(KafkaRefused, match=f"'sink-0' publishes nothing: {told}.* 3"):
        publish(numbered(3, 4))
    assert written(kafka) == []
    assert kafka.opened == kafka.closed == 1


def test_who_cannot_fence_leaves_no_connection(kafka):
    kafka.before = once("fence", KafkaRefused("no"))
    with pytest.raises(KafkaRefused):
        SINK.open(0)
    assert kafka.opened == kafka.closed == 1


# --- numbers and groups -----------------------------------------------------------------------


class Cell:
    def __init__(self, content=None):
        self.content = content

    def read(self):
        return self.content

    def write(self, content):
        self.content = content


def number(cell, *values, group=0):
    dofn = Number(SINK)
    found = [pair for value in values for pair in dofn.process((group, value), cell)]
    assert [value for _, (_, value) in found] == list(values)
    assert {of for of, _ in found} <= {group}
    return [number for _, (number, _) in found]


def test_numbers_go_on_where_the_brokers_are_and_then_without_them(kafka):
    kafka.numbers["sink-3"] = 5
    cell = Cell()
    kafka.before = once("fence", KafkaUnreachable())
    assert number(cell, "a", "b", group=3) == [5, 6]
    assert kafka.opened == kafka.closed == 2
    assert number(cell, "c", group=3) == [7]
    assert number(Cell(), "d") == [0]
    assert kafka.opened == kafka.closed == 3


def test_nobody_goes_on_with_transactions_of_a_job_that_was_before(kafka):
    def begin():
        assert number(Cell(), "a") == [0]

    kafka.before = once("commit", begin)
    publish(numbered(0))
    # It was fenced, and has asked again what there is.
    assert kafka.epochs["sink-0"] == 3
    assert written(kafka) == [0]


def group(element, groups=7, **settings):
    dofn = Group(Encoding("out", None, None), groups, event_time=False, **settings)
    ((found, record),) = dofn.process(element, Timestamp(0))
    return found, record


def test_records_of_a_key_are_of_one_group_and_others_of_all():
    assert len({group((b"key", b"%d" % n))[0] for n in range(20)}) == 1
    assert {group((b"%d" % n, b""))[0] for n in range(99)} == set(range(7))
    assert {group((None, b"%d" % n))[0] for n in range(99)} == set(range(7))
    assert group((None, None))[1].topic == "out"


def test_a_record_has_the_time_of_its_element_unless_it_says_so_itself():
    dofn = Group(Encoding("out", None, None), 1, event_time=True)
    own = ProducerRecord(b"", b"", timestamp=7)
    times = [
        record.timestamp
        for element in ((b"", b""), own)
        for _, record in dofn.process(element, Timestamp(5))
    ]
    assert times == [5000, 7]


# --- in a job ---------------------------------------------------------------------------------

STEPS = [[(key, n, n) for n, key in enumerate("abcab", 5 * step)] for step in range(6)]


@pytest.mark.parametrize(
    ("slots", "deaths"),
    [([2], []), ([2], [5, 9, 14]), ([1, 3], [12, 3, 20]), ([3, 2], [7, 7, 7, 7]), ([2], [25, 30])],
)
def test_each_element_of_a_job_that_dies_is_written_once(kafka, slots, deaths):
    fresh = itertools.count()

    def unstable(element):
        # Another one each time that the step is run.
        return element[0].encode(), b"%d %d" % (element[1], next(fresh))

    pipeline = beam.Pipeline(options=PipelineOptions([]))
    records = pipeline | streamed(*STEPS) | beam.Map(unstable)
    _ = records | WriteToKafka("fake", "out", exactly_once="sink", groups=2)
    made_in((slots, deaths), plan_of(pipeline))
    found = [int(value.split()[0]) for value in kafka.values("out")]
    assert sorted(found) == list(range(30))
    by_key = {}
    for record in kafka.logs[Partition("out", 0)].records:
        by_key.setdefault(record.key, []).append(int(record.value.split()[0]))
    assert all(own == sorted(own) for own in by_key.values())
