"""Refuses what is no pipeline: a missing part, a circle, a payload that is not what its URN says.

Payloads are bytes, so a pipeline that parses may still have some that do not. Whatever this runner
itself reads of them is read here once, before anything starts, and all later code relies on that.
What only user code reads (a pickled DoFn, a source, a coder of the user's own) is not looked into.
"""

from __future__ import annotations

import json
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Final, TypeVar

from apache_beam.portability.api import (
    beam_runner_api_pb2,
    schema_pb2,
    standard_window_fns_pb2,
)
from google.protobuf.message import DecodeError, Message
from google.protobuf.wrappers_pb2 import BytesValue

from sparkdrain.errors import Malformed
from sparkdrain.graph import urns
from sparkdrain.graph.beam import common_urns, python_urns
from sparkdrain.graph.staged import ARTIFACTS, STAGING_TO
from sparkdrain.io.stable import OVERRULED, SINK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

M = TypeVar("M", bound=Message)

_ENVIRONMENTS: Final = common_urns.environments
_OF_TRANSFORMS: Final[Mapping[str, type[Message]]] = {
    **dict.fromkeys(urns.PAR_DO_LIKE, beam_runner_api_pb2.ParDoPayload),
    **dict.fromkeys(
        (
            common_urns.composites.COMBINE_PER_KEY.urn,
            common_urns.combine_components.COMBINE_GROUPED_VALUES.urn,
            common_urns.combine_components.COMBINE_PER_KEY_CONVERT_TO_ACCUMULATORS.urn,
            urns.PRECOMBINE,
            urns.MERGE_ACCUMULATORS,
            urns.EXTRACT_OUTPUTS,
        ),
        beam_runner_api_pb2.CombinePayload,
    ),
    **dict.fromkeys((urns.READ, urns.IMPULSE_READ), beam_runner_api_pb2.ReadPayload),
    # Python sends all of the strategy, others its first field.
    urns.ASSIGN_WINDOWS: beam_runner_api_pb2.WindowingStrategy,
    common_urns.primitives.MAP_WINDOWS.urn: beam_runner_api_pb2.FunctionSpec,
    common_urns.primitives.MERGE_WINDOWS.urn: beam_runner_api_pb2.FunctionSpec,
    urns.TEST_STREAM: beam_runner_api_pb2.TestStreamPayload,
}
_OF_ENVIRONMENTS: Final[Mapping[str, type[Message]]] = {
    _ENVIRONMENTS.DOCKER.urn: beam_runner_api_pb2.DockerPayload,
    _ENVIRONMENTS.PROCESS.urn: beam_runner_api_pb2.ProcessPayload,
    _ENVIRONMENTS.EXTERNAL.urn: beam_runner_api_pb2.ExternalPayload,
}
_OF_WINDOW_FNS: Final[Mapping[str, type[Message]]] = {
    common_urns.fixed_windows.urn: standard_window_fns_pb2.FixedWindowsPayload,
    common_urns.sliding_windows.urn: standard_window_fns_pb2.SlidingWindowsPayload,
    common_urns.session_windows.urn: standard_window_fns_pb2.SessionWindowsPayload,
}
_OF_CODERS: Final[Mapping[str, type[Message]]] = {
    common_urns.coders.ROW.urn: schema_pb2.Schema,
    python_urns.PICKLED_CODER: BytesValue,
}
_LABELLED: Final[str] = common_urns.displayData.LABELLED.urn


def check_wellformed(pipeline: beam_runner_api_pb2.Pipeline) -> None:
    """Return if everything that a part of the pipeline names is there.

    Clients of any SDK, and clients without one, make pipelines. All later code relies on this.

    Raises:
        Malformed: names the transform and what it lacks.
    """
    parts = pipeline.components
    _known("The pipeline", "root transform", pipeline.root_transform_ids, parts.transforms)
    for key, transform in parts.transforms.items():
        owner = f"The transform {(transform.unique_name or key)!r}"
        pcollections = (*transform.inputs.values(), *transform.outputs.values())
        _known(owner, "PCollection", pcollections, parts.pcollections)
        _known(owner, "subtransform", transform.subtransforms, parts.transforms)
        _known(owner, "environment", filter(None, [transform.environment_id]), parts.environments)
    producers = {
        pcollection: f"The PCollection {pcollection!r} of the transform {transform.unique_name!r}"
        for transform in parts.transforms.values()
        for pcollection in transform.outputs.values()
    }
    for key, pcollection in parts.pcollections.items():
        owner = producers.get(key, f"The PCollection {key!r}")
        _known(owner, "coder", [pcollection.coder_id], parts.coders)
        strategies = [pcollection.windowing_strategy_id]
        _known(owner, "windowing strategy", strategies, parts.windowing_strategies)
    for key, coder in parts.coders.items():
        _known(f"The coder {key!r}", "component coder", coder.component_coder_ids, parts.coders)
    try:
        TopologicalSorter(
            {key: transform.subtransforms for key, transform in parts.transforms.items()}
        ).prepare()
    except CycleError as error:
        _, (key, *_) = error.args
        message = f"The transform {parts.transforms[key].unique_name!r} contains itself."
        raise Malformed(message) from None


def _known(owner: str, kind: str, wanted: Iterable[str], there: Mapping[str, object]) -> None:
    for key in wanted:
        if key not in there:
            message = f"{owner} refers to the {kind} {key!r}, which the pipeline does not have."
            raise Malformed(message)


def check_payloads(pipeline: beam_runner_api_pb2.Pipeline) -> None:
    """Return if every payload that this runner reads can be read.

    Raises:
        Malformed: names the transform, environment, coder or windowing strategy, and the URN.
    """
    parts = pipeline.components
    for key, transform in parts.transforms.items():
        owner = f"The transform {(transform.unique_name or key)!r}"
        _check(_OF_TRANSFORMS, transform.spec, owner)
        for shown in transform.display_data:
            if shown.urn == _LABELLED:
                _parsed(
                    beam_runner_api_pb2.LabelledPayload,
                    shown.payload,
                    f"Display data of {owner[0].lower()}{owner[1:]}",
                    shown.urn,
                )
        _check_sink(transform, owner)
    for key, coder in parts.coders.items():
        _check(_OF_CODERS, coder.spec, f"The coder {key!r}")
    for key, strategy in parts.windowing_strategies.items():
        _check(_OF_WINDOW_FNS, strategy.window_fn, f"The windowing strategy {key!r}")
    for key, environment in parts.environments.items():
        _check_environment(environment, f"The environment {key!r}")


def _check(
    kinds: Mapping[str, type[Message]], spec: beam_runner_api_pb2.FunctionSpec, owner: str
) -> None:
    if spec.urn in kinds:
        _parsed(kinds[spec.urn], spec.payload, owner, spec.urn)


def _check_environment(environment: beam_runner_api_pb2.Environment, owner: str) -> None:
    urn = environment.urn
    if urn in _OF_ENVIRONMENTS:
        _parsed(_OF_ENVIRONMENTS[urn], environment.payload, owner, urn)
    elif urn == _ENVIRONMENTS.ANYOF.urn:
        kind = beam_runner_api_pb2.AnyOfEnvironmentPayload
        for choice in _parsed(kind, environment.payload, owner, urn).environments:
            _check_environment(choice, owner)
    for file in environment.dependencies:
        check_artifact(file, f"A file that {owner[0].lower()}{owner[1:]} depends on")


def check_artifact(file: beam_runner_api_pb2.ArtifactInformation, owner: str) -> None:
    """Return if what a client tells of a file can be read.

    Args:
        owner: the file, in the words of an error.

    Raises:
        Malformed: it cannot.
    """
    if file.type_urn in ARTIFACTS:
        _parsed(ARTIFACTS[file.type_urn], file.type_payload, owner, file.type_urn)
    if file.role_urn == STAGING_TO:
        role = beam_runner_api_pb2.ArtifactStagingToRolePayload
        _parsed(role, file.role_payload, owner, file.role_urn)


def _check_sink(transform: beam_runner_api_pb2.PTransform, owner: str) -> None:
    """The annotations of a sink that writes exactly once are a name, and a list of names."""
    if SINK not in transform.annotations:
        return
    try:
        transform.annotations[SINK].decode()
        names = json.loads(transform.annotations[OVERRULED])
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        message = (
            f"{owner} has annotations ({SINK}, {OVERRULED}) that cannot be read as the name of a "
            "sink and a list of names. Make the pipeline anew with this package's transforms."
        )
        raise Malformed(message)


def _parsed(kind: type[M], payload: bytes, owner: str, urn: str) -> M:
    """The message in a payload.

    Args:
        owner: what has the payload, for the error: "The transform 'Double'".

    Raises:
        Malformed: the payload is no such message.
    """
    try:
        return kind.FromString(payload)
    except DecodeError as error:
        text = (
            f"{owner} ({urn}) has a payload that cannot be read as {kind.DESCRIPTOR.name}. Make "
            "the pipeline anew with its SDK, and submit it again. If the SDK made it like this, "
            "use a release of the SDK that this runner supports."
        )
        raise Malformed(text) from error
