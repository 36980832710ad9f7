"""Side inputs that a harness reads with all of their keys in one request."""

from __future__ import annotations

from collections import Counter
from functools import partial

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker import sdk_worker
from apache_beam.transforms import window

from sparkdrain.fnapi import state_requests
from sparkdrain.fnapi.errors import UnknownState
from sparkdrain.fnapi.provision import RUNNER_CAPABILITIES
from sparkdrain.fnapi.state_requests import SideRequests
from tests.support.seen import SEEN, see

ENTRIES = coders.IterableCoder(coders.VarIntCoder())
ENTRY = coders.TupleCoder((coders.StrUtf8Coder(), ENTRIES)).get_impl()


class _Capable(sdk_worker.SdkHarness):
    """Beam's harness, told what a process is told by its environment."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs, runner_capabilities=frozenset(RUNNER_CAPABILITIES))


@pytest.fixture
def kinds(monkeypatch):
    """How often a harness that knows the runner's capabilities asks for which kind of state."""
    monkeypatch.setattr(sdk_worker, "SdkHarness", _Capable)
    asked = Counter()
    plain = SideRequests.read

    def read(self, key):
        asked[key.WhichOneof("type")] += 1
        return plain(self, key)

    monkeypatch.setattr(SideRequests, "read", read)
    return asked


def _looked_up(pipeline, keys):
    named = pipeline | "Named" >> beam.Create([(f"{n % keys}", n) for n in range(3 * keys)])
    wanted = pipeline | "Wanted" >> beam.Create([f"{n}" for n in range(keys)] + ["nobody"])
    return wanted | beam.Map(
        lambda key, by_key: see((key, sorted(by_key[key]))), beam.pvalue.AsMultiMap(named)
    )


@pytest.mark.parametrize(("keys", "one_by_one"), [(3, False), (300, True)])
def test_beams_harness_reads_all_keys_with_their_values(run, kinds, keys, one_by_one):
    _, seen = run(partial(_looked_up, keys=keys))
    expected = [(f"{n}", [n, n + keys, n + 2 * keys]) for n in range(keys)]
    assert seen == sorted([*expected, ("nobody", [])], key=repr)
    assert kinds["multimap_keys_values_side_input"]
    assert bool(kinds["multimap_side_input"]) == one_by_one


def test_a_window_of_a_stream_has_its_keys_alone(stream, kinds):
    def build(pipeline):
        numbers = pipeline | beam.Create(range(8))
        timed = numbers | beam.Map(lambda n: window.TimestampedValue((f"{n % 2}", n), n))
        windows = timed | beam.WindowInto(window.FixedWindows(4))
        return windows | "Look" >> beam.Map(
            lambda pair, by_key: see((pair[1], sorted(by_key[pair[0]]))),
            beam.pvalue.AsMultiMap(windows),
        )

    SEEN.clear()
    stream(build)
    assert sorted(SEEN) == [
        (n, [m for m in range(8) if m // 4 == n // 4 and m % 2 == n % 2]) for n in range(8)
    ]
    assert kinds["multimap_keys_values_side_input"]
    assert not kinds["multimap_side_input"]


class _Content:
    """A side input with these chunks of numbers by key."""

    def __init__(self, chunks):
        self._chunks = chunks

    def keys(self, _):
        for key, chunks in self._chunks.items():
            yield (
                coders.StrUtf8Coder().get_impl().encode_nested(key),
                iter(map(ENTRIES.encode, chunks)),
            )


def _requests(content):
    return SideRequests({("t", "s"): 1}, lambda _: content)


def _all():
    asked = beam_fn_api_pb2.StateKey()
    asked.multimap_keys_values_side_input.transform_id = "t"
    asked.multimap_keys_values_side_input.side_input_id = "s"
    return asked


def test_what_is_answered_is_what_the_coder_of_keys_and_iterables_reads():
    chunks = {"a": [[1, 2], [3]], "b": [[4]], "c": [[]]}
    data = b"".join(_requests(_Content(chunks)).read(_all()))
    assert list(ENTRY.decode_all(data)) == [("a", [1, 2, 3]), ("b", [4]), ("c", [])]


def test_a_key_with_too_many_values_is_refused_so_that_they_are_read_alone(monkeypatch):
    monkeypatch.setattr(state_requests, "_ENTRY_BYTES", 100)
    content = _requests(_Content({"a": [[1]], "b": [list(range(60)), list(range(60))]})).read(
        _all()
    )
    assert next(content)
    with pytest.raises(UnknownState, match="too many values"):
        next(content)
