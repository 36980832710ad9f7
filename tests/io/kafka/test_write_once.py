"""Each record is written once, whoever dies when, and whoever else is at it."""

from __future__ import annotations

import itertools
import threading

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from histories import grown, unpacked

from sparkdrain.io.kafka import ProducerRecord, WriteToKafka, patience
from sparkdrain.io.kafka.client import Partition
from sparkdrain.io.kafka.encoding import Encoding
from sparkdrain.io.kafka.errors import KafkaRefused, KafkaUnreachable, KafkaWriteFailed
from sparkdrain.io.kafka.note import Note, OwnerStage, Recorded
from sparkdrain.io.kafka.outbox import History, may_begin
from sparkdrain.io.kafka.settings import Settings
from sparkdrain.io.kafka.write_once import Group, Number, Publish, Transactional
from sparkdrain.rounds.slots import service
from tests.support.at_once import AtOnce
from tests.support.in_memory_rounds import plan_of
from tests.support.mortal_job import made_in
from tests.support.scripts import streamed


@pytest.fixture(autouse=True)
def _at_once(monkeypatch, kafka):
    monkeypatch.setattr(patience, "_PAUSE", 0.0)
    monkeypatch.setattr(service, "Uploader", AtOnce)
    kafka.topic("out")


SINK = Transactional(Settings("fake"), "sink", "out", "orders")
ANYWAY = Transactional(Settings("fake"), "sink", "out", "", ["sink"])
OWNER, OTHER = b"owner 1.", b"owner 2."
END = "end"


@pytest.fixture(autouse=True)
def _begun(_at_once, kafka):
    """What `Number` tells the brokers before anything is published."""
    for group in range(2):
        begin(kafka, History.begun(0, OWNER), group=group)


def begin(kafka, history, stage=OwnerStage.BEGUN, group=0):
    kafka.recorded[f"sink-{group}"] = SINK.record(history, stage)


def record(content):
    return ProducerRecord(None, b"%d" % content, "out", 0)


def made(*contents, owner=OWNER, group=0, begun_at=0):
    """Elements as `Number` makes them, of a history with these records; then an end, if it is."""
    elements, history = [], History.begun(begun_at, owner)
    for content in contents:
        of = None if content is END else record(content)
        number, (history, stamp) = history.number, grown(history, of)
        of = ProducerRecord((stamp,), None) if of is None else of._replace(key=(stamp, of.key))
        elements.append((group, (number, of)))
    return elements


def history_of(*contents, owner=OWNER, begun_at=0):
    history = History.begun(begun_at, owner)
    for content in contents:
        history, _ = grown(history, record(content))
    return history


def numbered(*numbers, group=0):
    """Elements of one history, as they come to be published; the content is the number."""
    all_ = made(*range(max(numbers) + 1), group=group)
    return [all_[number] for number in numbers]


def of_before(*numbers):
    """Elements that a release without stamps has numbered."""
    return [(0, (number, record(number))) for number in numbers]


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
    assert kafka.numbers["sink-0"] == 5
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
    assert kafka.numbers["sink-0"] == 4


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


def test_groups_are_fenced_at_the_same_time(kafka):
    both = threading.Barrier(2)
    kafka.before = lambda step: step == "fence" and both.wait(30)
    publish([*numbered(0), *numbered(0, group=1)])
    assert kafka.numbers == {"sink-0": 1, "sink-1": 1}


def test_a_group_that_is_not_fenced_with_the_others_is_fenced_later(kafka):
    kafka.before = once("fence", KafkaUnreachable())
    dofn = publish([*numbered(0), *numbered(0, group=1)])
    assert kafka.numbers == {"sink-0": 1, "sink-1": 1}
    dofn.teardown()
    assert kafka.opened == kafka.closed == 3


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


# --- what may not be published ----------------------------------------------------------------


def refuses(elements, why, dofn=None, more=False):
    dofn = dofn or Publish(SINK)
    dofn.more_is_safe(more)
    with pytest.raises(KafkaRefused, match=rf"'sink-0' publishes nothing: {why}") as caught:
        publish(elements, dofn)
    assert "start the job once with --kafka_publish_anyway=sink=20" in str(caught.value)


@pytest.mark.parametrize("first", [0, 3])
def test_offsets_that_brokers_have_forgotten_are_an_error(kafka, first):
    kafka.recorded.clear()
    refuses(numbered(*range(first, 5)), f"the brokers have forgotten.* record {first} ")
    assert written(kafka) == []
    assert kafka.opened == kafka.closed == 1


def test_brokers_that_have_less_than_was_published_are_an_error(kafka):
    begin(kafka, history_of(0, 1), OwnerStage.OPEN)
    refuses(numbered(3, 4), "the brokers lack records.* number is 2, and 3 comes next")
    assert written(kafka) == []


def test_records_that_are_made_again_in_another_order_are_an_error(kafka):
    publish(made(0, 1, 2, 3))
    # The state is of a checkpoint that had two records, and those after it come otherwise.
    refuses(made(0, 1, 3, 2, 4)[2:], "the brokers have other records")
    assert written(kafka) == [0, 1, 2, 3]


def test_records_that_are_made_again_in_the_same_order_are_not_written_again(kafka):
    publish(made(0, 1, 2, 3))
    publish(made(0, 1, 2, 3, 4)[2:])
    assert written(kafka) == [0, 1, 2, 3, 4]


def test_records_before_what_brokers_have_are_compared_too(kafka):
    publish(made(0, 1, 2))
    refuses(made(0, 1, 9, 3)[3:], "the brokers have other records")
    assert written(kafka) == [0, 1, 2]


def test_a_checkpoint_behind_the_brokers_is_an_error(kafka):
    publish(made(0, 1, 2, 3))
    refuses(made(0, 1, 2)[1:], "the brokers have more.* number is 4, .* up to 3")
    assert written(kafka) == [0, 1, 2, 3]


def test_what_a_checkpoint_has_may_come_in_several_bundles(kafka):
    publish(made(0, 1, 2, 3))
    dofn = Publish(SINK)
    dofn.more_is_safe(True)
    publish(made(0, 1), dofn)
    publish(made(0, 1, 2, 3)[2:3], dofn)
    dofn.more_is_safe(False)
    publish(made(0, 1, 2, 3, 4)[3:], dofn)
    assert written(kafka) == [0, 1, 2, 3, 4]


def test_brokers_that_have_more_than_came_in_several_bundles_are_an_error(kafka):
    publish(made(0, 1, 2, 3))
    dofn = Publish(SINK)
    dofn.more_is_safe(True)
    publish(made(0, 1), dofn)
    # All else that the checkpoint has is of another group.
    refuses(numbered(0, group=1), "the brokers have more.* number is 4, .* up to 2", dofn)


def test_another_owner_is_an_error(kafka):
    publish(made(7, 8))
    refuses(made(0, 1, 2, owner=OTHER), r"another job.* \(job 'orders'\)")
    refuses(made(0, owner=OTHER, begun_at=2), "another job")
    assert written(kafka) == [7, 8]


def test_the_first_one_is_an_error_too_once_another_has_begun(kafka):
    publish(made(0, 1))
    begin(kafka, History.begun(2, OTHER))
    refuses(made(0, 1, 2, 3)[2:], "another job")
    assert written(kafka) == [0, 1]


def test_a_job_that_has_begun_and_was_ended_does_no_harm(kafka):
    publish(made(0, 1))
    kafka.recorded["sink-0"] = SINK.record(
        History.begun(2, OTHER), OwnerStage.BEGUN, kafka.recorded["sink-0"]
    )
    kafka.recorded["sink-0"] = SINK.record(
        History.begun(2, b"owner 3."), OwnerStage.BEGUN, kafka.recorded["sink-0"]
    )
    refuses(made(0, 2), "the brokers have other records")
    publish(made(0, 1, 2)[1:])
    refuses(made(7, owner=OTHER, begun_at=2), "another job")
    assert written(kafka) == [0, 1, 2]


def test_a_process_that_was_replaced_may_have_begun_after_its_successor(kafka):
    begin(kafka, History.begun(0, OTHER))
    publish(made(0, 1))
    refuses(made(7, owner=OTHER), "another job")
    assert written(kafka) == [0, 1]


@pytest.mark.parametrize("metadata", ["x", "{}", '{"sparkdrain":2}', "[1]"])
def test_metadata_of_others_is_an_error(kafka, metadata):
    kafka.recorded["sink-0"] = Recorded(0, metadata)
    refuses(numbered(0), "the metadata of the group's offset is none")
    assert written(kafka) == []


@pytest.mark.parametrize(
    "found",
    [
        None,
        SINK.record(history_of(0), OwnerStage.OPEN),
        SINK.record(history_of(0, 1, 2, 3, 4), OwnerStage.OPEN),
        SINK.record(history_of(9, owner=OTHER), OwnerStage.OPEN),
        Recorded(3, "x"),
    ],
)
def test_what_is_overruled_is_written_with_a_warning_and_then_goes_on(kafka, found, caplog):
    kafka.recorded.clear()
    if found is not None:
        kafka.recorded["sink-0"] = found
    dofn = Publish(ANYWAY)
    dofn.more_is_safe(False)
    publish(numbered(2, 3), dofn)
    assert "records may be written twice" in caplog.text
    caplog.clear()
    publish(numbered(4), dofn)
    publish(numbered(4, 5))
    assert written(kafka) == [2, 3, 4, 5]
    assert caplog.text == ""


# --- the end of a group -----------------------------------------------------------------------


def note(kafka, ident="sink-0"):
    return kafka.recorded[ident].note()


def test_the_end_is_noted_and_is_no_record(kafka):
    elements = made(0, 1, END)
    publish(elements[:1])
    assert note(kafka).stage is OwnerStage.OPEN
    publish(elements)
    publish(elements)
    assert note(kafka) == Note(OWNER, note(kafka).digest, OwnerStage.OVER, "orders")
    assert written(kafka) == [0, 1]
    assert kafka.numbers["sink-0"] == 3
    assert may_begin(kafka.recorded["sink-0"]) is None


# --- jobs of a release that has noted numbers only --------------------------------------------


def test_records_of_an_earlier_release_are_compared_by_number_and_noted_as_it_did(kafka):
    kafka.recorded["sink-0"] = Recorded(2)
    publish(of_before(0, 1, 2, 3))
    assert written(kafka) == [2, 3]
    assert kafka.recorded["sink-0"] == Recorded(4)
    # If the job goes on from there once more, its history is another one.
    publish([*of_before(3), *made(4, 5, owner=OTHER, begun_at=4)])
    assert written(kafka) == [2, 3, 4, 5]
    assert note(kafka).owner == OTHER
    publish([*of_before(3), *made(4, 5, 6, owner=OTHER, begun_at=4)])
    assert written(kafka) == [2, 3, 4, 5, 6]


def test_the_first_records_of_an_earlier_release_have_no_record_yet(kafka):
    kafka.recorded.clear()
    refuses(of_before(1, 2), "the brokers have forgotten")
    publish([*of_before(0, 1), *made(2, begun_at=2)])
    assert written(kafka) == [0, 1, 2]
    assert note(kafka).owner == OWNER


def test_records_of_an_earlier_release_may_come_before_those_that_are_there(kafka):
    begin(kafka, history_of(2, 3, begun_at=2), OwnerStage.OPEN)
    dofn = Publish(SINK)
    dofn.more_is_safe(True)
    publish(of_before(0, 1), dofn)
    dofn.more_is_safe(False)
    publish(made(2, 3, 4, begun_at=2), dofn)
    assert written(kafka) == [4]


def test_an_earlier_release_that_has_gone_on_is_noticed(kafka):
    kafka.recorded["sink-0"] = Recorded(4)
    refuses([*of_before(1, 2), *made(3, 4, begun_at=3)], "another job")
    refuses(of_before(1, 2), "the brokers have more")
    kafka.recorded["sink-0"] = Recorded(0)
    refuses(of_before(1, 2), "the brokers lack records")
    begin(kafka, history_of(2, 3, begun_at=2), OwnerStage.OPEN)
    refuses(of_before(0, 1, 2, 3, 4), "the brokers have more")
    assert written(kafka) == []


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


class Timer:
    """An event-time timer that knows when it is to fire."""

    time = None

    def set(self, time):
        self.time = time


def number(cell, *values, group=0, sink=SINK, before=None, timer=None):
    dofn = Number(sink)
    found = [
        pair
        for value in values
        for pair in dofn.process((group, record(value)), Cell(before), cell, timer or Timer())
    ]
    assert [of for of, _ in found] == [group] * len(values)
    assert [(of.key[1], of.value) for _, (_, of) in found] == [(None, b"%d" % v) for v in values]
    return [number for _, (number, _) in found]


def test_numbers_go_on_where_the_brokers_are_and_then_without_them(kafka):
    begin(kafka, History.begun(5, OTHER), OwnerStage.OVER, group=3)
    cell = Cell()
    kafka.before = once("fence", KafkaUnreachable())
    assert number(cell, 1, 2, group=3) == [5, 6]
    assert kafka.opened == kafka.closed == 2
    assert number(cell, 3, group=3) == [7]
    assert number(Cell(), 4, group=4) == [0]
    assert kafka.opened == kafka.closed == 3


def test_a_group_that_begins_is_told_to_the_brokers(kafka):
    cell = Cell()
    begin(kafka, History.begun(5, OTHER), OwnerStage.OVER, group=3)
    digest = note(kafka, "sink-3").digest
    number(cell, 1, group=3)
    history = unpacked(cell.content)
    begun = History.begun(5, history.owner)
    before = kafka.recorded["sink-3"]
    assert before.note() == Note(*begun[1:], OwnerStage.BEGUN, "orders", (OTHER, digest))
    assert before.number == 5
    assert history == grown(begun, record(1))[0]
    assert history.owner != OTHER


def test_each_start_has_an_owner_of_its_own(kafka):
    cells = Cell(), Cell()
    for cell in cells:
        number(cell, 1)
    one, other = (unpacked(cell.content) for cell in cells)
    assert one.owner != other.owner


def test_what_another_job_is_not_done_with_is_not_taken_over(kafka, caplog):
    begin(kafka, history_of(0, 1, owner=OTHER), OwnerStage.OPEN)
    with pytest.raises(KafkaRefused, match=r"\(job 'orders'\), and was not drained"):
        number(Cell(), 5)
    assert note(kafka).owner == OTHER
    assert kafka.opened == kafka.closed
    assert number(Cell(), 5, sink=ANYWAY) == [2]
    assert "although the brokers' record speaks against it (open)" in caplog.text
    assert note(kafka).stage is OwnerStage.BEGUN


def test_metadata_of_others_is_not_taken_over(kafka):
    kafka.recorded["sink-0"] = Recorded(2, "x")
    with pytest.raises(KafkaRefused, match="is none that this release can read"):
        number(Cell(), 5)


def test_a_number_of_an_earlier_release_is_gone_on_from_with_a_warning(kafka, caplog):
    kafka.recorded["sink-0"] = Recorded(7)
    assert number(Cell(), 1, 2) == [7, 8]
    assert "goes on behind 7 records of a job that an earlier release has run" in caplog.text
    assert note(kafka).stage is OwnerStage.BEGUN


def test_state_of_an_earlier_release_is_gone_on_from_without_brokers(kafka):
    cell, timer = Cell(), Timer()
    assert number(cell, 1, 2, before=4, timer=timer) == [4, 5]
    assert number(cell, 3, before=4) == [6]
    assert kafka.opened == 0
    assert timer.time == GlobalWindow().max_timestamp()


def test_a_group_may_begin_without_a_record(kafka):
    cell, timer = Cell(), Timer()
    begun = (0, ProducerRecord(None, None))
    assert list(Number(SINK).process(begun, Cell(), cell, timer)) == []
    history = unpacked(cell.content)
    assert kafka.recorded["sink-0"].note().owner == history.owner
    assert timer.time == GlobalWindow().max_timestamp()
    assert list(Number(SINK).process(begun, Cell(), cell, timer)) == []
    assert number(cell, 1, 2) == [0, 1]


def test_the_end_of_a_group_is_the_last_that_is_numbered(kafka):
    timer, cell = Timer(), Cell()
    number(cell, 1, timer=timer)
    assert timer.time == GlobalWindow().max_timestamp()
    ((group, (last, end)),) = Number(SINK).end(0, cell)
    assert (group, last, len(end.key)) == (0, 1, 1)
    assert number(cell, 2) == [2]


def test_nobody_goes_on_with_transactions_of_a_job_that_was_before(kafka):
    def begin_anew():
        assert number(Cell(), 7) == [0]

    kafka.before = once("commit", begin_anew)
    publish(numbered(0))
    # It was fenced, and has asked again what there is.
    assert kafka.epochs["sink-0"] == 3
    assert written(kafka) == [0]


def group(element, groups=7, **settings):
    dofn = Group(Encoding("out", None, None), groups, event_time=False, **settings)
    *begun, (found, record) = dofn.process(element, Timestamp(0))
    assert [of for of, _ in begun] == list(range(groups))
    assert [of.topic for _, of in begun] == [None] * groups
    assert len(list(dofn.process(element, Timestamp(0)))) == 1
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
        if record.topic is not None
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

    kafka.recorded.clear()
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
    # Its input has ended, so that another job may go on.
    assert {recorded.note().stage for recorded in kafka.recorded.values()} == {OwnerStage.OVER}
