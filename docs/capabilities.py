"""What the capability table is about: each row with the tests that say whether it is so.

A name without a path is a test of Beam's, which ``tests/conformance`` runs. A row whose tests all
pass is supported; ``tests/conformance/unsupported.py`` says which do not, and why.
"""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import common_urns
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.periodicsequence import PeriodicImpulse

from sparkdrain.environment import default_environment
from sparkdrain.errors import Unsupported
from sparkdrain.graph.check import check

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from apache_beam.portability.api import beam_runner_api_pb2

ROOT = Path(__file__).resolve().parents[1]
STATE = "tests/harness/test_user_state.py"
MEMORY = "tests/shuffle/test_memory.py"
FLIGHTS = "tests/examples/test_flights.py"
FAILURES = "tests/stages/test_failures_on_spark.py"
PROGRAMS = "tests/stages/test_failing_programs.py"


@dataclass(frozen=True, slots=True)
class Capability:
    """One row.

    Attributes:
        name: what a user would call it.
        tests: the tests that show it.
    """

    name: str
    tests: tuple[str, ...]

    def state(self, failing: Collection[str]) -> Literal["yes", "partly", "no"]:
        """Whether all, some or none of the tests pass, given those that do not."""
        left = [test for test in self.tests if test not in failing]
        if len(left) == len(self.tests):
            return "yes"
        return "partly" if left else "no"


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that belong together."""

    name: str
    rows: tuple[Capability, ...]


def _beams(name: str, tests: str) -> Capability:
    return Capability(name, tuple(f"test_{test}" for test in tests.split()))


GROUPS = (
    Group(
        "Transforms",
        (
            _beams("Impulse, Create, Read", "impulse create read"),
            _beams(
                "ParDo, tagged outputs",
                "pardo pardo_side_outputs pardo_side_and_main_outputs undeclared_outputs "
                "multiple_empty_outputs par_do_with_multiple_outputs_and_using_yield",
            ),
            _beams("Life cycle of DoFns and CombineFns", "dofn_lifecycle combine"),
            _beams(
                "Batched DoFns",
                "batch_pardo batch_to_element_pardo element_to_batch_pardo batch_pardo_fusion_break"
                " batch_pardo_window_param batch_pardo_overlapping_windows",
            ),
            _beams(
                "Warnings about batched DoFns in the program, not in the log of a worker",
                "batch_rebatch_pardos",
            ),
            _beams(
                "GroupByKey",
                "group_by_key group_by_key_with_empty_pcoll_elements flatten_and_gbk "
                "gbk_many_values",
            ),
            Capability(
                "GroupByKey larger than memory, and a key larger than memory",
                (
                    f"{MEMORY}::test_data_several_times_larger_than_memory_is_grouped_within_a_cap",
                    f"{MEMORY}::test_one_key_larger_than_memory_is_a_stream_that_can_be_read_twice",
                ),
            ),
            _beams(
                "Combine globally and per key: lifted, packed, windowed",
                "combine_per_key non_liftable_combine pack_combiners windowed_combine_per_key "
                "run_packable_combine_per_key run_packable_combine_globally",
            ),
            _beams(
                "Flatten: of one, of the same twice, of flattened",
                "flatten flatten_same_pcollections flatten_one_single_pcollection "
                "flatten_a_flattened_pcollection "
                "flatten_multiple_pcollections_having_multiple_consumers",
            ),
            _beams(
                "Reshuffle, keeping timestamps and windows",
                "reshuffle reshuffle_preserves_timestamps reshuffle_after_custom_window",
            ),
            _beams("Large elements", "large_elements pardo_large_input"),
        ),
    ),
    Group(
        "Side inputs",
        (
            _beams(
                "Iterable, list, dict, multimap",
                "pardo_side_inputs iterable_side_input reiterable_side_input multimap_side_input "
                "multimap_multiside_input as_list_and_as_dict_side_inputs flattened_side_input "
                "gbk_side_input",
            ),
            _beams(
                "Singleton, with and without default",
                "empty_singleton_side_input default_value_singleton_side_input "
                "multi_valued_singleton_side_input as_singleton_with_different_defaults",
            ),
            _beams("In windows", "pardo_windowed_side_inputs"),
            _beams("That change while the job runs", "multi_triggered_gbk_side_input"),
        ),
    ),
    Group(
        "Windows and time",
        (
            Capability(
                "Fixed, sliding and session windows",
                (
                    "test_windowing",
                    "test_windowed_combine_per_key",
                    f"{FLIGHTS}::test_the_whole_year_on_spark_is_what_pandas_computes",
                ),
            ),
            _beams("Custom windows, merging ones too", "custom_window_type custom_merging_window"),
            _beams("Timestamp combiners", "combiner_earliest combiner_latest"),
            _beams("Panes of bounded input", "first_pane"),
            _beams(
                "TestStream", "multi_triggered_gbk_side_input deduplication_in_different_windows"
            ),
            _beams(
                "Unbounded input",
                "unbounded_source_read sliding_windows pardo_et_timer_with_no_firing "
                "pardo_et_timer_with_no_reset pardo_et_timer_with_no_reset_and_no_clear",
            ),
        ),
    ),
    Group(
        "State and timers",
        (
            _beams(
                "Value, bag, combining state",
                "pardo_state_only combining_value_state pardo_state_with_custom_key_coder",
            ),
            Capability(
                "Set, map, multimap, ordered list state",
                (f"{STATE}::test_every_kind_of_state_keeps_what_was_put_there",),
            ),
            _beams(
                "Event-time timers",
                "pardo_timers pardo_timers_clear pardo_state_timers windowed_pardo_state_timers "
                "pardo_dynamic_timer",
            ),
            _beams(
                "Deduplicate, in event and processing time",
                "deduplication_with_event_time deduplication_with_processing_time",
            ),
        ),
    ),
    Group(
        "Splittable DoFns",
        (
            _beams(
                "Bounded, split at the start",
                "sdf sdf_synthetic_source side_input_with_sdf "
                "sdf_with_dofn_as_restriction_provider",
            ),
            _beams("That defer themselves", "sdf_with_sdf_initiated_checkpointing"),
            _beams("Watermark estimators", "sdf_with_watermark_tracking"),
            _beams(
                "Truncate, drain",
                "sdf_with_truncate sdf_default_truncate_when_bounded "
                "sdf_default_truncate_when_unbounded "
                "draining_sdf_with_sdf_initiated_checkpointing",
            ),
        ),
    ),
    Group(
        "Around the data",
        (
            _beams("Bundle finalization", "register_finalizations callbacks_with_exception"),
            _beams(
                "Metrics: counter, distribution, gauge, string set, bounded trie",
                "metrics user_counter_using_pardo",
            ),
            _beams(
                "Metrics of Beam's own: element counts, progress",
                "non_user_metrics element_count_metrics progress_metrics",
            ),
            _beams("Runtime values", "create_value_provider_pipeline_option"),
            Capability(
                "A failure shows the user's exception first, with its step",
                (
                    "test_error_message_includes_stage",
                    "test_error_traceback_includes_user_code",
                    f"{FAILURES}::test_the_users_exception_comes_first_then_where_it_was_raised",
                    f"{PROGRAMS}::test_the_users_exception_is_the_first_thing_that_is_printed",
                ),
            ),
            Capability(
                "A failed job leaves no output that looks complete",
                (
                    f"{FAILURES}::test_a_job_that_fails_while_it_writes_leaves_nothing_that_looks_complete",
                ),
            ),
            Capability(
                "Ctrl-C cancels the Spark job",
                (f"{PROGRAMS}::test_an_interrupted_program_leaves_no_process_and_fails",),
            ),
        ),
    ),
)


def unsupported() -> dict[str, str]:
    """Each test of Beam's that does not pass, without its suite, and the reason."""
    listed = runpy.run_path(str(ROOT / "tests/conformance/unsupported.py"))["UNSUPPORTED"]
    return {test.rpartition(".")[2]: reason for test, reason in listed.items()}


def refusals() -> dict[str, str]:
    """What is refused before anything runs: pipelines, each with the words that come back."""
    return {name: _refusal(build()) for name, build in _REFUSED.items()}


def _refusal(pipeline: beam_runner_api_pb2.Pipeline) -> str:
    try:
        check(pipeline)
    except Unsupported as refusal:
        return str(refusal)
    msg = "this pipeline is not refused any more: take it out of docs/capabilities.py"
    raise AssertionError(msg)


def _proto(transform: beam.PTransform, flags: tuple[str, ...] = ()) -> beam_runner_api_pb2.Pipeline:
    options = PipelineOptions([*flags, "--runner=FnApiRunner"])
    pipeline = beam.Pipeline(options=options)
    _ = pipeline | transform
    return pipeline.to_runner_api(default_environment=default_environment(options))


def _with_urn(urn: str) -> beam_runner_api_pb2.Pipeline:
    pipeline = _proto("Rows" >> beam.Impulse())
    for transform in pipeline.components.transforms.values():
        if transform.unique_name == "Rows":
            transform.spec.urn = urn
    return pipeline


def _requiring(urn: str) -> beam_runner_api_pb2.Pipeline:
    pipeline = _proto(beam.Impulse())
    pipeline.requirements.append(urn)
    return pipeline


_REFUSED: dict[str, Callable[[], Any]] = {
    "Unbounded sources": lambda: _proto("Ticks" >> PeriodicImpulse(fire_interval=1.0)),
    "TestStream": lambda: _proto("Events" >> TestStream().add_elements([1])),
    "Environments of their own (Docker, process, external)": lambda: _proto(
        "Numbers" >> beam.Create([1]),
        ("--environment_type=EXTERNAL", "--environment_config=localhost:50000"),
    ),
    "Transforms of other SDKs": lambda: _with_urn("beam:transform:of_another_sdk:v1"),
    "Requirements that Beam may add": lambda: _requiring(
        common_urns.requirements.REQUIRES_ON_WINDOW_EXPIRATION.urn
    ),
}
