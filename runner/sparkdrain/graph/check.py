"""Says whether a job runs in rounds, and refuses what it cannot run, before anything starts."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.errors import Unsupported
from sparkdrain.graph import urns
from sparkdrain.graph.beam import common_urns, expand_anyof_environments
from sparkdrain.graph.environments import OUTSIDE, can_sample, chosen, is_go
from sparkdrain.graph.window_fns import has_own_windows, merges, strategy_of
from sparkdrain.io.stable import OVERRULED, SINK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sparkdrain.options import JobSettings

_STABLE_INPUT: str = common_urns.requirements.REQUIRES_STABLE_INPUT.urn
_ON_WINDOW_EXPIRATION: str = common_urns.requirements.REQUIRES_ON_WINDOW_EXPIRATION.urn
_REQUIREMENTS = frozenset(
    {
        common_urns.requirements.REQUIRES_BUNDLE_FINALIZATION.urn,
        common_urns.requirements.REQUIRES_STATEFUL_PROCESSING.urn,
        _STABLE_INPUT,
        _ON_WINDOW_EXPIRATION,
        common_urns.requirements.REQUIRES_TIME_SORTED_INPUT.urn,
        common_urns.requirements.REQUIRES_SPLITTABLE_DOFN.urn,
    }
)
_ORDERED_LISTS = "beam:protocol:ordered_list_state:v1"
_COMPOSITES = frozenset({common_urns.composites.COMBINE_PER_KEY.urn})
# Names that a message shows at most.
_MOST_SHOWN: Final = 10
_UNBOUNDED = beam_runner_api_pb2.IsBounded.UNBOUNDED


def is_streaming(pipeline: beam_runner_api_pb2.Pipeline, settings: JobSettings) -> bool:
    """Whether ``pipeline`` is to run in rounds: it asks for it, or could not end otherwise."""
    components = pipeline.components
    return (
        settings.streaming
        or any(p.is_bounded == _UNBOUNDED for p in components.pcollections.values())
        or any(t.spec.urn == urns.TEST_STREAM for t in components.transforms.values())
    )


def check(
    pipeline: beam_runner_api_pb2.Pipeline,
    *,
    streaming: bool = False,
    durable: bool = False,
    async_steps: Iterable[str] = (),
    samples: bool = False,
) -> None:
    """Raise ``Unsupported``, naming transform, URN and alternative, if the job cannot run.

    Args:
        pipeline: as it was submitted.
        streaming: whether it would run in rounds, see ``is_streaming``.
        durable: whether it would make checkpoints.
        async_steps: names that an option has for steps that wait.
        samples: whether an option wants samples of elements.
    """
    for requirement in pipeline.requirements:
        if requirement not in _REQUIREMENTS:
            msg = f"the pipeline requires {requirement}, which this runner does not offer"
            raise Unsupported(msg)
    _check_sinks(pipeline.components.transforms.values())
    leaves = list(_leaves(pipeline))
    for transform in leaves:
        _check_transform(transform, pipeline.components, streaming=streaming, durable=durable)
    for transform in () if streaming else leaves:
        _check_bounded(transform, pipeline.components)
    for name in async_steps:
        _check_async_step(name, leaves, pipeline.components)
    if samples:
        _check_samples(leaves, pipeline.components)


def _check_sinks(transforms: Iterable[beam_runner_api_pb2.PTransform]) -> None:
    """Names of sinks that write exactly once are unique, and those that an option has are there."""
    names: dict[str, str] = {}
    overruled: set[str] = set()
    for transform in sorted(transforms, key=lambda transform: transform.unique_name):
        if SINK not in transform.annotations:
            continue
        name = transform.annotations[SINK].decode()
        if name in names:
            msg = (
                f"{names[name]!r} and {transform.unique_name!r} have one name, {name!r}: each "
                "would take records of the other for its own. Give each exactly_once sink a name "
                "that no other sink of any job has"
            )
            raise Unsupported(msg)
        names[name] = transform.unique_name
        overruled.update(json.loads(transform.annotations[OVERRULED]))
    for name in sorted(overruled - names.keys()):
        msg = (
            f"--kafka_publish_anyway names {name!r}, and the pipeline has no sink of that name. "
            f"Its exactly_once sinks are {', '.join(map(repr, sorted(names)))}"
        )
        raise Unsupported(msg)


def _check_async_step(
    name: str,
    leaves: Sequence[beam_runner_api_pb2.PTransform],
    components: beam_runner_api_pb2.Components,
) -> None:
    """A step that an option makes asynchronous is there, and can be."""
    steps = {leaf.unique_name: leaf for leaf in leaves if leaf.spec.urn == urns.PAR_DO}
    step = steps.get(name)
    if step is None:
        within = [each for each in steps if each.startswith(f"{name}/")]
        shown = within or difflib.get_close_matches(name, steps, _MOST_SHOWN, 0.0)
        msg = (
            f"--async_steps names {name!r}, and no ParDo of the pipeline has that name. "
            f"{'There are, within it,' if within else 'There are'} "
            f"{', '.join(map(repr, shown)) or 'none'}: give one of these names"
        )
        raise Unsupported(msg)
    environment = chosen(components.environments[step.environment_id])
    if environment is not None and environment.urn in OUTSIDE:
        msg = (
            f"--async_steps names {name!r}, which runs in a process of its own SDK, where this "
            "runner cannot have many of its elements in flight: leave it out"
        )
        raise Unsupported(msg)


def _check_samples(
    leaves: Iterable[beam_runner_api_pb2.PTransform],
    components: beam_runner_api_pb2.Components,
) -> None:
    """At least one step has a harness that keeps samples of elements."""
    used = {leaf.environment_id for leaf in leaves if leaf.environment_id}
    found = [chosen(components.environments[environment]) for environment in sorted(used)]
    if not any(choice is not None and can_sample(choice) for choice in found):
        msg = (
            "--experiments=enable_data_sampling (or enable_always_on_exception_sampling) has no "
            "effect here: SDK harnesses in processes of their own keep samples of elements, and "
            "this pipeline has none that does. Its Python steps run in Spark's own workers, by "
            "generated code. Give --environment_type=PROCESS with "
            """--environment_config='{"command": "sparkdrain worker"}', or leave the experiment """
            "out"
        )
        raise Unsupported(msg)


def _leaves(
    pipeline: beam_runner_api_pb2.Pipeline,
) -> Iterator[beam_runner_api_pb2.PTransform]:
    transforms = pipeline.components.transforms
    pending = list(pipeline.root_transform_ids)
    while pending:
        transform = transforms[pending.pop()]
        known = transform.spec.urn in urns.RUNNER | urns.PAR_DO_LIKE | _COMPOSITES
        if known or not transform.subtransforms:
            if set(transform.outputs.values()) - set(transform.inputs.values()) or known:
                yield transform
        else:
            pending.extend(transform.subtransforms)


def _check_transform(
    transform: beam_runner_api_pb2.PTransform,
    components: beam_runner_api_pb2.Components,
    *,
    streaming: bool,
    durable: bool,
) -> None:
    name, urn = transform.unique_name, transform.spec.urn
    if urn == urns.TEST_STREAM and not streaming:
        msg = (
            f"{name!r} ({urns.TEST_STREAM}): TestStream needs streaming mode; use --streaming, or "
            "beam.Create with TimestampedValue for bounded tests"
        )
        raise Unsupported(msg)
    known = urns.RUNNER | urns.IN_HARNESS | _COMPOSITES | urns.ROOTS | {urns.READ}
    if urn not in known:
        msg = (
            f"{name!r} has URN {urn or '(none)'}, which this runner does not know; "
            "expand it into ParDo, GroupByKey and Flatten, or run it with an SDK that does"
        )
        raise Unsupported(msg)
    pardo = beam_runner_api_pb2.ParDoPayload()
    if urn == urns.PAR_DO:
        pardo.ParseFromString(transform.spec.payload)
    if transform.environment_id:
        _check_environment(name, pardo, components.environments[transform.environment_id])
    _check_par_do(name, pardo, streaming=streaming, durable=durable)
    _check_windows(transform, pardo, components)


def _check_windows(
    transform: beam_runner_api_pb2.PTransform,
    pardo: beam_runner_api_pb2.ParDoPayload,
    components: beam_runner_api_pb2.Components,
) -> None:
    """Windows that only Java knows are for GroupByKey and Combine."""
    for pcollection in transform.outputs.values():
        strategy = strategy_of(components, pcollection)
        if merges(strategy) and not _is_outside(strategy.environment_id, components):
            msg = (
                f"{transform.unique_name!r} has windows that merge ({strategy.window_fn.urn}), and "
                "no SDK harness that can merge them: the windowing strategy has no environment "
                "that runs in a process of its own. Submit the pipeline with its own SDK"
            )
            raise Unsupported(msg)
    if transform.spec.urn != urns.PAR_DO:
        return
    is_stateful = pardo.state_specs or pardo.timer_family_specs
    for tag, pcollection in transform.inputs.items():
        strategy = strategy_of(components, pcollection)
        own, kept = has_own_windows(strategy, components), "state or timers" if is_stateful else ""
        if tag in pardo.side_inputs:
            own, kept = own or merges(strategy), f"the side input {tag!r}"
        if own and kept:
            msg = (
                f"{transform.unique_name!r} has {kept} in windows of the program's own "
                f"({strategy.window_fn.urn}), which this version has for GroupByKey and Combine "
                "alone. Use a window function whose windows are IntervalWindows and do not merge"
            )
            raise Unsupported(msg)


def _is_outside(environment: str, components: beam_runner_api_pb2.Components) -> bool:
    """Whether an environment is a process of its SDK."""
    choice = chosen(components.environments[environment]) if environment else None
    return choice is not None and choice.urn in OUTSIDE


def _check_environment(
    name: str,
    pardo: beam_runner_api_pb2.ParDoPayload,
    asked: beam_runner_api_pb2.Environment,
) -> None:
    choice = chosen(asked)
    if choice is None:
        kinds = [choice.urn for choice in expand_anyof_environments(asked)]
        msg = (
            f"{name!r} asks for the environment {' or '.join(kinds)}, which this version does not "
            "have. Use --environment_type=PROCESS, EXTERNAL, LOOPBACK or DOCKER, or leave it out "
            "to run Python transforms in the Spark executors"
        )
        raise Unsupported(msg)
    is_outside = choice.urn in OUTSIDE
    if pardo.on_window_expiration_timer_family_spec and not is_outside:
        msg = (
            f"{name!r} ({urns.PAR_DO}) wants to be told of the end of windows "
            f"({_ON_WINDOW_EXPIRATION}), which DoFns in Spark's own workers are not: give it "
            "another environment by --environment_type, or use a timer"
        )
        raise Unsupported(msg)
    # Go's does not tell, but can.
    has_lists = _ORDERED_LISTS in choice.capabilities or is_go(choice) or not is_outside
    wants_lists = any(spec.HasField("ordered_list_spec") for spec in pardo.state_specs.values())
    if wants_lists and not has_lists:
        msg = (
            f"{name!r} ({urns.PAR_DO}) has an ordered list as state. Its "
            f"SDK ({choice.urn}) does not say that it can have one ({_ORDERED_LISTS}) as this "
            "runner keeps it. Use another kind of state"
        )
        raise Unsupported(msg)


def _check_bounded(
    transform: beam_runner_api_pb2.PTransform, components: beam_runner_api_pb2.Components
) -> None:
    def unbounded(pcollection: str) -> bool:
        return components.pcollections[pcollection].is_bounded == _UNBOUNDED

    # What only passes it on is not to blame.
    inherited = any(map(unbounded, transform.inputs.values()))
    if not inherited and any(map(unbounded, transform.outputs.values())):
        msg = (
            f"{transform.unique_name!r} ({transform.spec.urn}) makes an unbounded PCollection, "
            "which a batch job cannot: use --streaming, or give the source an end"
        )
        raise Unsupported(msg)


def _check_par_do(
    name: str, pardo: beam_runner_api_pb2.ParDoPayload, *, streaming: bool, durable: bool
) -> None:
    needs_stable = pardo.requires_stable_input and streaming
    if needs_stable and pardo.restriction_coder_id:
        msg = (
            f"{name!r} ({urns.PAR_DO}) is splittable and requires stable input ({_STABLE_INPUT}), "
            "which do not go together here: put what requires it into a ParDo behind this one"
        )
        raise Unsupported(msg)
    if needs_stable and not durable:
        msg = (
            f"{name!r} ({urns.PAR_DO}) requires stable input ({_STABLE_INPUT}), which a streaming "
            "job gives with checkpoints: its elements wait until one has them. Give "
            "--checkpoint_dir, or run the job as a batch"
        )
        raise Unsupported(msg)
    domains = beam_runner_api_pb2.TimeDomain
    for tag, timer in pardo.timer_family_specs.items():
        if timer.time_domain not in (domains.EVENT_TIME, domains.PROCESSING_TIME):
            msg = f"{name!r} ({urns.PAR_DO}): timer {tag!r} has an unknown time domain"
            raise Unsupported(msg)
