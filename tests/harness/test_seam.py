"""Only harness/ knows how Beam runs a stage in this process; all others ask by the protocol."""

from __future__ import annotations

import ast
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.harness.bundle import StageBundle
from sparkdrain.harness.harness import Harness, Inlet, KeyedInlet, RestrictionInlet
from sparkdrain.harness.keyed.inlet import CalledInlet
from sparkdrain.harness.operations import SourceOperation
from sparkdrain.harness.restrictions import OperatedRestrictions
from tests.support.drained import emitted_when_drained
from tests.support.endless import numbers
from tests.support.recorded import emitted_in_batch

PRODUCT = Path(__file__).parents[2] / "runner/sparkdrain"
# Connectors are DoFns: they run in any harness, and split restrictions of their own.
OUTSIDE = [path for path in PRODUCT.rglob("*.py") if not {"harness", "io"} & {*path.parts}]
WORKER = ("apache_beam.runners.worker", "apache_beam.runners.common")
PARTS_OF_OPERATIONS = {
    "dofns",
    "name_context",
    "opcounter",
    "ops",
    "process_timer",
    "receivers",
    "try_split",
}

# These start an SDK harness of Beam's, or run in it; its operations are its own affair.
IN_HARNESSES = {
    ("loopback.py", f"{WORKER[0]}.worker_pool_main.BeamFnExternalWorkerPoolServicer"),
    ("loopback.py", f"{WORKER[0]}.data_sampler.DataSampler"),
    ("loopback.py", f"{WORKER[0]}.sdk_worker.SdkHarness"),
    ("worker.py", f"{WORKER[0]}.sdk_worker_main"),
    ("cached_sizes.py", f"{WORKER[0]}.statecache"),
    *(
        ("cached_sizes.py", f"{WORKER[0]}.statecache.{name}")
        for name in ("_filter_func", "_get_referents_func", "_size_func")
    ),
}


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def used(tree):
    """Names that code asks an object for, also by ``getattr``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr":
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant))


def test_no_module_outside_imports_beams_operations():
    found = {
        (path.name, name)
        for path in OUTSIDE
        for name in imported(ast.parse(path.read_text(encoding="utf-8")))
        if name.startswith(WORKER)
    }
    assert found == IN_HARNESSES


def test_no_module_outside_asks_an_operation_for_its_parts():
    found = {
        (path.name, name)
        for path in OUTSIDE
        for name in used(ast.parse(path.read_text(encoding="utf-8")))
        if name in PARTS_OF_OPERATIONS
    }
    assert found == set()


@pytest.mark.parametrize(
    ("protocol", "implementation"),
    [
        (Harness, StageBundle),
        (Inlet, SourceOperation),
        (KeyedInlet, CalledInlet),
        (RestrictionInlet, OperatedRestrictions),
    ],
)
def test_the_harness_of_this_process_does_all_that_the_protocol_says(protocol, implementation):
    assert named_in(protocol) - vars(implementation).keys() == set()


# --- what slots do with a harness that shows no more than the protocol ------------------------

INLETS = {"inlet": Inlet, "keyed": KeyedInlet, "restrictions": RestrictionInlet}
asked = set()


def named_in(protocol):
    return {name for name in vars(protocol) if not name.startswith("_")}


class Only:
    """Shows what a protocol says of an object, as a harness in another process would."""

    def __init__(self, protocol, real):
        self._protocol, self._real = protocol, real

    def __getattr__(self, name):
        assert name in named_in(self._protocol), f"{self._protocol.__name__} has no {name}"
        asked.add(name)
        found = getattr(self._real, name)
        if name in INLETS:
            return lambda *args: Only(INLETS[name], found(*args))
        return found


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    asked.clear()
    for slot in ("sparkdrain.rounds.slots.slot", "sparkdrain.stages.batch.slot"):
        make = lambda *args, **settings: Only(Harness, StageBundle(*args, **settings))
        monkeypatch.setattr(f"{slot}.StageBundle", make)


class Sums(beam.DoFn):
    """Tells the sum of a key when time is over, and when the job is drained."""

    SUM = userstate.CombiningValueStateSpec("sum", VarIntCoder(), sum)
    END = userstate.TimerSpec("end", userstate.TimeDomain.WATERMARK)

    def process(self, element, sum_=beam.DoFn.StateParam(SUM), end=beam.DoFn.TimerParam(END)):
        sum_.add(element[1])
        end.set(Timestamp(10**6))
        return []

    @userstate.on_timer(END)
    def ended(self, key=beam.DoFn.KeyParam, sum_=beam.DoFn.StateParam(SUM)):
        yield key, sum_.read()

    def on_drain(self):
        return iter(())


def test_a_stream_with_sources_state_and_timers_is_drained_by_the_protocol_alone():
    _, after = emitted_when_drained(lambda p: numbers("a", "b")(p) | beam.ParDo(Sums()), 3)
    assert {key for key, _ in after} == {"a", "b"}
    assert asked >= {"keyed", "fire", "restrictions", "truncate", "finish", "infos"}


def test_a_batch_job_with_groups_state_and_timers_runs_by_the_protocol_alone():
    pairs = [("a", 1), ("b", 2), ("a", 3)]
    out = emitted_in_batch(
        lambda p: p | beam.Create(pairs).with_output_types(tuple[str, int]) | beam.ParDo(Sums())
    )
    assert sorted(out) == [("a", 4), ("b", 2)]
    assert asked >= {"inlet", "keyed", "fire", "handled", "finalize", "teardown"}
