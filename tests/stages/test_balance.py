"""Restrictions are rebalanced: who is asked, and that nothing is lost or done twice."""

from __future__ import annotations

import os
import socket
import threading
import time

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.coders.coders import GlobalWindowCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import GlobalWindows
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.errors import TruncatedInput
from sparkdrain.lines.server import TcpBind
from sparkdrain.shuffle.coding import ElementCoding
from sparkdrain.shuffle.elements import mixed_run, read_runs
from sparkdrain.stages.batch.balance import Balancer, FromLender, Lending, LendingSlot, choose
from sparkdrain.stages.batch.inputs import LentRestrictions, parts_of_turn
from tests.support.restrictions import UpTo

BIND = TcpBind("127.0.0.1", "127.0.0.1")
CODING = ElementCoding.of(VarIntCoder(), GlobalWindowCoder())


def test_nobody_is_asked_while_all_cores_are_busy() -> None:
    assert choose([LendingSlot(0, 1, since=0.0)], idle_cores=0, now=100.0) == []


def test_those_longest_at_work_are_asked_first() -> None:
    young, old, asked = (
        LendingSlot(0, 1, 9.0),
        LendingSlot(1, 1, 3.0),
        LendingSlot(2, 1, 0.0, asked=True),
    )
    assert choose([young, old, asked], idle_cores=1, now=20.0) == [old]


def test_a_slot_is_left_alone_until_its_patience_is_over() -> None:
    lender = LendingSlot(0, 1, since=0.0, patience=8.0)
    assert choose([lender], idle_cores=1, now=7.9) == []
    assert choose([lender], idle_cores=1, now=8.0) == [lender]


class Source:
    """Remembers what is fed; gives restrictions away at given moments."""

    def __init__(self, give_at: dict[int, float]) -> None:
        self.fed: list[int] = []
        self.given: list[bytes] = []
        self.give_at = give_at
        self.reader: LentRestrictions | None = None

    def feed_windowed(self, elements) -> None:
        self.fed += [element.value for element in elements]
        fraction = self.give_at.get(len(self.fed))
        if fraction is not None:
            payload = self.reader.give(fraction)
            if payload is not None:
                self.given.append(payload)

    def split(self, keep: float) -> list:
        return []


@given(
    st.lists(st.lists(st.integers(0, 1000), min_size=1, max_size=5), max_size=6),
    st.dictionaries(st.integers(1, 20), st.floats(0.1, 1.0)),
)
def test_every_restriction_is_fed_or_given_away_and_never_both(blocks, give_at) -> None:
    source = Source(give_at)
    source.reader = reader = LentRestrictions(CODING, source)
    for block in blocks:
        payload = mixed_run([GlobalWindows.windowed_value(i) for i in block], CODING)
        reader.take(memoryview(payload))
    reader.advance(parts_of_turn()[1])
    given_away = [
        element.value
        for payload in source.given
        for _, elements in read_runs(memoryview(payload), CODING)
        for element in elements
    ]
    assert sorted(source.fed + given_away) == sorted(i for block in blocks for i in block)


def test_a_gift_reaches_the_driver_with_its_giver() -> None:
    arrived = threading.Event()
    gifts = []

    def accept(gift) -> None:
        gifts.append(gift)
        arrived.set()

    balancer = Balancer(BIND, 2, accept)
    try:
        lending = Lending(balancer.endpoint, 5, 77, lambda fraction: (3, b"work"))
        assert arrived.wait(20)
        lending.close()
    finally:
        balancer.close()
    assert (gifts[0].slot, gifts[0].attempt, gifts[0].edge, gifts[0].payload) == (5, 77, 3, b"work")
    assert lending.gifts >= 1


def test_a_stranger_who_says_nothing_keeps_no_slot_waiting() -> None:
    arrived = threading.Event()
    balancer = Balancer(BIND, 2, lambda gift: arrived.set())
    try:
        with socket.create_connection(balancer.endpoint.address):
            lending = Lending(balancer.endpoint, 5, 77, lambda fraction: (3, b"work"))
            assert arrived.wait(20)
            lending.close()
    finally:
        balancer.close()


def test_a_balancer_that_is_closed_takes_nothing_and_leaves_nothing_behind() -> None:
    before = set(threading.enumerate())
    gifts: list = []
    balancer = Balancer(BIND, 2, gifts.append)
    with balancer.endpoint.dial() as slot:
        slot.send(FromLender(5, 77))
        balancer.close()
        slot.send(FromLender(5, 77, 3, b"late"))
        slot.send(FromLender(5, 77, ended=True))
        with pytest.raises(EOFError):
            slot.recv_bytes()
    assert not gifts
    # Those that serve a line, or look after deadlines at the door, end by themselves in time.
    ending = {"balancer-line", "door"}
    assert not {t for t in set(threading.enumerate()) - before if t.name not in ending}
    with pytest.raises(ConnectionRefusedError):
        balancer.endpoint.dial()


def test_a_slot_whose_gift_is_lost_does_not_end_well() -> None:
    lending = Lending.__new__(Lending)
    lending._lock = threading.Lock()
    lending._line = None
    lending._closed = False
    lending._lost = OSError("connection reset")
    with pytest.raises(TruncatedInput, match="connection reset"):
        lending.close()


class Slow(beam.DoFn):
    def process(self, element, tracker=beam.DoFn.RestrictionParam(UpTo())):
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            time.sleep(0.01)
            yield element, number, os.getpid()
            number += 1


@pytest.mark.spark
def test_a_straggler_is_helped_and_every_position_is_processed_once(tmp_path) -> None:
    options = PipelineOptions(
        ["--spark_master_url=local[2]", "--progress=off"], runner="sparkdrain.SparkDrainRunner"
    )
    with beam.Pipeline(options=options) as pipeline:
        _ = (
            pipeline
            | beam.Create([800, 3])
            | beam.ParDo(Slow())
            | beam.MapTuple(lambda element, number, worker: f"{element} {number} {worker}")
            | beam.io.WriteToText(str(tmp_path / "out"))
        )
    lines = [line.split() for f in tmp_path.glob("out-*") for line in f.read_text().splitlines()]
    assert sorted((int(e), int(n)) for e, n, _ in lines) == sorted(
        (e, n) for e in (800, 3) for n in range(e)
    )
    assert len({worker for e, _, worker in lines if e == "800"}) > 1
