"""Leaves out exchanges whose elements are partitioned by key right behind them anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkdrain.graph import urns
from sparkdrain.graph.plan import TransformId
from sparkdrain.graph.transform import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def skip_exchanges(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Yield all stages, but for exchanges that nothing is left to read from.

    A stateful DoFn reads what goes into the exchange before it. That saves moving elements twice,
    and keeps the order of those that one call makes for a key: an exchange deals them out.
    """
    stages = list(stages)
    strategies = {
        name: pcollection.windowing_strategy_id
        for name, pcollection in context.components.pcollections.items()
    }
    skipped: dict[str, str] = {}
    for stage in stages:
        transform = stage.transforms[0]
        if transform.spec.urn in urns.EXCHANGES:
            (made,), (taken,) = transform.outputs.values(), transform.inputs.values()
            if strategies[made] == strategies[taken]:
                skipped[made] = taken
    for stage in stages:
        transform = stage.transforms[0]
        described = describe(TransformId(""), transform)
        for tag in transform.inputs.keys() - described.side_tags if described.keyed else ():
            while transform.inputs[tag] in skipped:
                transform.inputs[tag] = skipped[transform.inputs[tag]]
    read = {name for stage in stages for name in stage.transforms[0].inputs.values()}
    for stage in stages:
        outputs = set(stage.transforms[0].outputs.values())
        if not outputs or not outputs.issubset(skipped.keys() - read):
            yield stage
