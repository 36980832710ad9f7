"""A slot with a harness of Beam's in the JVM that slots share; as a program, one to be killed."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from apache_beam.portability.api import beam_runner_api_pb2
from java_program import class_path

from sparkdrain.fnapi.aside import EMBEDDING, StageAside
from sparkdrain.fnapi.harnesses import Harnesses, HarnessJob
from sparkdrain.graph.beam import common_urns
from sparkdrain.graph.environments import STAGED_JAVA

if TYPE_CHECKING:
    from sparkdrain.fnapi.worker import SdkWorker

BYTES = "bytes"


class Slot:
    """A slot of the one job."""

    def __init__(self, executor: Path) -> None:
        jars = {path.name: path for path in class_path()}
        environment = beam_runner_api_pb2.Environment(urn=STAGED_JAVA)
        for name in jars:
            dependency = environment.dependencies.add()
            dependency.role_urn = common_urns.artifact_roles.STAGING_TO.urn
            dependency.role_payload = beam_runner_api_pb2.ArtifactStagingToRolePayload(
                staged_name=name
            ).SerializeToString()
        job = HarnessJob("job", {}, jars.get, executor=executor)
        self.harnesses = Harnesses()
        self.worker: SdkWorker = self.harnesses.lend(job, "env", environment)

    def run(self, bundles: int = 3) -> None:
        self.harnesses.await_connection(self.worker)
        coder = beam_runner_api_pb2.Coder()
        coder.spec.urn = common_urns.coders.BYTES.urn
        for number in range(bundles):
            stage = StageAside(
                self.worker,
                {BYTES: coder},
                BYTES,
                BYTES,
                capabilities=[EMBEDDING] * (number > 1),
            )
            element = bytes([1, number])
            assert list(stage.run([element])) == [element]


def main(executor: Path) -> None:
    logging.disable()
    Slot(executor).run()
    print("ran", flush=True)
    signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
