"""Where transforms run: in the slot's own process, or in an SDK harness outside of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms.environments import DockerEnvironment

from sparkdrain.graph import urns
from sparkdrain.graph.beam import (
    common_urns,
    expand_anyof_environments,
    proto_utils,
    python_urns,
)
from sparkdrain.graph.staged import GO_WORKER, staged_name
from sparkdrain.graph.wire import STATE_BACKED_ITERABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.graph.plan import PCollectionId, Plan
    from sparkdrain.graph.transform import Transform

IN_PROCESS: Final = frozenset(
    {"", common_urns.environments.DEFAULT.urn, python_urns.EMBEDDED_PYTHON}
)
"""URNs of environments whose transforms run in the slot's own process.

Beam's Python SDK has three more, which are refused: each of them asks for a harness, and two say
how it is to be started.
"""
PROCESS: Final[str] = common_urns.environments.PROCESS.urn
DOCKER: Final[str] = common_urns.environments.DOCKER.urn
_SDK_BASE: Final = "beam:version:sdk_base:"
_SAMPLING: Final[str] = common_urns.protocols.DATA_SAMPLING.urn
_MULTI_CORE: Final[str] = common_urns.protocols.MULTI_CORE_BUNDLE_PROCESSING.urn
_GO: Final = f"{_SDK_BASE}go:"
# Where Beam's own images are, that have an SDK and nothing else.
_BEAMS_IMAGES: Final = re.compile(r"(docker\.io/)?apache/beam_[\w.]+_sdk(_distroless)?(:.*)?")
EXTERNAL: Final[str] = common_urns.environments.EXTERNAL.urn
STAGED_JAVA: Final = "sparkdrain:env:staged_java:v1"
"""Our own: Java, started from the jars that were staged for a container."""
STAGED_GO: Final = "sparkdrain:env:staged_go:v1"
"""Our own: Go's worker binary, which was staged for a container."""
OUTSIDE: Final = (PROCESS, STAGED_JAVA, STAGED_GO, EXTERNAL, DOCKER)
"""URNs of environments whose transforms run in another process; the best first."""


def chosen(asked: beam_runner_api_pb2.Environment) -> beam_runner_api_pb2.Environment | None:
    """The best of the environments that a transform may have; None if none of them works here.

    In process is better than a process that the slot starts, which is better than a pool, which is
    better than a container. An image of Beam's is not needed here for this Python with this Beam,
    for Java if the jars of the pipeline are staged, and for Go, whose worker binary always is.
    """
    choices = [_without_container(choice) for choice in expand_anyof_environments(asked)]
    for wanted in (IN_PROCESS, *({urn} for urn in OUTSIDE)):
        for choice in choices:
            if choice.urn in wanted:
                return choice
    return None


def _without_container(
    environment: beam_runner_api_pb2.Environment,
) -> beam_runner_api_pb2.Environment:
    """The same, or what takes the place of a container that is not needed.

    Beam's image for this Python and this Beam has nothing that a slot's process has not. An image
    of the user's own may have what the code needs.
    """
    if environment.urn != DOCKER:
        return environment
    image = proto_utils.parse_Bytes(environment.payload, beam_runner_api_pb2.DockerPayload)
    if image.container_image and not _BEAMS_IMAGES.fullmatch(image.container_image):
        return environment
    staged = beam_runner_api_pb2.Environment()
    staged.CopyFrom(environment)
    if image.container_image == DockerEnvironment.default_docker_image():
        staged.urn = python_urns.EMBEDDED_PYTHON
    elif any(staged_name(file) == GO_WORKER for file in environment.dependencies):
        staged.urn = STAGED_GO
    elif environment.dependencies and is_java(environment):
        staged.urn = STAGED_JAVA
    return staged


def is_java(environment: beam_runner_api_pb2.Environment) -> bool:
    """Whether the SDK of an environment is Java's."""
    return any(
        capability.startswith(_SDK_BASE) and "java" in capability
        for capability in environment.capabilities
    )


def is_go(environment: beam_runner_api_pb2.Environment) -> bool:
    """Whether the SDK of an environment is Go's."""
    return any(capability.startswith(_GO) for capability in environment.capabilities)


def can_sample(environment: beam_runner_api_pb2.Environment) -> bool:
    """Whether the SDK of an environment keeps samples of elements, if a job wants them."""
    return environment.urn in OUTSIDE and _SAMPLING in environment.capabilities


def is_for_several_slots(environment: beam_runner_api_pb2.Environment) -> bool:
    """Whether a harness of an environment can have bundles of several slots at a time."""
    return _MULTI_CORE in environment.capabilities


def reads_groups_in_state(environment: beam_runner_api_pb2.Environment) -> bool:
    """Whether the SDK of an environment reads the values of a group on the state channel."""
    return STATE_BACKED_ITERABLE in environment.capabilities


def settle_environments(
    components: beam_runner_api_pb2.Components, transforms: Sequence[Transform]
) -> None:
    """Decide for each transform where it runs.

    A transform without an environment goes where its producer is, or else where its consumer is.

    Args:
        components: the pipeline's components. Of an environment with choices, the chosen one stays.
        transforms: the pipeline's transforms, producers before consumers.
    """
    outside = set()
    for id_, environment in components.environments.items():
        choice = chosen(environment)
        if choice is not None:
            environment.CopyFrom(choice)
        if environment.urn in OUTSIDE:
            outside.add(id_)
    if not outside:
        return
    for transform in transforms:
        if transform.is_runner:
            transform.proto.environment_id = ""
    _keep_finalizers_apart(components, transforms)
    _spread(transforms, lambda transform: (transform.main_inputs, transform.outputs))
    _spread(transforms[::-1], lambda transform: (transform.outputs, transform.main_inputs))
    for transform in transforms:
        own = transform.proto.environment_id
        transform.place = own if own in outside else ""
        if transform.place and transform.proto.spec.urn == urns.IDENTITY:
            # Only Python's harness knows an identity. All harnesses know a Flatten.
            transform.proto.spec.urn = urns.FLATTEN


def _keep_finalizers_apart(
    components: beam_runner_api_pb2.Components, transforms: Sequence[Transform]
) -> None:
    """Have no harness of Go's serve several slots if DoFns ask for the end of bundles.

    Go's harness finalizes a bundle without the lock that it has where another bundle ends
    (``awaitingFinalization`` of ``harness.go``): a process with both may end of it.
    """
    for transform in transforms:
        environment = components.environments[transform.proto.environment_id]
        if transform.proto.spec.urn == urns.PAR_DO and is_go(environment):
            pardo = proto_utils.parse_Bytes(
                transform.proto.spec.payload, beam_runner_api_pb2.ParDoPayload
            )
            if pardo.requests_finalization and is_for_several_slots(environment):
                environment.capabilities.remove(_MULTI_CORE)


def _spread(
    transforms: Sequence[Transform],
    sides: Callable[[Transform], tuple[list[PCollectionId], list[PCollectionId]]],
) -> None:
    """Give transforms without an environment the one of a neighbor that comes before them.

    Args:
        transforms: in the order in which environments spread.
        sides: gives the PCollections that join a transform to its neighbors before it, and to those
            behind it.
    """
    known: dict[str, str] = {}
    for transform in transforms:
        before, behind = sides(transform)
        if not transform.proto.environment_id:
            found = (known.get(name, "") for name in before)
            transform.proto.environment_id = next(filter(None, found), "")
        known.update(dict.fromkeys(behind, transform.proto.environment_id))


def staged_outside(pipeline: beam_runner_api_pb2.Pipeline) -> frozenset[str]:
    """The names of staged files that only environments outside of slots' processes need."""
    names: dict[bool, set[str]] = {True: set(), False: set()}
    for asked in pipeline.components.environments.values():
        environment = chosen(asked) or asked
        for dependency in environment.dependencies:
            names[environment.urn in OUTSIDE].add(staged_name(dependency))
    return frozenset(names[True] - names[False])


def place_of(components: beam_runner_api_pb2.Components, environment: str) -> str:
    """Where a stage with this environment runs: its id, or "" for the slot's own process."""
    return environment if components.environments[environment].urn in OUTSIDE else ""


def has_harnesses(plan: Plan) -> bool:
    """Whether a stage of a plan runs in an SDK harness outside of its slot's process."""
    components = beam_runner_api_pb2.Components.FromString(plan.components)
    return any(place_of(components, stage.environment) for level in plan.levels for stage in level)
