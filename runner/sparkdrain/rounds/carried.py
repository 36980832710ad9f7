"""Elements in flight that a round leaves to later ones: kept in a slot's state, as input.

A step that carries over leaves its elements in flight when a round ends. They go on in memory. In
the state they are as they came in, and hold the frontier. So a commit has nothing of what they have
done, an undone round gives them back, and a restored slot starts them again.
"""

from __future__ import annotations

import struct
import time
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from apache_beam.portability.api import beam_runner_api_pb2
from typing_extensions import override

from sparkdrain.errors import CheckpointRefused
from sparkdrain.graph import urns
from sparkdrain.graph.identity import coder_text
from sparkdrain.graph.state_ids import carried_state_id
from sparkdrain.harness.harness import Carrier, Remainder
from sparkdrain.rounds.sources.residuals import (
    MOST_IDLE,
    Residual,
    ResidualStore,
    rest_of,
    undecoded,
    written_in,
)
from sparkdrain.watermarks.frontier import END, least
from timers_state.errors import Unmovable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkdrain.graph.plan import Plan, Stage, TransformId
    from sparkdrain.harness.harness import Harness, KeysCarried
    from sparkdrain.rounds.context import Context
    from timers_state import Overlay, Store
    from timers_state.cells.value import Value

# How long a round that has fed new elements waits for them before it leaves them in flight.
_PATIENCE_SECONDS: Final = 0.05
_PLAYED_SECONDS: Final = 0.001
_MILLISECOND: Final = 1000
_MOST_FAILED: Final = 255
# All are kept until the same time, so they come out in the order in which they were kept.
_ALWAYS: Final = 0
_CODER: Final = b"coder"
_LENGTH: Final = struct.Struct(">I")


class Carried:
    """What the steps of one stage carry over in one slot."""

    def __init__(self, context: Context, stage: Stage) -> None:
        self._is_played = bool(context.plan.played)
        self._is_in_round = False
        self._is_resumed = False
        self._now = 0
        self._idle = 0
        self._ends: float | None = None
        self.is_on = False
        """Whether elements may outlast the present round."""
        self.has_changed = False
        """Whether an element was kept, or has left, in the present round."""
        self.steps = {
            transform: CarriedStep(self, context, transform, proto)
            for transform, proto in steps_of(stage)
        }

    # --- the shard ----------------------------------------------------------------------------

    def begin(self, now: int, *, is_on: bool) -> None:
        """A round begins, at a processing time; elements may outlast it or not."""
        self._now = now
        self.is_on = is_on
        self.has_changed = False
        self._ends = None
        self._is_in_round = True

    def end(self) -> None:
        """The round's elements are kept, or have left."""
        self._is_in_round = False
        self._idle = 1 if self.has_changed else min(self._idle + 1, MOST_IDLE)
        if self._is_played and self and not self.has_changed:
            time.sleep(_PLAYED_SECONDS)  # a script's clock leaps over waits

    def resume(self, harness: Harness) -> None:
        """Have a harness that was just made go on with what the one before it carried over."""
        if self._is_resumed or not self._is_in_round:
            return
        self._is_resumed = True
        for step in self.steps.values():
            for rest in step.take_all():
                harness.resume(rest)

    def waits(self, transform: TransformId) -> bool:
        """Whether a step with state has elements in flight now, for which timers wait."""
        step = self.steps.get(transform)
        return step is not None and bool(step.keys)

    def __len__(self) -> int:
        return sum(len(step.store) for step in self.steps.values())

    def hold(self) -> int:
        """The earliest time of what is carried over, and of what waits for it; END: of nothing."""
        return least(step.hold() for step in self.steps.values())

    def wake(self) -> int | None:
        """The processing time at which to look whether something has come to its end."""
        return self._now + rest_of(self._now, self._idle) if len(self) else None

    @property
    def patience(self) -> float:
        """Seconds for which the present round still waits for its new elements."""
        now = time.monotonic()
        if self._ends is None:
            self._ends = now + _PATIENCE_SECONDS
        return max(0.0, self._ends - now)


class CarriedStep(Carrier):
    """What one step carries over.

    Attributes:
        keys: those that have elements in flight, if the step has keys.
    """

    def __init__(
        self,
        carried: Carried,
        context: Context,
        transform: TransformId,
        proto: beam_runner_api_pb2.PTransform,
    ) -> None:
        self._carried = carried
        self._transform = transform
        self._name = proto.unique_name
        self.keys: KeysCarried | None = None
        payload = beam_runner_api_pb2.ParDoPayload.FromString(proto.spec.payload)
        (main,) = (p for tag, p in proto.inputs.items() if tag not in payload.side_inputs)
        codings, state_id = context.codings, carried_state_id(context.plan, transform)
        text = coder_text(codings.components, codings.components.pcollections[main].coder_id)
        impl = codings.windowed(main).get_impl()
        if payload.state_specs or payload.timer_family_specs:
            text, impl = f"the key, and {text}", _WithKey(impl)
        self.store = ResidualStore(context.overlay, state_id, impl)
        self._coding = CarriedCoding(context.overlay, state_id, text)

    @override
    def follow(self, keys: KeysCarried) -> None:
        self.keys = keys

    def hold(self) -> int:
        """The earliest time of what is kept, and of timers that wait for it."""
        kept = self.store.hold() if len(self.store) else END
        return kept if self.keys is None else min(kept, self.keys.hold())

    @property
    @override
    def is_on(self) -> bool:
        return self._carried.is_on

    @property
    @override
    def patience(self) -> float:
        return self._carried.patience

    @override
    def keep(self, element: Any, failed: int, *, is_ordered: bool, key: bytes | None = None) -> int:
        self._carried.has_changed = True
        micros = element.timestamp.micros
        # What is sent has whole milliseconds. Even the last element is before the end of time.
        hold = min(micros - micros % _MILLISECOND, END - _MILLISECOND)
        self._coding.note()
        residual = Residual(
            element if key is None else (key, element),
            hold,
            known=is_ordered,
            started=key is not None,
            idle=min(failed, _MOST_FAILED),
        )
        return self.store.put(residual, _ALWAYS)

    @override
    def drop(self, number: int) -> None:
        self._carried.has_changed = True
        self.store.remove(number)

    def take_all(self) -> Iterator[Remainder]:
        """Take out all that is kept, in its order.

        Raises:
            CheckpointRefused: it was kept with another coder.
        """
        if len(self.store):
            self._coding.check(self._name)
        for _ in range(len(self.store)):
            residual = self.store.pop(_ALWAYS)
            assert residual is not None, self._transform
            kept = residual.element
            key, element = kept if type(kept) is tuple else (b"", kept)
            yield Remainder(self._transform, element, None, 0, residual.idle, key)


class _WithKey:
    """Codes elements, or pairs of an encoded key and an element if the step uses state.

    Args:
        impl: coder impl of the windowed value that the element is.
    """

    def __init__(self, impl: Any) -> None:
        self._impl = impl

    def encode(self, kept: Any) -> bytes:
        """The length of the key, the key, and the element."""
        key, element = kept if type(kept) is tuple else (b"", kept)
        encoded: bytes = self._impl.encode(element)
        return _LENGTH.pack(len(key)) + key + encoded

    def decode(self, data: bytes) -> tuple[bytes, Any]:
        """The key, which may be empty, and the element."""
        key = _key_in(data)
        return key, self._impl.decode(data[_LENGTH.size + len(key) :])


def _key_in(data: bytes) -> bytes:
    (length,) = _LENGTH.unpack_from(data)
    return data[_LENGTH.size : _LENGTH.size + length]


def key_of(payload: bytes) -> bytes | None:
    """The encoded key of an element, as ``written_in`` gives it; None: the step has no state."""
    residual = undecoded(payload)
    return _key_in(residual.element) if residual.started else None


class CarriedCoding:
    """Tells with which coder the elements of a step are kept, as part of the slot's state.

    Args:
        text: the coder that the step has now, see ``coder_text``.
    """

    def __init__(self, overlay: Overlay, state_id: int, text: str = "") -> None:
        self._overlay = overlay
        self._state_id = state_id
        self._text = text
        self._is_noted = False

    def _cell(self) -> Value:
        return self._overlay.scope(self._state_id, b"").value(_CODER)

    def note(self) -> None:
        """An element is kept."""
        if not self._is_noted:
            self._is_noted = True
            self._cell().set(self._text.encode())

    def inherit(self, other: CarriedCoding) -> None:
        """Elements of an old slot come here."""
        if (kept := other._cell().get()) is not None:
            self._cell().set(kept)

    def check(self, name: str) -> None:
        """Make sure that elements can be read.

        Raises:
            CheckpointRefused: they were kept with another coder; names the step.
        """
        kept = (self._cell().get() or b"").decode()
        if kept != self._text:
            message = (
                f"{name!r} has elements in flight, which were coded as {kept} and would be read "
                f"as {self._text}. Resume the job as it was, and drain it"
            )
            raise CheckpointRefused(message)


def steps_of(stage: Stage) -> Iterator[tuple[TransformId, beam_runner_api_pb2.PTransform]]:
    """The transforms of a stage that may carry elements over, or have done so."""
    for transform, data in stage.transforms:
        proto = beam_runner_api_pb2.PTransform.FromString(data)
        if proto.spec.urn == urns.PAR_DO:
            yield transform, proto


def carried_state_ids(plan: Plan, level: int) -> dict[int, str]:
    """Under which numbers the slots of a level keep what they carry over, with names of steps."""
    steps = chain.from_iterable(steps_of(stage) for stage in plan.levels[level])
    return {carried_state_id(plan, transform): proto.unique_name for transform, proto in steps}


def check_movable(store: Store, state_id: int, name: str) -> None:
    """Make sure that what an old slot has carried over may be dealt out to other slots.

    Raises:
        Unmovable: others must not overtake it, and would, since their source may go elsewhere.
    """
    if any(undecoded(payload).known for payload, _ in written_in(store, state_id)):
        message = (
            f"{name!r} has elements in flight that others must not overtake (order), and these "
            "would come to other slots. A drain takes them out"
        )
        raise Unmovable(message)
