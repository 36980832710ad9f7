"""What a slot remembers of a drain, through the end of its process and in other slots."""

from __future__ import annotations

from typing import ClassVar

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from test_drain_messages_decide import Crash, live

from sparkdrain.rounds.slots import service
from sparkdrain.rounds.slots.drain_memory import DrainMemory
from sparkdrain.watermarks.frontier import END
from tests.support.at_once import AtOnce
from tests.support.endless import numbers
from tests.support.in_memory_rounds import plan_of
from tests.support.random_pipelines import Named, count
from timers_state import Overlay, RoundStore


@pytest.fixture
def overlays(tmp_path):
    made = [Overlay(RoundStore(tmp_path / str(n)), 1 << 20) for n in range(3)]
    yield made
    for overlay in made:
        overlay.close()


@pytest.fixture
def memories(overlays):
    """Of two old slots, and of a new one."""
    made = [DrainMemory(overlay) for overlay in overlays]
    for old in made[:2]:
        old.begin("job/1")
    return made


def test_where_time_stood_when_the_drain_began_is_remembered(overlays):
    assert DrainMemory(overlays[0]).natural(4, 10) == 10
    assert DrainMemory(overlays[0]).natural(4, 99) == 10
    assert DrainMemory(overlays[0]).natural(5, 99) == 99


def test_an_edge_that_had_ended_before_the_drain_ended_by_itself(memories):
    assert memories[0].natural(4, END) == END


def test_what_was_heard_in_another_run_is_forgotten(memories):
    memory = memories[0]
    memory.hear({(4, 0), (4, 1)})
    memory.tell(2)
    memory.begin("job/1")
    assert memory.heard() == {(4, 0), (4, 1)}
    assert memory.is_told(2)
    memory.begin("job/2")
    assert memory.heard() == frozenset()
    assert not memory.is_told(2)


def test_a_rescaled_slot_remembers_where_time_stood_when_the_drain_began(memories):
    """The earliest of the times that the old slots remember, and every mark."""
    one, other, new = memories
    one.natural(4, 10)
    other.natural(4, 7)
    other.mix(4)
    new.inherit([one, other])
    assert new.natural(4, 99) == 7
    assert new.is_mixed(4)
    assert not new.is_mixed(5)


def test_a_rescaled_slot_has_heard_of_no_producer(memories):
    one, other, new = memories
    for old in (one, other):
        old.hear({(4, 0), (4, 1)})
    new.inherit([one, other])
    assert new.heard() == frozenset()


def test_a_rescaled_slot_tells_dofns_unless_all_old_slots_did(memories):
    one, other, new = memories
    one.tell(0)
    one.tell(1)
    other.tell(1)
    new.inherit([one, other])
    assert not new.is_told(0)
    assert new.is_told(1)


class Hears(beam.DoFn):
    """Counts how often it is told that it is drained."""

    times: ClassVar[list] = []

    def process(self, element):
        yield element

    def on_drain(self):
        self.times.append(1)


def test_a_rescaled_job_tells_no_dofn_again(tmp_path, monkeypatch):
    """The driver dies when all is done, and durable, and the outside is about to be told."""
    monkeypatch.setattr(service, "Uploader", AtOnce)
    Hears.times.clear()
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    read = pipeline | Named(numbers("a", "b")) | beam.Reshuffle()
    _ = read | beam.ParDo(Hears()) | beam.Map(count)
    plan = plan_of(pipeline)

    def die(header) -> None:
        if header.orders.last:
            raise Crash

    with pytest.raises(Crash):
        live(tmp_path, plan, 2, fail=die)
    assert len(Hears.times) == 2
    assert live(tmp_path, plan, 1)[1]
    assert len(Hears.times) == 2
