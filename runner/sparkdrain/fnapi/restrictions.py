"""Has a splittable DoFn in an SDK harness work on restrictions, each in a bundle of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from typing_extensions import override

from sparkdrain.fnapi.elements import prefixed
from sparkdrain.harness.harness import Processed, Remainder, RestrictionInlet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apache_beam.portability.api import beam_fn_api_pb2

    from sparkdrain.fnapi.elements import Metadata
    from sparkdrain.graph.plan import TransformId
    from sparkdrain.harness.limits import Allowance

# How long to wait for a harness before it is asked how far it is.
_LOOK_SECONDS: Final = 0.02
# A split before the DoFn has made anything may only send the restriction back. So it waits, and
# longer each time that this was in vain.
_LEAST_PATIENCE: Final = 1.0
_MOST_PATIENCE: Final = 60.0


class LoneBundle(Protocol):
    """A harness that has a bundle with one element."""

    def begin_alone(self, source: TransformId, data: bytes) -> None:
        """Process an encoded element, with nothing beside it."""

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the bundle, and not longer; whether it has come."""

    def made(self, transform: TransformId) -> int:
        """How many elements a transform has made in the bundle, as far as the harness tells."""

    def split(self, source: TransformId, step: str) -> beam_fn_api_pb2.ProcessBundleSplitResponse:
        """Have the harness keep what it has begun, and give back the rest, if it can.

        Args:
            step: the name of the DoFn, for messages.

        Raises:
            HarnessFailed: user code could not split its work.
        """

    def end_alone(self) -> Iterable[beam_fn_api_pb2.DelayedBundleApplication]:
        """Wait for the end of the bundle; what the DoFn has put off."""

    def truncate(self, source: TransformId, transform: TransformId, element: Any) -> Any | None:
        """What is left of a restriction, by the DoFn; None if nothing is."""


class FnRestrictions(RestrictionInlet):
    """Processes restrictions of one DoFn.

    Args:
        source: where restrictions enter the stage.
        transform: the DoFn's.
        step: the name of the DoFn's step.
    """

    # A harness that has an element in several windows may split between two of them.
    by_window = True

    def __init__(
        self,
        harness: LoneBundle,
        source: TransformId,
        transform: TransformId,
        step: str,
        metadata: Metadata,
    ) -> None:
        self._harness = harness
        self._source = source
        self._transform = transform
        self._step = step
        self._metadata = metadata
        self._patience = _LEAST_PATIENCE

    @property
    @override
    def step(self) -> str:
        return self._step

    @override
    def process(self, element: Any, allowance: Allowance, *, started: bool) -> Processed:
        harness = self._harness
        harness.begin_alone(self._source, self._metadata.encode(element) + prefixed(element.value))
        split = self._watch(allowance)
        deferred = [self._remainder(rest) for rest in harness.end_alone()]
        made = harness.made(self._transform)
        interrupted = []
        if split is not None:
            self._patience = _LEAST_PATIENCE if made else min(2 * self._patience, _MOST_PATIENCE)
            if any(channel.first_residual_element == 0 for channel in split.channel_splits):
                interrupted = [Remainder(self._transform, element, None, 0)]
            else:
                interrupted = [self._remainder(rest) for rest in split.residual_roots]
        return Processed(made, made, interrupted, deferred)

    def _watch(self, allowance: Allowance) -> beam_fn_api_pb2.ProcessBundleSplitResponse | None:
        """Let a bundle go on until it ends, or the allowance is spent; the split, if there was."""
        harness, clock = self._harness, allowance.clock
        until = allowance.until
        patience = clock() + self._patience
        while not harness.wait(min(max(0.0, until - clock()), _LOOK_SECONDS)):
            made = harness.made(self._transform)
            now = clock()
            is_spent = made >= max(1, allowance.claims) or now >= until
            if is_spent and (made or now >= patience):
                split = harness.split(self._source, self._step)
                if split.channel_splits:
                    return split
            if now >= until:
                until = now + _LOOK_SECONDS
        return None

    def _remainder(self, rest: beam_fn_api_pb2.DelayedBundleApplication) -> Remainder:
        application = rest.application
        watermarks = [time.ToMicroseconds() for time in application.output_watermarks.values()]
        return Remainder(
            self._transform,
            self._metadata.windowed(application.element),
            min(watermarks, default=None),
            rest.requested_time_delay.ToMicroseconds(),
        )

    @override
    def interrupt(self) -> bool:
        return False  # ``process`` looks at the clock itself

    @override
    def truncate(self, element: Any) -> Any | None:
        return self._harness.truncate(self._source, self._transform, element)
