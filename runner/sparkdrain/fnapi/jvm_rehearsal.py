"""A rehearsal of Java's SDK harness in the JVM that waits: it runs bundles of the runner's own.

After it Java has linked, and partly compiled, what each harness does until its first bundle ends.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from typing import TYPE_CHECKING, Final

from apache_beam.portability.api import beam_provision_api_pb2, beam_runner_api_pb2
from typing_extensions import override

from sparkdrain.errors import SparkDrainError
from sparkdrain.fnapi.aside import EMBEDDING, StageAside
from sparkdrain.fnapi.errors import HarnessFailed
from sparkdrain.fnapi.java import java_variables
from sparkdrain.fnapi.process import Life
from sparkdrain.fnapi.services import Admitted, SdkServices
from sparkdrain.fnapi.worker import SdkWorker
from sparkdrain.graph import urns
from sparkdrain.graph.beam import common_urns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_LOGGER = logging.getLogger(__name__)

_CONNECT_SECONDS: Final = 120.0
_END_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.1
_BUNDLES: Final = 20
_BYTES: Final = "bytes"
_ELEMENT: Final = b"\x01x"
# As in the program of Java.
_DO_FN: Final = "do-fn"
_JAVA_DO_FN: Final = "beam:dofn:javasdk:0.1"


class JvmRehearsal(Life):
    """What a JVM rehearses with: services, and bundles.

    Args:
        folder: for what the harness reads, and the DoFn that the JVM puts there before it connects.
        is_taken: whether a job has the JVM, for which the rehearsal is to end.
        is_over: whether the JVM has ended, or has no rehearsal any more.
    """

    def __init__(
        self, folder: Path, *, is_taken: Callable[[], bool], is_over: Callable[[], bool]
    ) -> None:
        self._services = SdkServices()
        super().__init__(self._services.here())
        self._folder = folder
        self._is_taken = is_taken
        self._is_over = is_over
        self._worker = SdkWorker(f"rehearsal-{secrets.token_hex(16)}", self)
        self._services.admit(Admitted(self._worker, beam_provision_api_pb2.ProvisionInfo(), {}))
        self.variables: Mapping[str, str] = java_variables(
            {}, self._worker.id, self.endpoint, folder
        )
        """What the harness reads of its environment."""

    @override
    def how_it_ended(self) -> str:
        return "The rehearsal is over." * self._is_over()

    def begin(self) -> None:
        """Rehearse as soon as the harness connects; returns at once."""
        threading.Thread(target=self._run, name="sparkdrain-rehearsal", daemon=True).start()

    def _run(self) -> None:
        try:
            try:
                if self._worker.await_connection(_CONNECT_SECONDS):
                    self._run_bundles()
            except (SparkDrainError, HarnessFailed) as error:
                # A job can do without.
                _LOGGER.info("The rehearsal of a JVM that waits has failed: %s", error)
            self._worker.close()
            until = time.monotonic() + _END_SECONDS
            while not self._is_over() and time.monotonic() < until:
                time.sleep(_LOOK_SECONDS)
        finally:
            self._services.stop()

    def _run_bundles(self) -> None:
        coder = beam_runner_api_pb2.Coder()
        coder.spec.urn = common_urns.coders.BYTES.urn
        spec = self._spec()
        for capabilities in ((EMBEDDING,), ()):
            for _ in range(_BUNDLES // 2):
                if self._is_taken():
                    return
                stage = StageAside(
                    self._worker, {_BYTES: coder}, _BYTES, _BYTES, spec, capabilities=capabilities
                )
                stage.run([_ELEMENT])
        _LOGGER.debug("A JVM that waits has rehearsed %d bundles.", _BUNDLES)

    def _spec(self) -> beam_runner_api_pb2.FunctionSpec | None:
        """What the bundles do: a DoFn of Beam's; None if this version of Beam lacks it."""
        try:
            staged = (self._folder / _DO_FN).read_bytes()
        except FileNotFoundError:
            return None
        do_fn = beam_runner_api_pb2.FunctionSpec(urn=_JAVA_DO_FN, payload=staged)
        payload = beam_runner_api_pb2.ParDoPayload(do_fn=do_fn)
        return beam_runner_api_pb2.FunctionSpec(
            urn=urns.PAR_DO, payload=payload.SerializeToString()
        )
