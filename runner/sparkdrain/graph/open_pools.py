"""Worker pools of a pipeline that are reached over a network, where nothing is encrypted. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.graph.environments import EXTERNAL, chosen
from sparkdrain.peers import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

_SOCKET: Final = "unix:"


def open_pools(pipeline: beam_runner_api_pb2.Pipeline) -> Iterator[str]:
    """A warning for each pool in use that is not on the machine of the executor."""
    components = pipeline.components
    used = {transform.environment_id for transform in components.transforms.values()}
    for id_, asked in sorted(components.environments.items()):
        environment = chosen(asked)
        if id_ not in used or environment is None or environment.urn != EXTERNAL:
            continue
        payload = beam_runner_api_pb2.ExternalPayload.FromString(environment.payload)
        address = payload.endpoint.url
        host = address.rpartition(":")[0].strip("[]")
        if not address.startswith(_SOCKET) and not is_loopback(host):
            yield (
                f"The worker pool of the environment {id_!r} is at {address!r}, across a network. "
                "Beam's pools speak in clear, and do not ask who calls: an attacker on that "
                "network can read and change elements, state and the pipeline's options with their "
                "passwords, and can run code as the pool's user. Have a pool on the machine of "
                "each executor (--environment_config=localhost:PORT), let executors start "
                "processes instead (--environment_type=PROCESS), or see that no other user is "
                "on that network."
            )
