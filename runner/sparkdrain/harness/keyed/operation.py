"""A step with state of which many keys are in flight, as an operation among Beam's."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparkdrain.harness.beam import common, operations
from sparkdrain.harness.concurrent.operation import way_out
from sparkdrain.harness.concurrent.room import keys_in_flight
from sparkdrain.harness.concurrent.tracker import STEP, StepMetrics
from sparkdrain.harness.keyed.flight import KeysInFlight
from sparkdrain.harness.keyed.worker import KeyWorker
from sparkdrain.harness.stateful import Fire, FlightCalls, flight_calls
from sparkdrain.harness.step_name import raise_named
from sparkdrain.notes import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.harness.compiled.chain import LazyChain
    from sparkdrain.harness.concurrent.dofn import ConcurrentDoFn
    from sparkdrain.harness.concurrent.slot_loop import SlotLoop
    from sparkdrain.harness.dofn import DoFnHandle
    from sparkdrain.harness.keyed.flight import ElementsTurn, KeyTurn
    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.large_place import LargePlace
    from sparkdrain.harness.small_place import SmallPlace
    from sparkdrain.harness.step_book import Frame


class KeyedOperation(operations.DoOperation):
    """Beam's, but keys come to ``flight``; results leave when its loop has run."""

    def prepare(
        self,
        concurrent: ConcurrentDoFn,
        handle: DoFnHandle,
        chain: Callable[[], LazyChain | None],
        loop: SlotLoop,
        state: KeyedState,
        *,
        most_bytes: int,
    ) -> None:
        """What it needs to know before it is set up.

        Args:
            concurrent: how the DoFn is called.
            handle: of the DoFn.
            chain: what takes its results, or None if Beam does.
            loop: where user code runs.
            state: of the DoFn.
            most_bytes: that keys in flight may take.
        """
        self._concurrent = concurrent
        self._handle = handle
        self._chain = chain
        self._state = state
        self._results: Any = None
        self._flush: Callable[[], None] = lambda: None
        self._made: Any = None
        self._timers = _timers_of(handle.dofn)
        self._metrics = StepMetrics(self)
        calls_in = flight_calls(handle, concurrent.process) or self._calls_of_beam
        name, chosen = self.name_context.step_name, concurrent.settings
        most = keys_in_flight(name, chosen.max_in_flight, most_bytes)
        self.flight = KeysInFlight(
            name,
            replace(chosen, max_in_flight=most),
            loop,
            self._metrics,
            lambda: KeyWorker(state, calls_in),
        )
        self._arrived: list[Any] = []
        concurrent.begin(loop, self._as_step, self._start)

    async def _as_step(self, called: Any) -> Any:
        STEP.set(self._metrics)
        return await called

    # --- turns of keys ------------------------------------------------------------------------

    def process(self, windowed_value: Any) -> None:
        """Take an element of an edge that feeds other transforms, too."""
        self._arrived.append(windowed_value.with_value(windowed_value.value[1]))

    def take_arrived(self, encoded: bytes, key: Any) -> ElementsTurn:
        """Hand over what has come since the last call, all of a key; returns its turn."""
        arrived, self._arrived = self._arrived, []
        return self.flight.add(encoded, lambda _: key, (arrived,))

    def make_room(self, turn: ElementsTurn | None = None) -> None:
        """Wait until there is room for another key, and for more elements of a turn."""
        while self.flight.is_full or (turn is not None and turn.is_full):
            self._run()

    def land_turns(self, more: Callable[[], KeyTurn | None] | None = None) -> None:
        """Wait until all turns are over, and all that ``more`` has."""
        self.flight.draw(more)
        while self.flight.are_any:
            self._run()
        self.flight.draw(None)

    def _run(self) -> None:
        with self.scoped_process_state:
            try:
                complete = self.flight.run()
            except Exception as error:  # noqa: BLE001 - raised again, with the step's name
                raise_named(error, self.name_context)
            except BaseException as error:
                add_note(error, f"[{self.flight.described()}]")
                raise
            if complete:
                handle_results = self._results or self._begin_results()
                for context, results in complete:
                    handle_results(context, results)
                self._flush()

    def _begin_results(self) -> Any:
        self._results, self._flush = way_out(self, self._handle, self._chain())
        return self._results

    # --- calls that Beam finds the arguments of -----------------------------------------------

    def _calls_of_beam(self, place: SmallPlace | LargePlace) -> FlightCalls:
        def start(key: Any, element: Any) -> Any:
            self._state.place = place
            self._made = None
            operations.DoOperation.process(self, element.with_value((key, element.value)))
            made, self._made = self._made, None
            return made

        fire: Fire = {
            name.encode(): functools.partial(self._fire, place, *timer)
            for name, timer in self._timers.items()
        }
        return FlightCalls(start, fire)

    def _start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What Beam calls in place of ``process``."""
        self._made = self._concurrent.process(*args, **kwargs)

    def _fire(
        self,
        place: SmallPlace | LargePlace,
        arguments: Any,
        callback: Callable[..., Any],
        key: Any,
        window: Any,
        timestamp: Any,
        pane: Any,
        tag: str,
    ) -> Any:
        self._state.place = place
        asked = self._state, key, window, timestamp, pane, tag
        return callback(**arguments.invoke_timer_callback(*asked))

    # --- the life of a stage ------------------------------------------------------------------

    def teardown(self) -> None:
        self.flight.abandon()
        super().teardown()

    def standing(self) -> Sequence[Frame]:
        """Where code stands that has been in flight longest; from any thread."""
        return self.flight.standing()


def _timers_of(dofn: Any) -> dict[str, tuple[Any, Callable[..., Any]]]:
    """By name of a timer: what finds out the arguments of its callback, and the callback."""
    found = {}
    for spec, method in common.DoFnSignature(dofn).timer_methods.items():
        callback, method.method_value = method.method_value, dict
        found[spec.name] = method, callback
    return found
