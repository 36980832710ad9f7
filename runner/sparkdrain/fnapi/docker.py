"""SDK harnesses in containers: run by ``docker``, or by what is on the executor under that name."""

from __future__ import annotations

import shutil
import socket
from typing import TYPE_CHECKING, Final

from sparkdrain.fnapi.errors import HarnessNotStarted
from sparkdrain.fnapi.process import Command

if TYPE_CHECKING:
    from collections.abc import Sequence

_DOCKER: Final = "docker"


def docker_command(image: str, arguments: Sequence[str], name: str) -> Command:
    """What runs a container until the harness in it ends, and removes it then.

    Args:
        arguments: what the program that the image starts is called with.
        name: what the container is called.

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
    words = [_DOCKER, "run", "--rm", "--network=host", f"--name={name}", image, *arguments]
    # It may outlive the command that has run it.
    return Command(words, at_the_end=[_DOCKER, "rm", "--force", name])
