"""SDK harnesses in containers: run by ``docker``, or by what is on the executor under that name."""

from __future__ import annotations

import shutil
import socket
from typing import TYPE_CHECKING, Final

from sparkdrain.fnapi.errors import HarnessNotStarted

if TYPE_CHECKING:
    from collections.abc import Sequence

_DOCKER: Final = "docker"


def docker_command(image: str, arguments: Sequence[str], name: str) -> list[str]:
    """What runs a container until the harness in it ends.

    Args:
        arguments: what the program that the image starts is called with.

    Raises:
        HarnessNotStarted: there is no ``docker`` here.
    """
    if shutil.which(_DOCKER) is None:
        message = (
            f"The pipeline's code is to run in a container of {image!r}, and the executor "
            f"{socket.gethostname()} has no {_DOCKER!r} on its PATH. Install one on each executor "
            "(podman under that name will do), or use --environment_type=PROCESS or EXTERNAL."
        )
        raise HarnessNotStarted(message)
    # The harness reaches the slot by the loopback of the executor.
    return [_DOCKER, "run", "--rm", "--network=host", f"--name={name}", image, *arguments]


def removal(name: str) -> list[str]:
    """What ends a container that outlived the command that ran it; it may be gone."""
    return [_DOCKER, "rm", "--force", name]
