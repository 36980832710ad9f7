"""Beam's suites about streams, and its largest one, in rounds: in this process, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from apache_beam.runners.portability.fn_api_runner import fn_runner_test
from beams import suites_of
from in_rounds import use
from marked import VALIDATES_RUNNER, marked_suites, slow
from pipelines import OnSparkDrain
from unsupported import NOT_RUN

from sparkdrain.jobs.server import JobServer
from tests.support.rounds_engine import RoundsEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

# Triggers, panes, TestStream, state and timers, sources that poll, side inputs: module -> suites.
_SUITES: Final = {
    "apache_beam.examples.complete.game.leader_board_test": ("LeaderBoardTest",),
    "apache_beam.examples.cookbook.ordered_window_elements.streaming_test": (
        "OrderedWindowElementsTest_0",
    ),
    "apache_beam.io.fileio_test": ("MatchContinuouslyTest", "WriteFilesTest"),
    "apache_beam.io.textio_test": ("WriteStreamingTest",),
    "apache_beam.io.unbounded_source_test": ("EndToEndTest",),
    "apache_beam.io.watch_test": ("WatchEndToEndTest",),
    "apache_beam.runners.direct.sdf_direct_runner_test": ("SDFDirectRunnerTest",),
    "apache_beam.testing.test_stream_test": ("TestStreamTest", "ReverseTestStreamTest"),
    "apache_beam.transforms.deduplicate_test": ("DeduplicateTest",),
    "apache_beam.transforms.periodicsequence_test": ("PeriodicSequenceTest", "PeriodicImpulseTest"),
    "apache_beam.transforms.sideinputs_test": ("SideInputsTest",),
    "apache_beam.transforms.trigger_test": ("TriggerPipelineTest", "TestStreamTranscriptTest"),
    "apache_beam.transforms.userstate_test": ("StatefulDoFnOnDirectRunnerTest",),
    "apache_beam.transforms.util_test": ("GroupIntoBatchesTest", "ReshuffleTest", "WaitOnTest"),
    "apache_beam.transforms.window_test": ("WindowTest",),
}


@pytest.fixture(scope="module")
def server() -> Iterator[JobServer]:
    yield from _started(RoundsEngine())


@pytest.fixture(scope="module")
def one_slot() -> Iterator[JobServer]:
    # Long enough that no restriction is split, on any machine.
    yield from _started(RoundsEngine(slots=1, seconds=60.0))


@pytest.fixture(scope="module")
def one_claim() -> Iterator[JobServer]:
    # The runner itself splits each restriction behind its first claim, in every round.
    yield from _started(RoundsEngine(slots=1, seconds=60.0, elements=1))


def _started(engine: RoundsEngine) -> Iterator[JobServer]:
    server = JobServer(engine, "")
    server.start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def _pipelines_run_here(
    request: pytest.FixtureRequest,
    server: JobServer,
    one_slot: JobServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(one_slot if request.node.name in _ONE_SLOT else server, monkeypatch)


# They take a quarter of a minute each, or try random numbers again and again.
_SLOW: Final = frozenset(
    {
        "test_fuzzy_length_and_interval",
        "test_fuzzy_length_at_minimal_interval",
        "test_pardo_et_timer_with_no_firing",
        "test_pardo_et_timer_with_no_reset",
        "test_pardo_et_timer_with_no_reset_and_no_clear",
        "test_side_input_with_sdf",
        "test_stateful_set_state_compaction_race_portably",
        "test_streaming_complex_timing",
        "test_streaming_different_file_types",
    }
)

# Batch programs of one transform, which rounds replace as levels do, and what waits for the clock.
_SLOW_SUITES: Final = frozenset(
    {
        "MatchContinuouslyTest",
        "OrderedWindowElementsTest_0",
        "PeriodicImpulseTest",
        "PeriodicSequenceTest",
        "ReshuffleTest",
        "SideInputsTest",
        "WriteFilesTest",
        "WriteStreamingTest",
    }
)

# "Test assumes that all records will be handled by same worker process", says Beam.
_ONE_SLOT: Final = frozenset({"test_write_to_dynamic_destination"})

# They expect what is left of a restriction behind each of its claims in a bundle of its own.
_ONE_CLAIM: Final = frozenset({"test_checkpoint_sdf", "test_checkpoint_draining_sdf"})


def _in_rounds(suite: type, name: str) -> type:
    """A suite as one of this module."""
    own = {test: slow(getattr(suite, test)) for test in _SLOW if hasattr(suite, test)}
    return type(name, (suite,), {"__module__": __name__, **own})


class _FnApiRunnerSuite(OnSparkDrain, fn_runner_test.FnApiRunnerTest):
    """What Beam's own runner is tested for, without compiled stages."""

    __test__ = False
    compiled = "off"


FnApiRunnerSuiteInRounds = _in_rounds(_FnApiRunnerSuite, "FnApiRunnerSuiteInRounds")
FnApiRunnerSuiteInRounds.__test__ = True


@pytest.mark.slow
class FnApiRunnerSuiteInRoundsCompiled(FnApiRunnerSuiteInRounds):
    """With compiled stages."""

    compiled = "on"


class FnApiRunnerSplitSuiteInRounds(OnSparkDrain, fn_runner_test.FnApiRunnerSplitTest):
    """Beam's tests of splits, in one slot; those of ``NOT_RUN`` are not run.

    The tests say when to split by managers that only Beam's own runner asks. Those that expect one
    claim in each bundle get rounds that may make one element.
    """

    @pytest.fixture(autouse=True)
    def _splits(
        self,
        request: pytest.FixtureRequest,
        one_slot: JobServer,
        one_claim: JobServer,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        by_claim = request.node.name in _ONE_CLAIM
        use(one_claim if by_claim else one_slot, monkeypatch)


for _test in NOT_RUN:
    setattr(FnApiRunnerSplitSuiteInRounds, _test.removeprefix("FnApiRunnerSplitSuite."), None)
for _name, _suite in suites_of(_SUITES):
    _own = _in_rounds(_suite, f"{_name}InRounds")
    globals()[f"{_name}InRounds"] = pytest.mark.slow(_own) if _name in _SLOW_SUITES else _own
for _module in sorted(VALIDATES_RUNNER - _SUITES.keys()):
    for _suite in marked_suites(_module, "it_validatesrunner", __name__):
        _name = f"{_suite.__name__}InRounds"
        # Batch programs: what is special about streams is in the suites above.
        globals()[_name] = pytest.mark.slow(_in_rounds(_suite, _name))
del _own, _suite
