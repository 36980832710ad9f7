"""Go's SDK harness: the worker binary that the pipeline brings, without a container."""

from __future__ import annotations

import json
import os
import platform
import stat
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import json_format

from sparkdrain.fnapi.errors import HarnessNotStarted
from sparkdrain.fnapi.process import Command
from sparkdrain.fnapi.provision import RUNNER_CAPABILITIES, options_struct
from sparkdrain.hosts.memory_limit import memory_here

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Percent by which the heap may grow between two collections. Go's own 100 is made for memory that
# is scarce: elements leave the heap as they come, so little of it is alive.
_GROWTH: Final = "GOGC"
_GROWTH_PERCENT: Final = 400
# Bytes from which on Go collects more often than that says.
_SOFT_LIMIT: Final = "GOMEMLIMIT"

_ELF: Final = b"\x7fELF"
_MACH_O: Final = b"\xcf\xfa\xed\xfe"
_PE: Final = b"MZ"
# What Go calls a machine, by the number that the header of a binary has for it.
_OF_ELF: Final = {3: "386", 40: "arm", 62: "amd64", 183: "arm64", 243: "riscv64"}
_OF_MACH_O: Final = {0x01000007: "amd64", 0x0100000C: "arm64"}
# The same, by the name that the system has for it.
_OF_SYSTEM: Final = {"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "armv7l": "arm"}


def go_command(
    binary: Path, options: Mapping[str, Any], worker_id: str, endpoint: str, folder: Path
) -> Command:
    """What starts a harness.

    Args:
        binary: the staged worker binary. Its owner may execute it from now on.
        options: the pipeline's options, by plain name.
        endpoint: the address of the slot's services.
        folder: for what it writes.

    Raises:
        HarnessNotStarted: the binary is for another system.
    """
    here, there = _this_system(), _system_of(binary)
    if there != here:
        system, machine = here.split("/")
        message = (
            f"The pipeline's Go worker binary is for {there}, and this executor runs {here}. Build "
            f"the program with GOOS={system} GOARCH={machine} CGO_ENABLED=0, and name the result "
            "by --worker_binary."
        )
        raise HarnessNotStarted(message)
    if not os.access(binary, os.X_OK):
        binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    file = folder / "options.json"
    file.write_text(json.dumps(_whole(json_format.MessageToDict(options_struct(options)))))
    command = [
        str(binary),
        "--worker=true",
        f"--id={worker_id}",
        f"--logging_endpoint={endpoint}",
        f"--control_endpoint={endpoint}",
        f"--semi_persist_dir={folder}",
    ]
    variables = {
        "PIPELINE_OPTIONS_FILE": str(file),
        "STATUS_ENDPOINT": endpoint,
        "RUNNER_CAPABILITIES": " ".join(RUNNER_CAPABILITIES),
        **_of_the_heap(),
    }
    return Command(command, variables)


def _of_the_heap() -> dict[str, str]:
    """Variables that have Go collect less often; none if the executor has one of its own.

    Beyond half of the memory here, Go collects as often as it takes to stay below that.
    """
    if _GROWTH in os.environ or _SOFT_LIMIT in os.environ:
        return {}
    return {_GROWTH: str(_GROWTH_PERCENT), _SOFT_LIMIT: str(memory_here() // 2)}


def _whole(options: dict[str, Any]) -> dict[str, Any]:
    """Options with whole numbers as Go reads them: -1, not -1.0."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in options.items()
    }


def _this_system() -> str:
    machine = platform.machine()
    return f"{platform.system().lower()}/{_OF_SYSTEM.get(machine, machine)}"


def _system_of(binary: Path) -> str:
    """The system and the machine of a binary, as Go names them."""
    with binary.open("rb") as file:
        head = file.read(20)
    if head.startswith(_ELF):
        number = int.from_bytes(head[18:20], "big" if head[5] == 2 else "little")
        return f"linux/{_OF_ELF.get(number, f'machine {number}')}"
    if head.startswith(_MACH_O):
        number = int.from_bytes(head[4:8], "little")
        return f"darwin/{_OF_MACH_O.get(number, f'machine {number}')}"
    return "windows" if head.startswith(_PE) else "no system that is known here"
