"""Groups whose values a harness reads on the state channel: here, Beam's own of a pool."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.runners.worker import bundle_processor
from apache_beam.testing import test_stream
from apache_beam.transforms import environments, trigger, window
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkdrain.fnapi import harness as fn_harness
from sparkdrain.fnapi import large_groups
from sparkdrain.fnapi.elements import prefixed
from sparkdrain.fnapi.errors import UnknownState
from sparkdrain.fnapi.harness import FnHarness, Outside
from sparkdrain.fnapi.harnesses import HarnessJob
from sparkdrain.fnapi.large_groups import LargeGroups, page_of
from sparkdrain.fnapi.worker import SdkWorker
from sparkdrain.graph.wire import STATE_BACKED_ITERABLE
from sparkdrain.harness.channel import processor
from sparkdrain.harness.channel.source import ChannelSource
from sparkdrain.loopback import loopback_pool
from sparkdrain.shuffle.chunk_file import ChunkFile
from sparkdrain.shuffle.values import WHOLE_BYTES, EncodedValues, encoded_values
from sparkdrain.stages.shards.task_options import TaskOptions
from tests.support.in_memory import run_in_memory
from tests.support.seen import SEEN, see

PYTHONS = environments.python_sdk_capabilities()
# So little that groups go to disk.
LITTLE = TaskOptions(block_bytes=1 << 18, memory_bytes=1 << 21, compiled=True)
LARGEST = 200_000
MiB = 1 << 20


@dataclass
class Wire:
    """What slots have sent to harnesses, in bytes, and what is kept for them."""

    elements: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    groups: list[Any] = field(default_factory=list)
    held: list[int] = field(default_factory=list)


@pytest.fixture
def wire(monkeypatch):
    wire = Wire()
    send, state, ended = SdkWorker.send, FnHarness.state, FnHarness._ended

    def sending(self, elements, name=""):
        wire.elements.append(elements.ByteSize())
        send(self, elements, name)

    def asked(self, request):
        response = state(self, request)
        if request.state_key.WhichOneof("type") == "runner":
            wire.pages.append(len(response.get.data))
        return response

    def ending(self):
        wire.held.append(len(self._groups._held))
        return ended(self)

    class Kept(LargeGroups):
        def __init__(self, **given):
            super().__init__(**given)
            wire.groups.append(self)

    monkeypatch.setattr(SdkWorker, "send", sending)
    monkeypatch.setattr(FnHarness, "state", asked)
    monkeypatch.setattr(FnHarness, "_ended", ending)
    monkeypatch.setattr(fn_harness, "LargeGroups", Kept)
    return wire


@pytest.fixture
def batch(harnesses):
    def batch(build, options=LITTLE, capabilities=PYTHONS, job=None):
        SEEN.clear()
        pipeline = beam.Pipeline()
        build(pipeline)
        environment = environments.ExternalEnvironment(loopback_pool(), capabilities=capabilities)
        outside = Outside(job or HarnessJob("job", {}), harnesses)
        run_in_memory(pipeline, 1, options, environment, outside)
        return sorted(SEEN, key=repr)

    return batch


def _value(number):
    return number.to_bytes(4, "big") * (1 + number * 7919 % (LARGEST // 4))


def _told(values):
    """Of values in any order: how many, and a digest of all."""
    hashed = sorted(hashlib.sha256(value).digest() for value in values)
    return len(hashed), hashlib.sha256(b"".join(hashed)).hexdigest()


def _grouped(pipeline, keys=3, count=120):
    return (
        pipeline
        | beam.Create(range(count), reshuffle=False)
        | beam.Map(lambda n: (n % keys, _value(n)))
        | beam.GroupByKey()
    )


def _expected(keys=3, count=120):
    return [(key, *_told(_value(n) for n in range(key, count, keys))) for key in range(keys)]


class _Twice(beam.DoFn):
    """Reads each group twice, and once more together with the group before it."""

    def start_bundle(self):
        self.before = None

    def process(self, pair):
        key, values = pair
        told = _told(values)
        assert list(values) == list(values)
        if self.before is not None:
            both = list(itertools.zip_longest(self.before[1], values))
            assert _told(one for one, _ in both if one is not None) == self.before[0]
            assert _told(two for _, two in both if two is not None) == told
        self.before = told, values
        yield key, *told


def test_large_groups_come_exactly_as_often_and_in_whatever_order_they_are_read(batch, wire):
    seen = batch(lambda p: _grouped(p) | beam.ParDo(_Twice()) | beam.Map(see))
    assert seen == _expected()
    whole = sum(len(_value(n)) for n in range(120))
    assert whole > 10 * MiB
    # Each value has gone several times, and never more at a time than a page or a message.
    assert sum(wire.pages) > 3 * whole
    assert max(wire.pages) <= MiB
    assert sum(wire.pages) / len(wire.pages) > MiB // 2
    assert max(wire.elements) < 4 * MiB


def test_chains_that_are_compiled_read_large_groups_as_well(batch, wire, monkeypatch):
    """As ``sparkdrain worker`` compiles them."""
    sources = []

    class Source(ChannelSource):
        def __init__(self, operation, chain):
            sources.append(operation)
            super().__init__(operation, chain)

    monkeypatch.setattr(processor, "ChannelSource", Source)
    monkeypatch.setattr(bundle_processor, "BundleProcessor", processor.ChannelProcessor)
    seen = batch(
        lambda p: (
            _grouped(p, 1, 40)
            | beam.MapTuple(lambda k, vs: (k, _told(vs) == _told(vs), *_told(vs)))
            | beam.Map(see)
        )
    )
    assert seen == [(0, True, *_expected(1, 40)[0][1:])]
    assert sum(wire.pages) >= 3 * sum(len(_value(n)) for n in range(40))
    assert len(sources) == 2


def test_nothing_is_kept_of_a_group_when_its_bundle_has_ended(batch, wire):
    batch(lambda p: _grouped(p) | beam.Map(lambda pair: see(pair[0])))
    assert max(wire.held) == 3
    assert all(groups._held == {} and not groups._bytes for groups in wire.groups)


def test_a_token_is_of_one_bundle():
    groups = LargeGroups()
    chunk = b"\0\0\0\1" + prefixed(bytes(WHOLE_BYTES))
    token = groups.encode(encoded_values([chunk]))[-35:].lstrip(b"\x22\x23\x24")
    (token,) = groups._held
    assert groups.read(token, b"").get.data == chunk[4:]
    groups.forget()
    with pytest.raises(UnknownState, match="no group of this bundle"):
        groups.read(token, b"")
    groups.encode(encoded_values([chunk]))
    assert token not in groups._held


def test_a_bundle_ends_when_it_holds_much(batch, wire, monkeypatch):
    monkeypatch.setattr(large_groups, "_HELD_GROUPS", 2)
    seen = batch(
        lambda p: _grouped(p, 5) | beam.MapTuple(lambda k, vs: (k, *_told(vs))) | beam.Map(see)
    )
    assert seen == _expected(5)
    assert max(wire.held) == 2


def test_what_a_bundle_holds_in_memory_is_bounded():
    groups = LargeGroups()
    chunk = b"\0\0\0\1" + prefixed(bytes(16 * MiB))
    for _ in range(4):
        assert not groups.is_full
        groups.encode(encoded_values([chunk]))
    assert groups.is_full


@pytest.mark.parametrize("chunks", [1, 2])
def test_small_groups_are_sent_whole_and_ask_for_nothing(batch, wire, chunks):
    count = 1000 * chunks  # what the shuffle first puts together

    def build(pipeline):
        return (
            pipeline
            | beam.Create(range(count), reshuffle=False)
            | beam.Map(lambda n: (n % 100, n))
            | beam.GroupByKey()
            | beam.MapTuple(lambda key, values: see((key, type(values) is list, sum(values))))
        )

    seen = batch(build)
    assert sorted(seen) == [(k, True, sum(range(k, count, 100))) for k in range(100)]
    assert wire.pages == []
    assert all(groups._number == 0 for groups in wire.groups)


def test_groups_below_the_bound_are_sent_some_at_a_time(batch, wire):
    """However many there are in one batch of the slot."""
    plenty = TaskOptions(block_bytes=1 << 20, memory_bytes=256 * MiB, compiled=True)
    seen = batch(
        lambda p: (
            p
            | beam.Create(range(60), reshuffle=False)
            | beam.Map(lambda n: (n, bytes(MiB - 100)))
            | beam.GroupByKey()
            | beam.MapTuple(lambda key, values: see((key, sum(map(len, values)))))
        ),
        plenty,
    )
    assert sorted(seen) == [(n, MiB - 100) for n in range(60)]
    assert wire.pages == []
    assert max(wire.elements) < 4 * MiB


@pytest.mark.parametrize("why", ["it does not say that it can", "samples are wanted"])
def test_a_harness_that_does_not_read_in_state_gets_groups_whole(batch, wire, why):
    capabilities, job = PYTHONS, None
    if why == "samples are wanted":
        job = HarnessJob("sampled", {}, samples=_NoSamples())
    else:
        capabilities = [each for each in PYTHONS if each != STATE_BACKED_ITERABLE]
    seen = batch(
        lambda p: _grouped(p) | beam.MapTuple(lambda k, vs: (k, *_told(vs))) | beam.Map(see),
        capabilities=capabilities,
        job=job,
    )
    assert seen == _expected()
    assert wire.pages == []
    assert not any(groups.are_in_state for groups in wire.groups)
    assert not any(wire.held)


class _NoSamples:
    def sample(self, of, text): ...

    def flush(self): ...


def _at(time, keys, count):
    return [window.TimestampedValue((n % keys, _value(n)), time) for n in range(count)]


def _script(pipeline, parts):
    coder = coders.TupleCoder((coders.VarIntCoder(), coders.BytesCoder()))
    script = test_stream.TestStream(coder=coder)
    for part in parts:
        if isinstance(part, list):
            script = script.add_elements(part)
        else:
            script = script.advance_watermark_to(part)
    return pipeline | script.advance_watermark_to_infinity()


@pytest.mark.parametrize("early", [False, True])
def test_panes_of_a_stream_are_read_in_state_as_well(stream, wire, early):
    SEEN.clear()
    fires = trigger.AfterWatermark(early=trigger.AfterCount(1)) if early else None
    into = (
        {}
        if fires is None
        else {"trigger": fires, "accumulation_mode": trigger.AccumulationMode.ACCUMULATING}
    )

    def build(pipeline):
        parts = _at(1, 2, 48), 5, _at(6, 2, 24), 12
        return (
            _script(pipeline, parts)
            | beam.WindowInto(window.FixedWindows(10), **into)
            | beam.GroupByKey()
            | beam.ParDo(_Twice())
            | beam.Map(see)
        )

    stream(build, options=LITTLE)
    values = [_value(n) for n in (*range(48), *range(24))]
    keys = [n % 2 for n in (*range(48), *range(24))]
    last = [
        (key, *_told(v for k, v in zip(keys, values, strict=True) if k == key)) for key in (0, 1)
    ]
    assert set(last) <= set(SEEN)
    assert early or sorted(SEEN) == last
    assert sum(wire.pages) > 3 * sum(map(len, values))
    assert max(wire.pages) <= MiB
    assert all(groups._held == {} for groups in wire.groups)


def test_a_large_group_may_wait_for_a_side_input(stream, wire):
    SEEN.clear()

    def build(pipeline):
        side = _script(pipeline, [[window.TimestampedValue((0, b"late"), 1)], 5, 12])
        groups = (
            pipeline
            | beam.Create(range(32))
            | beam.Map(lambda n: window.TimestampedValue((n % 2, _value(n)), 1))
            | beam.WindowInto(window.FixedWindows(10))
            | beam.GroupByKey()
        )
        return groups | "Use" >> beam.Map(
            lambda pair, more: see((pair[0], len(more), *_told(pair[1]))),
            beam.pvalue.AsList(side | "Side" >> beam.WindowInto(window.FixedWindows(10))),
        )

    stream(build, options=LITTLE)
    assert sorted(SEEN) == [(k, 1, *_told(_value(n) for n in range(k, 32, 2))) for k in (0, 1)]
    assert sum(wire.pages) >= sum(len(_value(n)) for n in range(32))


# --- pages --------------------------------------------------------------------------------------


def _chunk(values):
    return len(values).to_bytes(4, "big") + b"".join(map(prefixed, values))


_CHUNKS = st.lists(
    st.tuples(st.lists(st.binary(max_size=200), min_size=1, max_size=8), st.booleans()),
    min_size=1,
    max_size=8,
)


@settings(max_examples=50)
@given(_CHUNKS, st.integers(1, 400))
def test_pages_are_whole_values_in_their_order_from_wherever_they_lie(
    tmp_path_factory, lists, most
):
    file = ChunkFile(tmp_path_factory.getbasetemp())
    chunks = [
        file.append(_chunk(values)) if on_disk else _chunk(values) for values, on_disk in lists
    ]
    place, pages = (0, 4), []
    while place is not None:
        page, following = page_of(chunks, place, most)
        assert page == page_of(chunks, place, most)[0]
        pages.append(_values(page))
        assert len(page) <= most or len(pages[-1]) == 1
        place = following
    assert [each for page in pages for each in page] == [v for values, _ in lists for v in values]


def _values(page):
    stream = coders.coder_impl.create_InputStream(page)
    values = []
    while stream.size():
        values.append(stream.read_all(True))
    return values


def test_of_a_group_on_disk_no_more_is_read_than_a_page(tmp_path, monkeypatch):
    file, read = ChunkFile(tmp_path), []
    loading = ChunkFile.read

    def seen(self, offset, size):
        read.append(size)
        return loading(self, offset, size)

    monkeypatch.setattr(ChunkFile, "read", seen)
    chunks = [file.append(_chunk([bytes(1000)] * 6_000)) for _ in range(2)]
    groups = LargeGroups()
    values = encoded_values(chunks)
    assert isinstance(values, EncodedValues)
    groups.encode(values)
    (token,) = groups._held
    assert read == []
    continuation, pages = b"", 0
    while pages == 0 or continuation:
        answer = groups.read(token, continuation).get
        pages, continuation = pages + 1, answer.continuation_token
        assert max(read) <= MiB
    assert pages > 10
    assert not groups.is_full


def test_small_chunks_share_a_page():
    groups = LargeGroups()
    groups.encode(EncodedValues([_chunk([bytes(1000)])] * 3000))
    (token,) = groups._held
    continuation, pages = b"", []
    while not pages or continuation:
        answer = groups.read(token, continuation).get
        continuation = answer.continuation_token
        pages.append(len(_values(answer.data)))
    assert sum(pages) == 3000
    assert len(pages) == 3


@pytest.mark.parametrize("continuation", [b"x", b"1", b"9.4", b"0.3", b"0.99", b"0.4.4", b"-1.4"])
def test_a_continuation_token_that_no_page_had_is_refused(continuation):
    groups = LargeGroups()
    groups.encode(EncodedValues([_chunk([b"abc"])]))
    (token,) = groups._held
    with pytest.raises(UnknownState, match="no group goes on"):
        groups.read(token, continuation)
