"""Pipelines that show one planning rule each; names say the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.pvalue import AsDict, AsIter, AsMultiMap, AsSingleton, PCollection
from apache_beam.transforms import environments
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

Build = Callable[[beam.Pipeline], object]
PIPELINES: dict[str, Build] = {}


def shows(build: Build) -> Build:
    """Add to PIPELINES, under the function's name with dashes."""
    PIPELINES[build.__name__.replace("_", "-")] = build
    return build


def proto_of(build: Build) -> Any:
    """The pipeline as it is submitted."""
    pipeline = beam.Pipeline()
    build(pipeline)
    capabilities = environments.python_sdk_capabilities()
    return pipeline.to_runner_api(
        default_environment=environments.EmbeddedPythonEnvironment(capabilities=capabilities)
    )


def keyed(root: beam.Pipeline, label: str) -> PCollection[tuple[str, int]]:
    """Pairs. Impulse and Map, since Create brings transforms that are of no interest here."""
    one = root | f"{label}/Impulse" >> beam.Impulse()
    return one | label >> beam.Map(lambda _: ("k", 1)).with_output_types(tuple[str, int])


def total(pair: tuple[str, Any]) -> tuple[str, int]:
    return pair[0], sum(pair[1])


class Count(beam.DoFn):
    """Stateful."""

    SEEN = ReadModifyWriteStateSpec("seen", beam.coders.VarIntCoder())

    def process(
        self, pair: tuple[str, int], seen: Any = beam.DoFn.StateParam(SEEN)
    ) -> Iterator[tuple[str, int]]:
        seen.write((seen.read() or 0) + 1)
        yield pair


class Numbers(beam.DoFn, RestrictionProvider):
    """Splittable."""

    def process(
        self, element: Any, tracker: Any = beam.DoFn.RestrictionParam()
    ) -> Iterator[tuple[str, int]]:
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield str(element), position
            position += 1

    def initial_restriction(self, _element: Any) -> OffsetRange:
        return OffsetRange(0, 3)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, _element: Any, restriction: OffsetRange) -> int:
        return restriction.size()


@shows
def group_by_key_is_a_barrier(root: beam.Pipeline) -> None:
    _ = keyed(root, "Pairs") | "Group" >> beam.GroupByKey() | "Total" >> beam.Map(total)


@shows
def combine_is_lifted(root: beam.Pipeline) -> None:
    _ = keyed(root, "Words") | "Count" >> beam.CombinePerKey(sum) | "Write" >> beam.Map(str)


@shows
def cogroup_has_one_shuffle(root: beam.Pipeline) -> None:
    both = {"left": keyed(root, "Left"), "right": keyed(root, "Right")}
    _ = both | "Join" >> beam.CoGroupByKey() | "Use" >> beam.Map(str)


@shows
def reshuffle_spreads(root: beam.Pipeline) -> None:
    _ = keyed(root, "Pairs") | "Spread" >> beam.Reshuffle() | "Use" >> beam.Map(str)


@shows
def barrier_after_barrier_gets_an_identity(root: beam.Pipeline) -> None:
    pairs = keyed(root, "Pairs")
    grouped = pairs | "Group" >> beam.GroupByKey() | "Regroup" >> beam.GroupByKey()
    spread = grouped | "Spread" >> beam.Reshuffle() | "Again" >> beam.Reshuffle()
    _ = spread | "Use" >> beam.Map(str)


@shows
def group_by_key_behind_reshuffle_is_one_barrier(root: beam.Pipeline) -> None:
    spread = keyed(root, "Pairs") | "Spread" >> beam.Reshuffle() | "Again" >> beam.Reshuffle()
    _ = spread | "Group" >> beam.GroupByKey() | "Use" >> beam.Map(str)


@shows
def stateful_is_partitioned_by_key(root: beam.Pipeline) -> None:
    _ = keyed(root, "Pairs") | "Count" >> beam.ParDo(Count()) | "Use" >> beam.Map(str)


@shows
def stateful_behind_reshuffle_is_partitioned_by_key(root: beam.Pipeline) -> None:
    _ = keyed(root, "Pairs") | "Spread" >> beam.Reshuffle() | "Count" >> beam.ParDo(Count())


@shows
def stateful_twice_shares_one_edge(root: beam.Pipeline) -> None:
    pairs = keyed(root, "Pairs")
    _ = pairs | "Count" >> beam.ParDo(Count())
    _ = pairs | "Count again" >> beam.ParDo(Count())


@shows
def side_inputs_wait_a_level(root: beam.Pipeline) -> None:
    sides = keyed(root, "Sides")
    _ = keyed(root, "Main") | "Use" >> beam.Map(lambda _, items: len(items), AsIter(sides))


@shows
def side_input_is_published_once_for_each_access(root: beam.Pipeline) -> None:
    sides, main = keyed(root, "Sides"), keyed(root, "Main")
    for label, view in {"List": AsIter, "Dict": AsDict, "Keys": AsMultiMap}.items():
        _ = main | label >> beam.Map(lambda _, items: str(items), view(sides))


@shows
def side_input_may_come_from_a_group(root: beam.Pipeline) -> None:
    count = keyed(root, "Sides") | "Group" >> beam.GroupByKey()
    _ = keyed(root, "Main") | "Use" >> beam.Map(lambda _, one: str(one), AsSingleton(count))


@shows
def side_input_cuts_the_main_edge_too(root: beam.Pipeline) -> None:
    main = keyed(root, "Main")
    _ = main | "Now" >> beam.Map(str)
    _ = main | "Later" >> beam.Map(lambda _, items: len(items), AsIter(keyed(root, "Sides")))


@shows
def flatten_fuses_what_is_of_its_level(root: beam.Pipeline) -> None:
    _ = (keyed(root, "One"), keyed(root, "Other")) | beam.Flatten() | "Use" >> beam.Map(str)


@shows
def flatten_takes_from_an_earlier_level(root: beam.Pipeline) -> None:
    pairs = keyed(root, "Pairs")
    totals = pairs | "Group" >> beam.GroupByKey() | "Total" >> beam.Map(total)
    _ = (pairs, totals) | beam.Flatten() | "Use" >> beam.Map(str)


@shows
def flatten_takes_the_same_twice(root: beam.Pipeline) -> None:
    pairs = keyed(root, "Pairs")
    _ = (pairs, pairs) | beam.Flatten() | "Use" >> beam.Map(str)


@shows
def what_only_a_late_level_wants_runs_there(root: beam.Pipeline) -> None:
    early = keyed(root, "Early") | "Group" >> beam.GroupByKey() | "Total" >> beam.Map(total)
    late = keyed(root, "Late") | "Prepare" >> beam.Map(lambda pair: pair)
    _ = (early, late) | beam.Flatten() | "Use" >> beam.Map(str)


@shows
def branches_without_a_link_are_stages_of_one_level(root: beam.Pipeline) -> None:
    _ = keyed(root, "One") | "Use one" >> beam.Map(str)
    _ = keyed(root, "Other") | "Use other" >> beam.Map(str)


@shows
def readers_of_one_group_share_its_edge(root: beam.Pipeline) -> None:
    groups = keyed(root, "Pairs") | "Group" >> beam.GroupByKey()
    _ = groups | "Use" >> beam.Map(str)
    _ = groups | "Use too" >> beam.Map(str)


@shows
def readers_at_two_levels_get_an_edge_each(root: beam.Pipeline) -> None:
    groups = keyed(root, "Pairs") | "Group" >> beam.GroupByKey()
    totals = groups | "Total" >> beam.Map(total)
    _ = groups | "Use" >> beam.Map(lambda _, items: len(items), AsIter(totals))


@shows
def splittable_dofn_spreads_its_restrictions(root: beam.Pipeline) -> None:
    _ = root | beam.Impulse() | "Numbers" >> beam.ParDo(Numbers()) | "Use" >> beam.Map(str)


@shows
def tagged_outputs_go_their_own_ways(root: beam.Pipeline) -> None:
    def split(pair: tuple[str, int]) -> Iterator[Any]:
        yield pair
        yield beam.pvalue.TaggedOutput("rest", pair)

    parts = keyed(root, "Pairs") | "Split" >> beam.FlatMap(split).with_outputs("rest", main="main")
    _ = parts.rest | "Group" >> beam.GroupByKey()
    _ = parts.main | "Use" >> beam.Map(str)


@shows
def nothing_at_all(root: beam.Pipeline) -> None:
    del root
