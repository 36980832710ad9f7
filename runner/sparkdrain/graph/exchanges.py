"""Exchanges: which run as Beam wrote them, which are left out, and what their readers must know."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain.graph import urns
from sparkdrain.graph.beam import common_urns
from sparkdrain.graph.plan import TransformId
from sparkdrain.graph.transform import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

    from apache_beam.portability.api import beam_runner_api_pb2

    from sparkdrain.graph.transform import Transform

_ENCRYPTS: Final = "gbek"
_VERSION: Final = "update_compatibility_version"
_KEEPS_PANES: Final = "2.65.0"
"""From this release on, Beam's Reshuffle keeps the panes of its elements, as the runner's does."""


def as_written(
    pipeline: beam_runner_api_pb2.Pipeline, options: Mapping[str, Any]
) -> beam_runner_api_pb2.Pipeline:
    """The pipeline, with exchanges taken apart if its options ask for what is inside of them.

    An exchange of the runner hands elements on as they are. Beam's own steps do something else
    with ``--update_compatibility_version`` before 2.65.0 (they drop panes), and with ``--gbek``
    (they encrypt). Keeps its argument. Options go by plain name.
    """
    if not _changes_exchanges(options):
        return pipeline
    written = copy.deepcopy(pipeline)
    for transform in written.components.transforms.values():
        if transform.spec.urn in urns.EXCHANGES and transform.subtransforms:
            transform.spec.Clear()
    return written


def _changes_exchanges(options: Mapping[str, Any]) -> bool:
    if options.get(_ENCRYPTS):
        return True
    version = options.get(_VERSION)
    if not version:
        return False
    asked = PipelineOptions.from_dictionary({_VERSION: version})
    return bool(asked.is_compat_version_prior_to(_KEEPS_PANES))


def drop_side_inputs_of_exchanges(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Yield all stages; every exchange keeps just the input whose elements it passes on."""
    pcollections = context.components.pcollections
    for stage in stages:
        transform = stage.transforms[0]
        if transform.spec.urn in urns.EXCHANGES and len(transform.inputs) > 1:
            (output,) = transform.outputs.values()
            coder = pcollections[output].coder_id
            for tag, pcollection in list(transform.inputs.items()):
                if pcollections[pcollection].coder_id != coder:
                    del transform.inputs[tag]
        yield stage


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


def tell_pairs(
    pipeline: beam_runner_api_pb2.Pipeline,
    components: beam_runner_api_pb2.Components,
    transforms: Sequence[Transform],
) -> None:
    """Give untyped pairs their coder where a harness outside of the slot's process has them.

    A stateful DoFn reads what goes into the exchange before it, see ``skip_exchanges``. Of untyped
    elements, Beam's Python SDK says behind the exchange only that they are pairs.

    Args:
        pipeline: as it was submitted.
        components: the components of the optimized pipeline, whose coders change.
        transforms: the transforms of the optimized pipeline, each with its place.
    """
    places = {output: each.place for each in transforms for output in each.outputs}
    behind = _behind_exchanges(pipeline.components)
    for transform in transforms:
        # In process a slot tells keys from values without a coder, and checkpoints know the coder.
        for taken in transform.main_inputs if transform.keyed else ():
            if transform.place or places[taken]:
                collection = components.pcollections[taken]
                collection.coder_id = _coder_of_pairs(taken, behind, components)


def _behind_exchanges(components: beam_runner_api_pb2.Components) -> Mapping[str, Sequence[str]]:
    """What exchanges make of a PCollection."""
    behind: dict[str, list[str]] = {}
    for transform in components.transforms.values():
        if transform.spec.urn in urns.EXCHANGES:
            for taken in transform.inputs.values():
                behind.setdefault(taken, []).extend(transform.outputs.values())
    return behind


def _coder_of_pairs(
    taken: str,
    behind: Mapping[str, Sequence[str]],
    components: beam_runner_api_pb2.Components,
) -> str:
    """The coder of a PCollection, or if it is not one of pairs, of what exchanges make of it."""
    own = components.pcollections[taken].coder_id
    same = [taken]
    for name in same:
        coder = components.pcollections[name].coder_id
        if components.coders[coder].spec.urn == common_urns.coders.KV.urn:
            return coder
        same += behind.get(name, ())
    return own
