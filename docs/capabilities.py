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
from apache_beam.portability.api import beam_runner_api_pb2 as runner_api

from sparkdrain.environment import default_environment
from sparkdrain.errors import Unsupported
from sparkdrain.graph.check import check

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from apache_beam.portability.api import beam_runner_api_pb2

ROOT = Path(__file__).resolve().parents[1]
FEATURES = "tests/features/test_"
STAGES = "tests/stages/test_"
ROUNDS = "tests/rounds/test_"
PANES = "tests/panes/test_"


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


def _row(name: str, *tests: str) -> Capability:
    """A row; each text lists tests of Beam's, or of the file that it begins with.

    Tests of Beam's that are not in its suites for portable runners are listed with their suite.
    """
    found: list[str] = []
    for text in tests:
        path, colon, listed = text.partition(": ")
        if colon:
            found += [f"{path}.py::test_{test}" for test in listed.split()]
        else:
            found += [".".join((*suite, f"test_{test}")) for *suite, test in _split(text)]
    return Capability(name, tuple(found))


def _split(text: str) -> Iterator[list[str]]:
    return (test.split(".") for test in text.split())


_TRANSFORMS = (
    _row("Impulse, Create, Read", "impulse create read"),
    _row(
        "Steps that wait: async def, threads, futures, callbacks, AsyncWrapper",
        "",
        f"{FEATURES}steps_in_flight: all_methods_may_be_asynchronous",
        f"{FEATURES}steps_in_flight: each_way_to_wait_gives_the_same",
        f"{FEATURES}steps_in_flight: elements_that_fail_go_to_an_output_of_their_own_everywhere",
        f"{FEATURES}steps_in_flight: the_dofn_in_beams_wrapper_runs_without_its_timers",
        f"{ROUNDS}rounds_in_flight: a_round_has_all_results_of_its_elements",
    ),
    _row(
        "Steps that wait, with state and timers",
        "",
        f"{FEATURES}state_in_flight: keys_run_side_by_side_and_each_as_if_it_was_alone "
        "timers_of_a_key_fire_one_after_the_other",
    ),
    _row(
        "Steps that a round does not wait for, with state and without",
        "",
        f"{ROUNDS}carried: a_round_does_not_wait_for_an_element_in_flight "
        "a_window_waits_for_elements_that_are_carried_over",
        f"{ROUNDS}carried_keys: a_round_does_not_wait_for_a_key_in_flight "
        "due_timers_of_a_key_wait_for_its_elements_in_flight_and_others_fire",
    ),
    _row(
        "ParDo with tagged outputs",
        "pardo pardo_side_outputs pardo_side_and_main_outputs undeclared_outputs "
        "multiple_empty_outputs par_do_with_multiple_outputs_and_using_yield",
        f"{FEATURES}transforms: undeclared_tags_are_dropped",
    ),
    _row(
        "Life cycle of DoFns and CombineFns, teardown after a failure too",
        "dofn_lifecycle combine",
        f"{FEATURES}dofns: every_instance_lives_a_whole_life "
        "the_failure_of_one_dofn_tears_down_all_others",
    ),
    _row(
        "Batched DoFns",
        "batch_pardo batch_to_element_pardo element_to_batch_pardo batch_pardo_fusion_break "
        "batch_pardo_window_param batch_pardo_overlapping_windows",
        f"{FEATURES}transforms: batched_dofns_and_plain_ones_in_a_row",
    ),
    _row(
        "Warnings that are issued in workers are issued in the program itself, each once",
        "batch_rebatch_pardos",
    ),
    _row(
        "GroupByKey, CoGroupByKey",
        "group_by_key group_by_key_with_empty_pcoll_elements flatten_and_gbk",
        f"{FEATURES}grouping_keys: keys_are_equal_if_their_encodings_are co_group_by_key "
        "large_elements",
    ),
    _row(
        "Groups, and one key, larger than memory; values decoded one at a time",
        "gbk_many_values",
        "tests/shuffle/test_memory: "
        "data_several_times_larger_than_memory_is_grouped_within_a_cap "
        "one_key_larger_than_memory_is_a_stream_that_can_be_read_twice",
    ),
    _row(
        "Groups larger than memory in processes of Python's, Java's and Go's SDKs, read in pages",
        "",
        "tests/fnapi/test_large_groups: "
        "large_groups_come_exactly_as_often_and_in_whatever_order_they_are_read "
        "of_a_group_on_disk_no_more_is_read_than_a_page "
        "panes_of_a_stream_are_read_in_state_as_well",
    ),
    _row(
        "Combine globally and per key: lifted, packed, windowed, without defaults",
        "combine_per_key non_liftable_combine pack_combiners windowed_combine_per_key "
        "run_packable_combine_per_key run_packable_combine_globally",
        f"{FEATURES}combines: every_combiner_of_all_elements every_combiner_per_key "
        "windows_without_elements_have_no_result combines_that_are_packed_into_one",
    ),
    _row(
        "Flatten: of different coders, of nothing, of the same twice, nested",
        "flatten flatten_same_pcollections flatten_one_single_pcollection "
        "flatten_a_flattened_pcollection flatten_multiple_pcollections_having_multiple_consumers",
        f"{FEATURES}flatten: inputs_with_different_coders no_input_at_all one_input_taken_twice "
        "a_flatten_of_flattens_shares_inputs inputs_from_different_levels",
    ),
    _row(
        "Reshuffle and Redistribute, as one exchange",
        "reshuffle reshuffle_preserves_timestamps reshuffle_after_custom_window",
        f"{FEATURES}transforms: exchanges",
    ),
    _row(
        "Reshuffle as before Beam 2.65, with --update_compatibility_version",
        "ReshuffleTest.reshuffle_default_window_preserves_metadata_1",
        f"{FEATURES}reshuffle_compatibility: panes_are_as_the_version_has_them",
    ),
    _row(
        "GroupByKey, combiners and Reshuffle encrypted between workers (--gbek)",
        f"{FEATURES}encrypted_keys: nothing_readable_goes_between_slots "
        "nothing_readable_is_on_the_disks_of_spark",
    ),
    _row(
        "Types that are registered as rows come out of every shuffle as themselves",
        "RowTypeTest.group_by_key_namedtuple RowTypeTest.group_by_key_dataclass",
        f"{STAGES}row_types_on_spark: types_of_a_module "
        "types_of_a_function_also_if_another_job_had_others_of_these_names "
        "types_of_the_main_program",
    ),
    _row(
        "Reshuffle with the times of Beam's direct runner",
        "ReshuffleTest.reshuffle_custom_window_preserves_metadata_0 "
        "ReshuffleTest.reshuffle_custom_window_preserves_metadata_1",
    ),
    _row("Wait.on", f"{FEATURES}transforms: wait_on_holds_elements_back_until_the_other_is_done"),
    _row(
        "GroupIntoBatches, BatchElements",
        f"{FEATURES}transforms: group_into_batches group_into_batches_with_sharded_keys "
        "batch_elements",
    ),
    _row("Deduplicate, Distinct", f"{FEATURES}transforms: deduplicate"),
    _row(
        "Dead letters (with_exception_handling)",
        f"{FEATURES}transforms: failing_elements_go_to_the_dead_letters "
        "failing_elements_of_a_dofn_with_a_time_limit",
    ),
)

_SIDE_INPUTS = (
    _row(
        "Iterable, list, dict, multimap",
        "pardo_side_inputs iterable_side_input reiterable_side_input multimap_side_input "
        "multimap_multiside_input as_list_and_as_dict_side_inputs flattened_side_input "
        "gbk_side_input",
        f"{FEATURES}side_inputs: every_view_of_pairs views_of_nothing",
    ),
    _row(
        "Singleton, with and without default",
        "empty_singleton_side_input default_value_singleton_side_input "
        "multi_valued_singleton_side_input as_singleton_with_different_defaults",
        f"{FEATURES}side_inputs: a_singleton",
    ),
    _row(
        "In windows, with every mapping",
        "pardo_windowed_side_inputs",
        f"{FEATURES}side_inputs: fixed_windows_look_at_the_window_of_their_last_moment "
        "sliding_side_windows all_windows_read_a_global_side_input windows_of_the_users_own",
    ),
    _row(
        "In streaming: elements wait for their window, and hold the watermark",
        f"{ROUNDS}sides: elements_wait_for_the_end_of_their_window_of_the_side_input "
        "what_waits_holds_the_frontier_and_says_why all_side_inputs_must_be_ready "
        "elements_wait_in_front_of_a_stateful_dofn elements_wait_in_front_of_a_splittable_dofn",
    ),
    _row(
        "Panes that replace each other while the job runs",
        "multi_triggered_gbk_side_input",
        f"{ROUNDS}sides: a_side_input_is_ready_with_its_first_pane_and_the_latest_one_counts "
        "a_dict_that_changes a_side_input_that_fires_in_processing_time",
    ),
)

_WINDOWS = (
    _row(
        "Fixed, sliding and session windows, with every timestamp combiner",
        "windowing windowed_combine_per_key",
        f"{FEATURES}windows: grouping_in_every_kind_of_window",
    ),
    _row(
        "Windows of the user's own, merging ones too",
        "custom_window_type custom_merging_window",
        f"{FEATURES}windows: windows_of_the_users_own_type merging_windows_of_the_users_own",
    ),
    _row(
        "Triggers and panes of bounded input",
        "first_pane",
        f"{FEATURES}windows: a_repeated_count_trigger_fires_each_time_and_loses_nothing "
        "the_default_trigger_gives_one_pane_on_time_and_last "
        "early_firings_add_up_to_the_window",
    ),
    _row(
        "Every trigger, pane and lateness of unbounded input, as Beam's own transcripts have it",
        "TriggerPipelineTest.after_processing_time TriggerPipelineTest.after_count_streaming "
        "TestStreamTranscriptTest.fixed_default_late_data",
        f"{PANES}transcripts: a_transcript_comes_out_as_beam_wrote_it",
        f"{PANES}against_beam: panes_of_windows_are_those_of_beams_driver "
        "panes_of_sessions_are_those_of_beams_driver",
        f"{PANES}processing_time: a_pane_comes_so_long_after_its_first_element",
    ),
    _row(
        "No last pane for elements that no trigger took before their window ended, "
        "as in Beam's Python runners",
        "TriggerPipelineTest.after_count LeaderBoardTest.leader_board_users "
        "ReshuffleTest.reshuffle_window_fn_preserved ReshuffleTest.reshuffle_windows_unchanged",
    ),
    _row(
        "The timestamp combiner that Beam keeps from runners (OUTPUT_AT_EARLIEST_TRANSFORMED)",
        "TestStreamTranscriptTest.timestamp_combiner_custom_timestamping_earliest_1",
    ),
    _row(
        "Streaming results are those of batch, whatever fails",
        "tests/laws/test_streaming: a_streaming_run_makes_what_the_batch_run_makes",
        "tests/nexmark/test_nexmark: a_query_gives_the_same_in_batch_and_in_rounds",
    ),
    _row(
        "TestStream",
        "multi_triggered_gbk_side_input combiner_earliest combiner_latest "
        "DeduplicateTest.deduplication_in_different_windows TestStreamTest.multiple_outputs "
        "TestStreamTest.basic_execution_sideinputs_fixed_windows "
        "TestStreamTest.basic_execution_with_service",
    ),
    _row(
        "A stream written down as a TestStream (ReverseTestStream)",
        "ReverseTestStreamTest.basic_execution ReverseTestStreamTest.windowing "
        "ReverseTestStreamTest.basic_execution_in_records_format",
    ),
    _row(
        "Elements dropped as late are counted and shown",
        f"{ROUNDS}late: every_step_counts_what_it_dropped_once",
        f"{ROUNDS}tell: says_how_much_came_too_late",
    ),
)

_SOURCES = (
    _row(
        "Unbounded splittable DoFns, within the budget of a round",
        f"{ROUNDS}restrictions: every_element_comes_once_however_small_the_rounds_are "
        "a_burst_is_absorbed_in_rounds_of_the_usual_size "
        "positions_survive_rounds_that_are_undone a_restriction_goes_on_when_it_asked_for "
        "watermarks_of_a_source_fire_windows",
    ),
    _row(
        "Beam's UnboundedSource, PeriodicImpulse",
        "unbounded_source_read",
        "EndToEndTest.eof_lets_event_time_window_fire "
        "PeriodicSequenceTest.periodicsequence_outputs_valid_sequence",
        f"{ROUNDS}unbounded_source: an_unbounded_source_is_read_once_and_to_its_end",
        f"{ROUNDS}restrictions_of_beam: periodic_impulse_is_on_time_and_ends",
    ),
    _row(
        "Bounded and unbounded inputs in one pipeline",
        "sliding_windows",
        f"{ROUNDS}restrictions_of_beam: bounded_and_unbounded_sources_meet_in_one_pipeline "
        "a_text_file_is_read_in_rounds",
    ),
    _row(
        "A source whose watermark goes back is held, and named",
        f"{ROUNDS}restrictions: a_source_whose_watermark_goes_back_is_held_and_named_once "
        "a_restriction_that_claims_nothing_for_long_is_named",
    ),
    _row(
        "A source that has nothing to give costs next to nothing",
        f"{ROUNDS}resting: who_has_nothing_is_asked_five_times_a_second_and_gives_what_comes_then",
    ),
)

_STATE = (
    _row(
        "Value, bag, combining, set and ordered list state: all that the Python SDK has",
        "pardo_state_only combining_value_state pardo_state_with_custom_key_coder",
        f"{FEATURES}state_and_timers: every_kind_of_state_is_kept_per_key "
        "an_ordered_list_is_read_and_cleared_by_time state_is_kept_per_window",
    ),
    _row(
        "Map and multimap state, declared with `sparkdrain.map_state`",
        "tests/rounds/test_map_state: maps_have_in_rounds_what_they_have_at_once "
        "what_is_declared_is_in_the_pipeline",
    ),
    _row(
        "State that outgrows memory",
        "tests/harness/test_user_state: every_kind_of_state_keeps_what_was_put_there "
        "a_key_with_thousands_of_windows_keeps_them_apart_beyond_memory",
    ),
    _row(
        "Event-time timers, with dynamic tags too",
        "pardo_timers pardo_timers_clear pardo_state_timers windowed_pardo_state_timers "
        "pardo_dynamic_timer",
        f"{FEATURES}state_and_timers: "
        "event_time_timers_fire_in_time_order_after_the_input_of_their_key "
        "a_timer_may_set_itself_again",
    ),
    _row(
        "State and timers that last from round to round",
        "pardo_et_timer_with_no_firing pardo_et_timer_with_no_reset "
        "pardo_et_timer_with_no_reset_and_no_clear",
        f"{ROUNDS}keyed_state: every_kind_of_state_lasts_from_round_to_round "
        "state_of_a_key_beyond_memory",
        f"{ROUNDS}keyed_timers: event_timers_fire_when_the_watermark_passes_them "
        "processing_time_timers_fire_when_it_is_time_and_hold_the_time_of_their_element "
        "a_window_ends_and_nothing_of_it_is_left",
    ),
    _row(
        "Input in time order (RequiresTimeSortedInput)",
        f"{ROUNDS}keyed_sorted: elements_come_in_time_order_when_nothing_earlier_can_come "
        "what_is_late_is_dropped_and_counted",
    ),
    _row(
        "Processing-time timers, fired at the end of the input",
        f"{FEATURES}state_and_timers: a_processing_time_timer_that_is_pending_fires_at_the_end",
    ),
)

_SPLITTABLE = (
    _row(
        "Bounded, split at the start",
        "sdf sdf_synthetic_source side_input_with_sdf sdf_with_dofn_as_restriction_provider",
        f"{FEATURES}splittable: initial_parts_cover_the_whole_once side_inputs_and_windows",
    ),
    _row(
        "That put work off, and resume it later",
        "sdf_with_sdf_initiated_checkpointing",
        f"{FEATURES}splittable: what_is_put_off_is_done_later",
    ),
    _row(
        "Watermark estimators",
        "sdf_with_watermark_tracking",
        f"{FEATURES}splittable: watermarks_and_times",
    ),
    _row(
        "A straggler's work is split and given to idle cores",
        f"{STAGES}balance: a_straggler_is_helped_and_every_position_is_processed_once",
    ),
    _row(
        "Truncate, drain",
        "sdf_with_truncate sdf_default_truncate_when_bounded sdf_default_truncate_when_unbounded "
        "draining_sdf_with_sdf_initiated_checkpointing",
    ),
    _row(
        "Split while one is processed in a round, when the budget of the round is spent; "
        "also while the job is drained",
        "FnApiRunnerSplitTest.checkpoint_sdf FnApiRunnerSplitTest.checkpoint_draining_sdf",
        f"{ROUNDS}restrictions: every_element_comes_once_however_small_the_rounds_are "
        "what_makes_much_of_one_claim_is_interrupted_from_outside",
        f"{ROUNDS}drain_sources: truncation_goes_on_in_the_next_round_when_the_budget_is_spent",
    ),
    _row(
        "Split in halves, when the split manager of a test says so",
        "FnApiRunnerSplitTest.split_half_sdf FnApiRunnerSplitTest.split_half_draining_sdf",
    ),
    _row(
        "Bundles of plain elements that are split while they are processed",
        "FnApiRunnerSplitTest.split_half FnApiRunnerSplitTest.time_based_split_manager",
    ),
)

_DRAIN = (
    _row(
        "By the program, a command, a Job API client, a record, a signal; before the start too",
        "tests/drain/test_drain_on_spark: by_the_program_itself "
        "by_the_command_that_first_asks_what_it_would_find "
        "by_the_command_through_the_store_of_a_job_in_another_process "
        "by_a_record_that_was_there_before_the_start_nothing_is_read "
        "by_a_raw_client_while_beams_own_portable_runner_waits",
        "tests/test_drained_results: "
        "a_signal_drains_the_job_if_that_is_asked_for_and_the_next_one_is_as_before",
    ),
    _row(
        "Every window and timer fires, each once; nothing that was read is lost or late",
        "tests/laws/test_drain: "
        "a_drained_run_makes_what_the_bounded_run_over_the_admitted_elements_makes "
        "panes_of_a_drained_run_are_well_formed_and_have_every_admitted_element_once",
    ),
    _row(
        "Timers that set themselves again for ever are bounded, and told of",
        f"{ROUNDS}drain_timers: a_timer_that_sets_itself_again_for_ever_is_stopped_and_told_of",
    ),
    _row(
        "User code is told, and sees what is caused by the drain",
        f"{ROUNDS}drain_told: a_dofn_is_told_once_when_nothing_more_can_come_and_may_emit "
        "the_mark_goes_through_shuffles_and_into_combined_values",
    ),
    _row(
        "Limits of time: fail, cancel or wait; user code that hangs is interrupted",
        "tests/drain/test_drain_on_spark: "
        "a_dofn_that_hangs_in_a_drain_fails_the_job_at_its_limit_and_is_named",
        "tests/jobs/test_draining: "
        "a_drain_that_takes_too_long_ends_as_the_policy_says_and_the_request_stays",
    ),
    _row(
        "A new version that cannot read the old state: drain, start, each record counted once",
        "integration/test_redeploy: "
        "drained_and_started_anew_each_visit_is_counted_once "
        "without_a_drain_the_new_version_is_refused_and_begun_anew_it_loses_visits",
    ),
    _row(
        "A drain goes on after its driver, Spark's JVM or a slot's process was killed in any phase",
        "tests/drain/test_killed_while_draining: killed_in_each_phase",
        "tests/drain/test_drain_on_spark: "
        "a_request_is_heard_by_who_takes_the_run_up_again_after_its_driver_was_killed",
    ),
    _row(
        "A drain that was cancelled goes on when the run is taken up again",
        "tests/drain/test_drain_on_spark: "
        "a_drain_that_is_given_up_by_cancelling_is_gone_on_with_by_who_resumes",
    ),
)

_CHECKPOINTS = (
    _row(
        "State is made durable while the job runs; everything counts once, whenever it dies",
        "tests/laws/test_checkpoints: "
        "a_job_that_dies_and_goes_on_makes_everything_once "
        "a_job_that_dies_while_it_is_drained_makes_all_of_what_it_had_read_once "
        "a_source_that_was_cut_is_never_read_on",
    ),
    _row(
        "A job goes on by itself after a loss, and with --resume after its driver's end",
        f"{ROUNDS}recovery_on_spark: "
        "a_job_whose_host_is_killed_goes_on_from_its_newest_checkpoint "
        "a_job_that_was_stopped_goes_on_if_it_is_asked_to_and_is_the_same",
    ),
    _row(
        "State that lies on a slot's host is not downloaded: after a loss, and with --resume",
        f"{ROUNDS}local_state_on_spark: after_a_kill_and_after_a_restart_no_state_is_downloaded",
        "tests/local_state/test_slot_files: "
        "the_opened_state_is_that_of_the_checkpoint_whatever_was_there",
    ),
    _row(
        "Drivers stand by, and go on when the one that leads is lost (--standby)",
        "tests/standby/test_standby_on_spark: "
        "another_driver_goes_on_when_the_leader_is_killed_and_when_it_is_paused",
        "integration/test_standby_on_stores: each_record_counts_once_whatever_befalls_the_leader",
        "tests/standby/test_standing_jobs: "
        "a_job_that_is_drained_by_name_ends_so_for_all_its_drivers "
        "a_failure_goes_to_the_next_driver_and_at_last_fails_all",
    ),
    _row(
        "Stable input (StableParDo)",
        "tests/laws/test_checkpoints: "
        "what_requires_stable_input_never_sees_what_did_not_come_to_be",
    ),
    _row(
        "Kafka to Kafka, exactly once",
        "integration/test_kafka_once: every_record_is_there_once_whoever_was_killed",
    ),
    _row(
        "Event Hubs over AMQP, against a stand-in: read, write, resume, drain",
        "integration/test_eventhubs: "
        "a_batch_job_writes_events_and_another_reads_each_once "
        "a_stream_of_events_is_resumed_and_drained_with_exact_totals",
    ),
)

_FILES = (
    _row(
        "Text, compressed text, Avro, Parquet, TFRecord, CSV, JSON",
        f"{FEATURES}files: what_is_written_can_be_read the_number_of_files_is_what_was_asked_for "
        "nothing_written_is_one_empty_file",
    ),
    _row(
        "fileio: match, read, write by window and destination",
        f"{FEATURES}files: files_are_matched_and_read_whole files_by_window_and_destination",
    ),
    _row("DataFrame API", f"{FEATURES}files: data_frames data_frames_between_collections"),
    _row(
        "No output that looks complete after a failure",
        f"{FEATURES}files: a_failing_write_leaves_no_file_that_looks_complete",
        f"{STAGES}failures_on_spark: "
        "a_job_that_fails_while_it_writes_leaves_nothing_that_looks_complete",
    ),
)

_AROUND = (
    _row(
        "Bundle finalization, in bounded jobs before Spark has taken the bundle's output over",
        "register_finalizations callbacks_with_exception",
        f"{FEATURES}dofns: finalizers_run_once_when_all_went_well",
    ),
    _row(
        "Metrics: counter, distribution, gauge, string set, bounded trie; attempted and committed",
        "metrics user_counter_using_pardo",
        f"{FEATURES}metrics: every_kind_of_metric_is_put_together_from_all_slots "
        "metrics_can_be_asked_for_by_step_and_namespace",
    ),
    _row(
        "Metrics of each type that Beam defines, put together by the law of the type",
        "tests/metrics/test_laws: every_type_that_beam_defines_has_a_law_and_payloads_here "
        "payloads_come_in_any_order_and_any_grouping",
        "tests/fnapi/test_short_ids: metrics_are_equal_by_id_alone_and_with_all_names",
    ),
    _row(
        "Beam's own metrics: element counts, sizes, times",
        "non_user_metrics element_count_metrics progress_metrics",
    ),
    _row("Runtime values", "create_value_provider_pipeline_option"),
    _row(
        "The user's own exception first, with its step",
        "error_message_includes_stage error_traceback_includes_user_code",
        f"{STAGES}failures_on_spark: the_users_exception_comes_first_then_where_it_was_raised",
        f"{STAGES}failing_programs: the_users_exception_is_the_first_thing_that_is_printed",
    ),
    _row(
        "The user's own exception by its class, as in Beam's runners without workers",
        "DoFnProcessTest.dofn_process_keyparam_error_no_key",
    ),
    _row(
        "Progress while a job runs: a live table or plain lines",
        f"{STAGES}progress_display: the_live_table_shows_the_steps the_last_line_sums_the_job_up",
    ),
    _row(
        "Ctrl-C cancels the Spark job",
        f"{STAGES}failing_programs: an_interrupted_program_leaves_no_process_and_fails",
    ),
)

_CLUSTER = (
    _row(
        "A standalone cluster (two workers at two addresses of one machine), as local mode",
        "integration/test_cluster: "
        "a_pipeline_gives_the_same_results_on_a_cluster_as_on_this_machine",
    ),
    _row(
        "YARN, in batch and streaming mode",
        "integration/test_yarn: a_pipeline_gives_the_same_results_on_yarn_in_both_modes "
        "a_stock_example_runs_on_yarn",
    ),
    _row(
        "Nexmark's queries, but for the 6th, on that cluster, in both modes",
        "integration/test_nexmark_on_cluster: two_hosts_give_in_batch_mode_what_one_machine_does "
        "two_hosts_give_in_streaming_mode_what_one_machine_does_and_slots_stay_at_home",
    ),
    _row(
        "Slots of a stream spread evenly; their tasks run where their state is",
        "integration/test_homes: a_slot_whose_executor_is_killed_gets_a_new_home",
        "integration/test_nexmark_on_cluster: "
        "two_hosts_give_in_streaming_mode_what_one_machine_does_and_slots_stay_at_home",
    ),
    _row(
        "Slots of a stream move to a worker that joins the cluster",
        "integration/test_homes: slots_move_to_a_worker_that_joins_while_the_job_runs",
    ),
    _row(
        "An executor that is killed costs time, not results",
        "integration/test_killed_executor: killed_while_a_level_is_being_written "
        "killed_when_a_level_has_ended_and_the_next_one_reads_it",
    ),
    _row(
        "Transforms of Java's SDK in Python pipelines, in batch and streaming mode",
        "integration/test_java_transforms: java_runs_between_python_steps_from_staged_jars "
        "records_that_java_writes_to_kafka_are_those_that_it_reads "
        "a_stream_in_java_and_python_is_drained_with_every_record_once",
    ),
    _row(
        "Pipelines of Java's and Go's SDKs, in batch and streaming mode; of TypeScript's, in batch",
        "integration/test_java: a_java_program_finds_what_it_expects",
        "integration/test_go: a_go_program_finds_what_it_expects_and_fails_if_it_does_not",
        "integration/test_typescript: a_typescript_program_counts_words_and_a_wrong_count_fails",
        "integration/test_sdk_streams: "
        "an_endless_program_of_another_sdk_is_killed_resumed_and_drained_exactly",
    ),
    _row(
        "Packages that the pipeline brings",
        f"{STAGES}dependencies_on_spark: a_setup_file_sends_the_project_around_it "
        "a_requirements_file_may_name_local_packages",
        "integration/test_cluster: a_package_that_a_job_brings_reaches_both_hosts",
    ),
    _row(
        "Elements of classes that the main program defines",
        f"{STAGES}dependencies_on_spark: elements_may_be_of_classes_that_the_program_defines",
    ),
    _row(
        "Pipelines in Beam YAML",
        f"{STAGES}yaml: a_pipeline_in_yaml_reads_groups_and_writes",
    ),
    _row(
        "Notebooks, by Beam's InteractiveRunner, for sources that end",
        f"{STAGES}interactive: what_is_collected_is_there_and_is_used_by_the_next_cell "
        "a_cell_that_fails_ends_with_the_users_exception a_stream_that_ends_is_collected_too",
    ),
    _row(
        "A session that the program has, spark-submit, spark-defaults.conf",
        f"{STAGES}sessions: an_active_session_is_used_with_its_settings_and_not_stopped "
        "spark_submit_says_where_and_how_a_pipeline_runs spark_defaults_are_kept",
    ),
)

GROUPS = (
    Group("Transforms", _TRANSFORMS),
    Group("Side inputs", _SIDE_INPUTS),
    Group("Windows and time", _WINDOWS),
    Group("Unbounded input", _SOURCES),
    Group("State and timers", _STATE),
    Group("Splittable DoFns", _SPLITTABLE),
    Group("Checkpoints, and what leaves the job", _CHECKPOINTS),
    Group("Drain", _DRAIN),
    Group("Files and data frames", _FILES),
    Group("Around the data", _AROUND),
    Group("Where it runs", _CLUSTER),
)


def unsupported() -> dict[str, str]:
    """Each test of Beam's that fails here, and the reason.

    Without its suite if that is the one that all portable runners share.
    """
    return {_name(test): reason for test, reason in _listed("FAILING").items()}


def not_run() -> dict[str, str]:
    """Each test of Beam's suites that is left out of them, and the reason."""
    return {_name(test): reason for test, reason in _listed("NOT_RUN").items()}


def _listed(table: str) -> dict[str, str]:
    return runpy.run_path(str(ROOT / "tests/conformance/unsupported.py"))[table]


def _name(test: str) -> str:
    return test.removeprefix("FnApiRunnerSuite.").replace("SplitSuite.", "SplitTest.")


def refusals() -> dict[str, str]:
    """What is refused before anything runs: pipelines, each with the words that come back."""
    refused = {name: _refusal(build()) for name, build in _REFUSED.items()}
    return refused | {
        name: _refusal(build(), streaming=True) for name, build in _REFUSED_IN_STREAMING.items()
    }


def _refusal(pipeline: beam_runner_api_pb2.Pipeline, *, streaming: bool = False) -> str:
    try:
        check(pipeline, streaming=streaming)
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


def _with_stable_input() -> beam_runner_api_pb2.Pipeline:
    pipeline = _proto("Pay" >> beam.Create([1], reshuffle=False))
    for transform in pipeline.components.transforms.values():
        if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
            payload = runner_api.ParDoPayload.FromString(transform.spec.payload)
            payload.requires_stable_input = True
            transform.spec.payload = payload.SerializeToString()
    return pipeline


def _requiring(urn: str) -> beam_runner_api_pb2.Pipeline:
    pipeline = _proto(beam.Impulse())
    pipeline.requirements.append(urn)
    return pipeline


_REFUSED: dict[str, Callable[[], Any]] = {
    "Transforms that this runner does not know, and that are not expanded": lambda: _with_urn(
        "beam:transform:of_another_sdk:v1"
    ),
    "Requirements that Beam may add": lambda: _requiring("beam:requirement:of_a_later_beam:v1"),
}
_REFUSED_IN_STREAMING: dict[str, Callable[[], Any]] = {
    "Stable input in streaming, without checkpoints": _with_stable_input,
}
