"""What a slot asks of whatever runs a stage: the seam between slots and SDK harnesses.

A slot knows ``Harness`` and the values of this module. ``bundle.StageBundle`` runs a stage in the
slot's own process, by Beam's operations and generated code. A harness in another process speaks
the Fn API. It has no object to show, it gets elements as bytes, and its answers take time. So the
docstrings below say what a caller may rely on, and nothing more:

- All calls come from the thread of the slot, one after the other, unless a method says otherwise.
- A call may come back before its elements are processed; ``finish`` comes back after all are.
- Errors of user code may be raised by any call up to ``finish``. Each names its step.
- Elements have the form that the coding of their edge gives them. A harness in another process
  gets a coding whose values and keys are bytes with their length, which it passes on unread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.graph.plan import TransformId
    from sparkdrain.harness.limits import Allowance, UpTo
    from sparkdrain.shuffle.coding import ElementCoding
    from timers_state import Overlay

Elements = Callable[[Any], "Iterator[list[Any]]"]
"""Decodes what one key has in a round: chunks in, lists of windowed values out."""


class Writer(Protocol):
    """Where a stage puts the elements of an edge; ``context`` has timestamp, windows and pane."""

    def write(self, value: Any, context: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class StateTerms:
    """Where and how long the state of a stateful DoFn is kept.

    A harness in another process asks for state by requests. The slot's thread answers them from
    the overlay while it waits for the harness, since no other thread may use an overlay.

    Attributes:
        state_id: the number of the DoFn's state in the overlay, see ``graph.state_ids``.
        expiry_of: the time in microseconds at which nothing more is kept of a window; None if
            windows last for ever.
    """

    overlay: Overlay
    state_id: int
    expiry_of: Callable[[Any], int] | None


class KeysCarried(Protocol):
    """The keys of one step with state whose elements a round leaves in flight."""

    def hold(self) -> int:
        """The earliest timer of these keys, microseconds; END if there is none."""

    def __len__(self) -> int: ...


class Carrier(Protocol):
    """Keeps elements of one step that are in flight when a bundle ends, as input of a later one.

    What it keeps is part of the slot's state. An element is kept as it came in, with nothing of
    what was made of it. It goes on in memory; if the harness is gone, the slot hands it to another
    one by ``Harness.resume``.
    """

    @property
    def is_on(self) -> bool:
        """Whether elements may outlast the present bundle."""

    @property
    def patience(self) -> float:
        """Seconds for which the end of the bundle still waits for elements that came in it."""

    def follow(self, keys: KeysCarried) -> None:
        """Ask ``keys`` what holds time; of a step with state."""

    def keep(self, element: Any, failed: int, *, is_ordered: bool, key: bytes | None = None) -> int:
        """Keep a windowed value, in the order in which elements are to start again.

        Args:
            failed: how many attempts at it have failed.
            is_ordered: whether others must not overtake it.
            key: encoded, if the step has state; it tells the slot. None: the step has none.

        Returns:
            Its number.
        """

    def drop(self, number: int) -> None:
        """An element is complete, and its results have left."""


@dataclass(frozen=True, slots=True)
class KeyedEdge:
    """A KEYED edge as a harness needs to know it.

    Attributes:
        stateful: the DoFns with state or timers that the edge feeds.
        coding: how the elements are encoded, without their keys.
    """

    source: TransformId
    stateful: Sequence[TransformId]
    coding: ElementCoding
    decode_key: Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class Remainder:
    """What is left of a restriction that its DoFn does not process now.

    Attributes:
        transform: the DoFn's transform id.
        element: a windowed value, as ``beam:transform:sdf_process_sized_element_and_...:v1``
            takes it.
        watermark: nothing that the restriction makes will be older, microseconds; None: not known.
        delay: microseconds after which the DoFn wants to go on; 0: at once.
        failed: how many attempts have failed, of an element that was carried over.
        key: encoded, of such an element if the step has state.
    """

    transform: TransformId
    element: Any
    watermark: int | None
    delay: int
    failed: int = 0
    key: bytes = b""


@dataclass(frozen=True, slots=True)
class Processed:
    """What became of a restriction.

    Attributes:
        claimed: how much of the allowance was used. A harness that sees no claims counts the
            elements that the DoFn has made.
        made: how many elements the DoFn has made.
        interrupted: what splits have left over; it can go on at once.
        deferred: what the DoFn itself has put off.
    """

    claimed: int
    made: int
    interrupted: Sequence[Remainder]
    deferred: Sequence[Remainder]


class Inlet(Protocol):
    """Where the elements of an edge, or of an impulse, enter a stage."""

    def feed(self, values: list[Any], context: Any) -> None:
        """Process values that all have the timestamp, windows and pane of ``context``."""

    def feed_windowed(self, elements: list[Any]) -> None:
        """Process windowed values."""

    def split(self, keep: float) -> list[Any]:
        """Keep that part of the work that is left, and give the rest away.

        The work is the restriction that is processed now, and what was fed and not begun. May be
        called from any thread, and may wait for an answer of the harness.

        Returns:
            What will not be processed here, as windowed values to feed to an inlet like this; the
            empty list if nothing can be given away now. Each element is either in this list or
            processed here.
        """


class KeyedInlet(Protocol):
    """Where the elements of a KEYED edge enter a stage, and how its timers fire."""

    @property
    def takes_pieces(self) -> bool:
        """Whether a key may as well come several times in ``feed``, since a turn costs little."""

    def feed(
        self,
        keys: Iterable[tuple[bytes, Any]],
        elements: Elements,
        is_late: Callable[[Any], bool],
    ) -> None:
        """Process what keys have, all of each key before the next key is asked for.

        State that a DoFn changes, and timers that it sets, are in the overlay when the harness
        has finished the bundle, and when ``fire`` is called.

        Args:
            keys: encoded keys, each with its chunk or its chunks.
            elements: decodes chunks, and drops what is late.
            is_late: whether an element with one window is to be dropped; for a harness that
                decodes chunks itself.
        """

    def fire(self, transform: TransformId, up_to: UpTo) -> bool:
        """Fire the timers of a DoFn that are due, and forget windows that are over.

        Event timers of all keys fire in the order of time within each key, then those of
        processing time. What a callback sets takes part if it is due. At least one timer fires.

        Returns:
            Whether the budget was enough: no timer that is due is left.
        """


class RestrictionInlet(Protocol):
    """Has a splittable DoFn process restrictions, one at a time."""

    @property
    def step(self) -> str:
        """The name of the DoFn's step."""

    @property
    def by_window(self) -> bool:
        """Whether the DoFn processes an element once for each of its windows."""

    def process(self, element: Any, allowance: Allowance, *, started: bool) -> Processed:
        """Process a restriction until it is done, put off, interrupted, or the allowance is spent.

        Comes back when the restriction is at rest. A harness in another process looks at what the
        DoFn has made and at the clock, and splits when that exceeds the allowance, so the
        allowance may be exceeded by what is made in the meantime.

        Args:
            element: a windowed value, see ``Remainder.element``.
            allowance: how much the DoFn may claim.
            started: whether the restriction was processed before; then it is not counted again.
        """

    def interrupt(self) -> bool:
        """Split the restriction that is processed now; called from any other thread.

        Returns:
            Whether it was split. False if nothing is processed, or it cannot be split now.
        """

    def truncate(self, element: Any) -> Any | None:
        """The finite part of a restriction that a drain leaves to do; None if nothing is left.

        Raises:
            Exception: what ``truncate`` of the DoFn raises; a note tells the element.
            ValueError: the size of what is left is below zero.
        """


class Harness(Protocol):
    """Runs a stage in one slot, one bundle after the other, on DoFns that are set up once.

    Order of calls: ``start``, elements by inlets, ``finish``; again from ``start``; ``teardown``
    in every case. A harness whose round is undone is torn down, and the slot makes another one:
    its DoFns may remember what never happened.
    """

    # --- bundles ------------------------------------------------------------------------------

    def start(self) -> None:
        """Enter the stage and start a bundle: the first one, or the next one after ``finish``."""

    def enter(self) -> None:
        """What this thread does from now on belongs to the stage: its metrics and logs."""

    def land(self) -> None:
        """Wait for elements that user code processes asynchronously; the bundle goes on.

        Not for those of a step whose ``Carrier`` is on.
        """

    def finish(self, *, drained: bool = False) -> None:
        """Process all that was fed, and end the bundle. All output is with the writers then.

        Elements that a ``Carrier`` keeps go on, and leave in a later bundle.

        Args:
            drained: DoFns that have ``on_drain`` get that call before ``finish_bundle``.

        Raises:
            Exception: user code raised it.
            RuntimeError: user code has used state where no key had its turn.
        """

    def teardown(self) -> None:
        """Tear all DoFns down, also amid a bundle; an error of one does not keep the others."""

    # --- work ---------------------------------------------------------------------------------

    def inlet(self, source: TransformId) -> Inlet:
        """Where the elements of a source come in."""

    def keyed(self, edge: KeyedEdge) -> KeyedInlet:
        """Where the elements of a KEYED edge come in; one for each edge and harness."""

    def restrictions(self, source: TransformId, transform: TransformId) -> RestrictionInlet:
        """Where restrictions that come in at a source are processed by a splittable DoFn."""

    def take_deferred(self) -> list[Remainder]:
        """Restrictions that DoFns have put off since the last call."""

    def resume(self, rest: Remainder) -> None:
        """Go on with a restriction that was put off, or with an element that was carried over."""

    def forget_side_inputs(self) -> None:
        """The next bundle reads all side inputs anew. No finalizer of their readers may wait."""

    # --- what bundles leave behind ------------------------------------------------------------

    @property
    def needs_finalization(self) -> bool:
        """Whether callbacks wait for their bundle to be committed."""

    def finalize(self) -> None:
        """Run these callbacks."""

    def take_finalizers(self) -> list[tuple[str, Callable[[], object]]]:
        """These callbacks, each with its transform id; from now on the caller runs them.

        A harness in another process has one callback for a bundle, which asks it to finalize.
        Such a callback cannot be kept in a checkpoint.
        """

    def acknowledgement(self, transform: str, data: str) -> Callable[[], object]:
        """Recreate a finalizer that a DoFn registered before the job was resumed.

        Args:
            transform: id of the DoFn's transform.
            data: what the DoFn wrote down of the finalizer, see ``kept_finalizers``.
        """

    def take_refused(self) -> list[tuple[str, str, int]]:
        """Timers that a drain has refused since the last call: transform, family, how many."""

    # --- looking on ---------------------------------------------------------------------------

    def infos(self) -> list[metrics_pb2.MonitoringInfo]:
        """All metrics since the harness was made; whole after ``finish``.

        The caller must not change the list. It may be the same one as long as nothing is counted.
        """

    def handled(self) -> int:
        """How many elements the busiest PCollection has had; from any thread, about."""

    def at_work(self) -> tuple[str, bytes | None]:
        """The step whose code runs, or "", and the encoded key that it has, or None if not known.

        Called from another thread: nothing that is told needs to be true any more.
        """

    def stack(self) -> Sequence[tuple[str, int, str]]:
        """Where the code of a stage in another process stands, the innermost call first.

        Each call is a file, a line and a function. Of a stage in this process, the code of an
        element in flight is told. Empty if there is none, or nothing is told. Called from another
        thread, as ``at_work`` is.
        """

    def tell_more(self, transform: TransformId, *, more: bool) -> None:
        """Tell a DoFn, if it wants to know, whether further elements are safe: ``StableParDo``."""
