"""Leaves out exchanges whose elements are partitioned by key right behind them anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkdrain.graph import urns
from sparkdrain.graph.plan import TransformId
from sparkdrain.graph.transform import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Set

    from apache_beam.portability.api import beam_runner_api_pb2


def skip_exchanges(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Yield all stages, but for exchanges that nothing is left to read from.

    A stateful DoFn reads what goes into the exchange before it. That saves moving elements twice,
    and keeps the order of those that one call makes for a key: an exchange deals them out.
    """
    return _skipped(stages, _unchanged(context, "windowing_strategy_id"), _keyed)


def skip_exchanges_before_groups(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """The same for a GroupByKey. What it makes is as stable as what an exchange makes.

    Beam's Python SDK says of what a GroupByKey reads that it is pairs, and not of what is before
    an exchange. Where both have another coder, the exchange stays.
    """
    return _skipped(stages, _unchanged(context, "windowing_strategy_id", "coder_id"), _grouped)


def _unchanged(context: Any, *fields: str) -> Callable[[str, str], bool]:
    """Whether two PCollections have the same in some fields."""
    pcollections = context.components.pcollections
    told = {name: [getattr(each, field) for field in fields] for name, each in pcollections.items()}
    return lambda made, taken: told[made] == told[taken]


def _keyed(transform: beam_runner_api_pb2.PTransform) -> Set[str]:
    described = describe(TransformId(""), transform)
    return transform.inputs.keys() - described.side_tags if described.keyed else frozenset()


def _grouped(transform: beam_runner_api_pb2.PTransform) -> Set[str]:
    return transform.inputs.keys() if transform.spec.urn == urns.GROUP_BY_KEY else frozenset()


def _skipped(
    stages: Iterable[Any],
    unchanged: Callable[[str, str], bool],
    partitioned: Callable[[beam_runner_api_pb2.PTransform], Set[str]],
) -> Iterator[Any]:
    """Yield all stages, but for exchanges that nothing is left to read from.

    Args:
        unchanged: whether an exchange makes of one PCollection another that may stand for it.
        partitioned: the inputs of a transform that are partitioned by key right before it.
    """
    stages = list(stages)
    skipped: dict[str, str] = {}
    for stage in stages:
        transform = stage.transforms[0]
        if transform.spec.urn in urns.EXCHANGES:
            (made,), (taken,) = transform.outputs.values(), transform.inputs.values()
            if unchanged(made, taken):
                skipped[made] = taken
    for stage in stages:
        transform = stage.transforms[0]
        for tag in partitioned(transform):
            while transform.inputs[tag] in skipped:
                transform.inputs[tag] = skipped[transform.inputs[tag]]
    read = {name for stage in stages for name in stage.transforms[0].inputs.values()}
    for stage in stages:
        outputs = set(stage.transforms[0].outputs.values())
        if not outputs or not outputs.issubset(skipped.keys() - read):
            yield stage
