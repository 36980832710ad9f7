"""Map and multimap state of user code, in rounds and at once, whoever calls it."""

from __future__ import annotations

from dataclasses import replace

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.map_state import MapStateSpec, MultimapStateSpec
from tests.support.in_memory_rounds import DEFAULTS
from tests.support.recorded import emitted, emitted_in_batch
from tests.support.scripts import Mark, pairs_at_once, pairs_in_rounds

STEPS = [
    [("a", 3, 1), ("b", 10, 1), ("a", 1, 2)],
    [("a", 2, 3), ("a", 3, 4)],
    [("b", 11, 4), ("a", 9, 4), ("c", 5, 5)],
    [("a", 14, 6), ("a", 3, 7), ("b", 10, 7)],
    [("a", 4, 12), ("c", 5, 12)],
]


class Words(beam.DoFn):
    """Counts words by length, and gathers them; forgets a length, or everything, now and then."""

    COUNTS = MapStateSpec("counts", VarIntCoder(), VarIntCoder())
    WORDS = MultimapStateSpec("words", VarIntCoder(), StrUtf8Coder())
    END = userstate.TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, times: int) -> None:
        self._times = times

    def process(
        self,
        element,
        counts=beam.DoFn.StateParam(COUNTS),
        words=beam.DoFn.StateParam(WORDS),
        end=beam.DoFn.TimerParam(END),
    ):
        key, number = element
        length = number % 4
        counts.put(length, counts.get(length, 0) + 1)
        words.put(length, f"{number} " * self._times)
        if number % 7 == 2:
            counts.remove(length)
            words.remove(length)
        yield key, number, list(counts.items()), [word[:3] for word in words.get(length)]
        if number % 7 == 0:
            read, gathered = counts.keys(), words.get(length)
            counts.clear()
            words.clear()
            yield key, list(read), [word[:3] for word in gathered], counts.get(length)
        end.set(Timestamp(100))

    @userstate.on_timer(END)
    def at_end(
        self,
        key=beam.DoFn.KeyParam,
        counts=beam.DoFn.StateParam(COUNTS),
        words=beam.DoFn.StateParam(WORDS),
    ):
        found = {length: len(list(words.get(length))) for length in words.keys()}  # noqa: SIM118
        yield key, "end", dict(counts.items()), found


class WordsOfBeam(Words):
    """The same, called by Beam, since only Beam knows one of its parameters."""

    def process(
        self,
        element,
        _=beam.DoFn.WindowedValueParam,
        counts=beam.DoFn.StateParam(Words.COUNTS),
        words=beam.DoFn.StateParam(Words.WORDS),
        end=beam.DoFn.TimerParam(Words.END),
    ):
        yield from super().process(element, counts, words, end)


def told(elements):
    return sorted(map(repr, elements))


@pytest.mark.parametrize("memory", [256 << 20, 50_000])
@pytest.mark.parametrize("times", [1, 300, 9_000], ids=["small", "soon large", "large"])
@pytest.mark.parametrize("dofn", [Words, WordsOfBeam])
@pytest.mark.parametrize("windows", [None, FixedWindows(10)], ids=["global", "fixed"])
def test_maps_have_in_rounds_what_they_have_at_once(dofn, times, memory, windows) -> None:
    options = replace(DEFAULTS, memory_bytes=memory, compiled=True)
    source = {} if windows is None else {"windows": windows}
    found = emitted(
        lambda p: pairs_in_rounds(*STEPS, Mark(20), **source)(p) | beam.ParDo(dofn(times)),
        options=options,
    )
    wanted = emitted_in_batch(
        lambda p: pairs_at_once(*STEPS, **source)(p) | beam.ParDo(Words(times))
    )
    assert told(found) == told(wanted)
    assert any("end" in each for each in found)


def test_what_is_declared_is_in_the_pipeline() -> None:
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([("a", 1)]) | beam.ParDo(Words(1))
    specs = {}
    for transform in pipeline.to_runner_api().components.transforms.values():
        if transform.spec.urn == "beam:transform:pardo:v1":
            payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
            specs.update(payload.state_specs)
    assert specs["counts"].WhichOneof("spec") == "map_spec"
    assert specs["words"].WhichOneof("spec") == "multimap_spec"


class NotWritten(beam.DoFn):
    def process(
        self,
        element,
        counts=beam.DoFn.StateParam(MapStateSpec("counts", StrUtf8Coder(), StrUtf8Coder())),
    ):
        counts.put(7, "a key that is no string")


def test_a_key_that_cannot_be_encoded_is_an_error_that_names_the_state() -> None:
    with pytest.raises(Exception, match="NotWritten") as raised:
        emitted(lambda p: pairs_in_rounds(*STEPS)(p) | beam.ParDo(NotWritten()))
    assert any("while writing state 'counts'" in note for note in raised.value.__notes__)
