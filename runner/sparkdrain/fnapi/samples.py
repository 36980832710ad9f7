"""Samples that an SDK harness keeps of the elements of a stage, as texts for people.

The harness keeps a few elements of each PCollection, and those on which user code has failed. It
also makes texts of them, since mostly only the harness knows their coders.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING, Final, Protocol

from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2

from sparkdrain.fnapi.aside import StageAside
from sparkdrain.fnapi.elements import prefixed, unprefixed
from sparkdrain.fnapi.errors import HarnessFailed, HarnessGarbled, HarnessLost, HarnessNotStarted
from sparkdrain.graph import urns
from sparkdrain.graph.beam import common_urns
from sparkdrain.graph.environments import is_go, is_java
from sparkdrain.graph.wire import WireCoders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sparkdrain.fnapi.elements import Metadata
    from sparkdrain.fnapi.worker import SdkWorker

_TO_STRING: Final[str] = common_urns.primitives.TO_STRING.urn
_MAIN_OF_PYTHON: Final = "None"
_EVERY_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 1.0
# Python's harness takes the first sample of each PCollection half a second after it has made the
# operation that gives it.
_FIRST_SECONDS: Final = 0.7
# Of a PCollection, at one look.
_MOST: Final = 3
_MOST_CHARACTERS: Final = 300
# The bytes of an element of which a text is made. Of a larger one, the first bytes are shown.
_MOST_BYTES: Final = 64 << 10


class SampleTeller(Protocol):
    """Takes samples; never fails, and returns at once."""

    def sample(self, of: str, text: str) -> object:
        """Take one element of the PCollection that a step has made."""

    def flush(self) -> object:
        """Wait a moment until what was taken is on its way."""


class Samples:
    """Asks for the samples of one stage, in the slot's thread and between bundles.

    A harness that is lost meanwhile gives none. The next bundle finds out. Of a sample that cannot
    be read, the bytes are shown: no sample hides the user's own error.

    Args:
        worker: the harness.
        descriptor: the descriptor of the stage.
        environment: the environment of the stage.
        teller: takes the samples.
        metadata: gives what decodes timestamp, windows and pane, by the id of a PCollection.
        by_time: whether a harness may have taken samples when a moment has passed, and not only
            those on which user code has failed.
        now: a clock, seconds.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        worker: SdkWorker,
        descriptor: beam_fn_api_pb2.ProcessBundleDescriptor,
        environment: beam_runner_api_pb2.Environment,
        teller: SampleTeller,
        metadata: Callable[[str], Metadata],
        *,
        by_time: bool,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._worker = worker
        self._descriptor = descriptor
        self._capabilities = frozenset(environment.capabilities)
        self._teller = teller
        # Go writes time, windows and pane before each sample.
        self._metadata = metadata if is_go(environment) else None
        self._by_time = by_time
        self._waits = by_time and not is_go(environment) and not is_java(environment)
        self._now, self._sleep = now, sleep
        self._names = dict(_names(descriptor))
        self._stages: dict[str, StageAside] = {}
        # When the last sampler of the stage has taken something; None: no bundle has ended well.
        self._settled: float | None = None
        self._due = -math.inf
        self._has_told = False

    def begin(self) -> None:
        """A bundle begins."""
        # A harness keeps the samples of a PCollection together, in the coder of the stage that it
        # was asked for first. An edge has other coders at its other end.
        for pcollection in self._names:
            self._worker.sampled.setdefault(pcollection, self._descriptor)

    def look(self) -> None:
        """A bundle has ended: tell what has come, if the last look was a while ago."""
        if self._settled is None:
            self._settled = self._now() + (_FIRST_SECONDS if self._waits else 0.0)
        if self._now() >= self._due:
            self._take("")
            self._due = self._now() + (_EVERY_SECONDS if self._has_told else _AGAIN_SECONDS)

    def end(self) -> None:
        """The stage has ended: tell the rest."""
        if self._settled is None:
            return
        self._sleep(max(0.0, self._settled - self._now()))
        self._take("")
        if self._by_time and not self._has_told:
            for name in list(self._names.values())[-1:]:
                self._teller.sample(name, "none. The SDK harness has kept no samples of its stage")
        self._teller.flush()

    def failed(self, bundle: str) -> list[str]:
        """Tell what has come; of the elements on which user code has failed in a bundle, a text.

        The stage does not go on.
        """
        found = self._take(bundle)
        self._teller.flush()
        self._settled = None
        return found

    def _take(self, bundle: str) -> list[str]:
        found: list[str] = []
        with contextlib.suppress(HarnessLost, HarnessNotStarted):
            request = beam_fn_api_pb2.SampleDataRequest(pcollection_ids=self._names)
            answer = self._worker.ask_amid_bundle(
                beam_fn_api_pb2.InstructionRequest(sample_data=request)
            )
            for pcollection, kept in sorted(answer.sample_data.element_samples.items()):
                if pcollection in self._names:
                    found += self._tell(pcollection, kept.elements, bundle)
        return found

    def _tell(
        self, pcollection: str, kept: Iterable[beam_fn_api_pb2.SampledElement], bundle: str
    ) -> list[str]:
        plain: list[bytes] = []
        wrong: list[bytes] = []
        for sample in kept:
            of_bundle = bundle and sample.exception.instruction_id == bundle
            (wrong if of_bundle else plain).append(sample.element)
        name = self._names[pcollection]
        for text in self._shown(pcollection, plain[-_MOST:]):
            self._has_told = True
            self._teller.sample(name, text)
        return [f"{name}: {text}" for text in self._shown(pcollection, wrong[:_MOST])]

    def _shown(self, pcollection: str, elements: Sequence[bytes]) -> list[str]:
        if self._metadata is not None:
            metadata = self._metadata(pcollection)
            elements = [_without_header(metadata, data) for data in elements]
        asked = [e for e in elements if len(e) <= _MOST_BYTES and _TO_STRING in self._capabilities]
        texts: list[str] = []
        if asked:
            with contextlib.suppress(HarnessFailed, HarnessGarbled, IndexError):
                data = b"".join(prefixed(b"") + element for element in asked)
                (answer,) = self._to_text(pcollection).run([data])
                texts = [_cut(text.decode(errors="replace")) for text in _texts(answer)]
        return texts + [_hex(data) for data in elements if not texts or data not in asked]

    def _to_text(self, pcollection: str) -> StageAside:
        if pcollection not in self._stages:
            known = self._worker.sampled[pcollection]
            own = beam_runner_api_pb2.Components(coders=known.coders)
            given, text = WireCoders(own).strings(known.pcollections[pcollection].coder_id)
            self._stages[pcollection] = StageAside(
                self._worker,
                own.coders,
                given,
                text,
                beam_runner_api_pb2.FunctionSpec(urn=_TO_STRING),
                capabilities=self._capabilities,
            )
        return self._stages[pcollection]


def _names(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor,
) -> Iterable[tuple[str, str]]:
    """The PCollections of a stage, by the names of the steps that make them."""
    for transform in descriptor.transforms.values():
        for tag, pcollection in transform.outputs.items():
            if transform.spec.urn == urns.CHANNEL_SOURCE:
                yield pcollection, _made_by(descriptor.pcollections[pcollection].unique_name)
            elif len(transform.outputs) > 1 and tag != _MAIN_OF_PYTHON:
                yield pcollection, f"{transform.unique_name}.{tag}"
            else:
                yield pcollection, transform.unique_name


def _made_by(name: str) -> str:
    """The name of a step, from the name that Python has for its output: ``5Parse.None``."""
    label, _, _ = name.rpartition(".")
    for size in range(1, len(str(len(label))) + 1):
        if name[:size] == str(len(label) - size):
            return name[size:].removesuffix(".None")
    return name


def _without_header(metadata: Metadata, data: bytes) -> bytes:
    try:
        end = metadata.decode(data, 0)[1]
    except Exception:  # noqa: BLE001 - Beam's streams tell their end in many ways
        return data
    return data[end:] if end <= len(data) else data


def _texts(answer: bytes) -> Iterable[bytes]:
    position = 0
    while position < len(answer):
        _, position = unprefixed(answer, position)
        text, position = unprefixed(answer, position)
        yield text


def _cut(text: str) -> str:
    line = text[: _MOST_CHARACTERS + 1].replace("\n", "\\n")
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}..."


def _hex(data: bytes) -> str:
    return f"{len(data)} bytes, {_cut(data[:_MOST_CHARACTERS].hex())}"
