"""A slot with a part in the process of Go's that slots share; as a program, one to be killed."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.fnapi.aside import StageAside
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from sparkdrain.graph import urns
from sparkdrain.graph.beam import common_urns
from sparkdrain.graph.environments import STAGED_GO

if TYPE_CHECKING:
    from sparkdrain.fnapi.worker import SdkWorker

BYTES = "bytes"
WINDOWED = "beam:coder:windowed_value:v1"
# A time, the number of windows, of which the global one has no bytes, and the pane.
HEADER = bytes(8) + b"\x00\x00\x00\x01" + b"\x0f"


class Slot:
    """A slot of the one job.

    Args:
        binary: a worker binary.
        executor: the folder of the slot's executor.
    """

    def __init__(self, binary: Path, executor: Path) -> None:
        environment = beam_runner_api_pb2.Environment(
            urn=STAGED_GO, capabilities=[common_urns.protocols.MULTI_CORE_BUNDLE_PROCESSING.urn]
        )
        dependency = environment.dependencies.add()
        dependency.role_urn = common_urns.artifact_roles.GO_WORKER_BINARY.urn
        self.logged: list[str] = []
        self._environment = environment
        self._job = HarnessJob(
            "job",
            {},
            lambda _: binary,
            log=lambda _level, text: self.logged.append(text),
            executor=executor,
            slots=2,
        )
        self.harnesses = Harnesses()
        self.lend()

    def lend(self) -> None:
        """Have a harness, a new one if the last one is lost."""
        self.worker: SdkWorker = self.harnesses.lend(self._job, "env", self._environment)

    def run(self, bundles: int = 3) -> None:
        """Have some bundles processed."""
        self.harnesses.await_connection(self.worker)
        coder = beam_runner_api_pb2.Coder()
        coder.spec.urn = common_urns.coders.BYTES.urn
        for number in range(bundles):
            flatten = beam_runner_api_pb2.FunctionSpec(urn=urns.FLATTEN)
            stage = StageAside(self.worker, {BYTES: coder}, BYTES, BYTES, flatten, capabilities=())
            described = self.worker.descriptor(stage._id)
            for name in ("in", "out"):  # Go has no windows beside elements
                described.coders[f"sparkdrain:{name}"].spec.urn = WINDOWED
            element = HEADER + bytes([1, number])
            assert list(stage.run([element])) == [element]


def main(binary: Path, executor: Path) -> None:
    logging.disable()
    Slot(binary, executor).run()
    print("ran", flush=True)
    signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
