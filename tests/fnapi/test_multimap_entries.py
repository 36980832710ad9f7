"""All entries of a multimap at once, as Java's SDK asks for them."""

from __future__ import annotations

import pytest
from apache_beam import coders
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms import environments
from apache_beam.transforms.window import IntervalWindow

from sparkdrain.fnapi.descriptor import descriptor_of
from sparkdrain.fnapi.harnesses import HarnessJob
from sparkdrain.fnapi.lives import WindowLives
from sparkdrain.fnapi.state_requests import UserState, ValueCounts
from sparkdrain.harness.harness import StateTerms
from sparkdrain.loopback import loopback_pool
from timers_state import Overlay, RoundStore

WINDOWS = IntervalWindowCoder().get_impl()
WINDOW = WINDOWS.encode(IntervalWindow(0, 10))
PAIRS = coders.TupleCoder([coders.StrUtf8Coder(), coders.IterableCoder(coders.VarIntCoder())])


def _count(_transform, _name, several):
    return [len(list(coders.VarIntCoder().get_impl().decode_all(data))) for data in several]


@pytest.fixture
def state(tmp_path):
    overlay = Overlay(RoundStore(tmp_path / "state"), 1 << 20)
    lives = WindowLives(StateTerms(overlay, 7, None), WINDOWS)
    yield UserState({"t": lives}, _count)
    overlay.close()


def _key(kind, **more):
    parts = {"transform_id": "t", "user_state_id": "s", "window": WINDOW, "key": b"\x01k"}
    return beam_fn_api_pb2.StateKey(**{kind: {**parts, **more}})


def test_each_key_comes_with_the_number_of_its_values(state):
    text, number = coders.StrUtf8Coder().get_impl(), coders.VarIntCoder().get_impl()
    for name, values in {"a": [1, 300], "b": [5], "c": []}.items():
        key = _key("multimap_user_state", map_key=text.encode_nested(name))
        for value in values:
            state.append(key, number.encode_nested(value))
    data = b"".join(state.read(_key("multimap_entries_user_state")))
    entries = PAIRS.get_impl().decode_all(data)
    assert [(name, list(values)) for name, values in entries] == [("a", [1, 300]), ("b", [5])]


@pytest.mark.parametrize(
    ("coder", "values"),
    [
        (coders.VarIntCoder(), [1, 300, 5]),
        (coders.StrUtf8Coder(), ["", "two", "x" * 200]),
        (coders.TupleCoder([coders.VarIntCoder(), coders.StrUtf8Coder()]), [(1, "a"), (2, "")]),
    ],
)
def test_a_harness_counts_values_of_any_coder(harnesses, coder, values):
    context = PipelineContext()
    id_ = context.coders.get_id(coder)
    environment = environments.ExternalEnvironment(loopback_pool()).to_runner_api(context)
    worker = harnesses.lend(HarnessJob("job", {}), "pool", environment)
    known = beam_fn_api_pb2.ProcessBundleDescriptor(
        coders=context.to_runner_api().coders,
        state_api_service_descriptor=descriptor_of(worker.life.endpoint),
    )
    data = [
        b"".join(map(coder.get_impl().encode_nested, some)) for some in (values, [], values[1:])
    ]
    assert ValueCounts(worker, known, id_, capabilities=()).count(data) == [
        len(values),
        0,
        len(values) - 1,
    ]
    harnesses.give_back(worker)
