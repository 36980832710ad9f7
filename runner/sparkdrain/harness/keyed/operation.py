"""A step with state of which many keys are in flight, as an operation among Beam's."""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.harness.beam import common, operations
from sparkdrain.harness.concurrent.room import keys_in_flight
from sparkdrain.harness.concurrent.tracker import StepMetrics
from sparkdrain.harness.keyed.carrying import Arrived, CarriedKeys
from sparkdrain.harness.keyed.flight import KeysInFlight
from sparkdrain.harness.keyed.worker import KeyWorker
from sparkdrain.harness.stateful import Fire, FlightCalls, flight_calls
from sparkdrain.harness.step_name import raise_named
from sparkdrain.harness.way_out import way_out
from sparkdrain.notes import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.harness.compiled.chain import LazyChain
    from sparkdrain.harness.concurrent.dofn import ConcurrentDoFn
    from sparkdrain.harness.concurrent.loop import SlotLoop
    from sparkdrain.harness.dofn import DoFnHandle
    from sparkdrain.harness.harness import Carrier
    from sparkdrain.harness.keyed.worker import KeyTurn
    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.large_place import LargePlace
    from sparkdrain.harness.small_place import SmallPlace
    from sparkdrain.harness.step_book import Frame


_LOOK_SECONDS: Final = 1.0
# So long a round lets elements go on that it does not wait for.
_GLANCE_SECONDS: Final = 0.005


class KeyedOperation(operations.DoOperation):
    """Beam's, but keys come to ``flight``; results leave when its loop has run.

    Attributes:
        carried: keys whose elements may outlast their round; None: a round waits for all.
    """

    carried: CarriedKeys | None

    def prepare(
        self,
        concurrent: ConcurrentDoFn,
        handle: DoFnHandle,
        chain: Callable[[], LazyChain | None],
        loop: SlotLoop,
        carrier: Carrier | None,
        state: KeyedState,
        *,
        most_bytes: int,
    ) -> None:
        """As ``ConcurrentOperation.prepare``, of a DoFn with state and timers."""
        self._concurrent = concurrent
        self._way_out: Callable[[], Any] = lambda: way_out(self, handle, chain(), checks=False)
        self._state = state
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
        self.carried = None
        if carrier is not None and chosen.carry_over:
            self.carried = CarriedKeys(self.flight, state, carrier)
        self._arrived: list[Any] = []
        concurrent.begin(loop, self._metrics.as_step, self._start)

    # --- turns of keys ------------------------------------------------------------------------

    def process(self, windowed_value: Any) -> None:
        """Take an element of an edge that feeds other transforms, too."""
        self._arrived.append(windowed_value.with_value(windowed_value.value[1]))

    def take_arrived(self, encoded: bytes, key: Any) -> KeyTurn | None:
        """Hand over what has come since the last call, all of a key; returns its turn."""
        arrived, self._arrived = self._arrived, []
        return self.add_some(encoded, lambda _: key, arrived)

    def add_some(
        self, encoded: bytes, decode_key: Callable[[bytes], Any], elements: list[Any]
    ) -> KeyTurn | None:
        """Take elements of a key, as windowed values without it.

        Returns:
            Their turn; None if it comes in a later round.
        """
        if self.carried is None:
            return self.flight.add(encoded, decode_key, (elements,))
        self._land()
        return self.carried.arrive(encoded, decode_key, elements)

    def resume(self, windowed_value: Any, encoded: bytes) -> None:
        """Start an element again that was carried over."""
        key, value = windowed_value.value
        self.make_room(self.add_some(encoded, lambda _: key, [windowed_value.with_value(value)]))

    def make_room(self, turn: KeyTurn | None = None) -> None:
        """Wait until there is room for another key, and for more elements of a turn."""
        while self.flight.is_full or (turn is not None and turn.is_full):
            self._run()
            self._land()

    def fed(self) -> None:
        """An edge has given all of its elements: wait until all turns are over, or are carried."""
        if self.carried is None:
            self._wait_for_turns()
        elif not self.carried.carrier.is_on:
            self.land()

    def land(self) -> None:
        """All edges have: wait until all turns are over, but for those that are carried over."""
        carried = self.carried
        if carried is None:
            self._wait_for_turns()  # an element that a step has carried over before it was changed
            return
        self._land()
        if carried.carrier.is_on:
            end = time.monotonic() + carried.carrier.patience
            seconds = _GLANCE_SECONDS
            while self.flight.are_lasting and seconds > 0:
                self._run(seconds)
                self._land()
                if carried.are_too_many:
                    seconds = _LOOK_SECONDS
                else:
                    seconds = end - time.monotonic() if carried.are_new else 0
        else:
            carried.wait_for_all()
            while self.flight.are_lasting:
                self._run()
                self._land()
        self._wait_for_turns()
        carried.hide()

    def _wait_for_turns(self) -> None:
        """Wait until all turns are over for which the round waits."""
        while self.flight.are_any:
            self._run()
            self._land()

    def fire_turns(self, more: Callable[[], KeyTurn | None]) -> None:
        """Wait until all turns of timers are over that ``more`` has. No element lands."""
        self.flight.draw(more)
        while self.flight.are_any:
            self._run()
        self.flight.draw(None)

    def finish(self) -> None:
        if self.carried is not None:
            with self.scoped_process_state:
                try:
                    self.carried.keep()
                except Exception as error:  # noqa: BLE001 - raised again, with the step's name
                    add_note(error, "[an element in flight has to be encoded to be carried over]")
                    raise_named(error, self.name_context)
        super().finish()

    def _run(self, seconds: float = _LOOK_SECONDS) -> None:
        with self.scoped_process_state:
            try:
                complete = self.flight.run(seconds)
            except Exception as error:  # noqa: BLE001 - raised again, with the step's name
                raise_named(error, self.name_context)
            except BaseException as error:
                add_note(error, f"[{self.flight.described()}]")
                raise
            self._take(complete)

    def _take(self, complete: list[tuple[Any, Any]]) -> None:
        """Let results leave, but for those of elements that have to land."""
        if not complete:
            return
        handle_results = self._results
        if self.carried is None:
            for context, results in complete:
                handle_results(context, results)
        else:
            for context, results in complete:
                if type(context) is Arrived:
                    self.carried.is_complete(context, results)
                else:
                    handle_results(context, results)
        self._flush()

    def _land(self) -> None:
        """Have elements land that are complete, also those that are since another step ran."""
        if self.carried is None:
            return
        complete = self.flight.take_complete()
        if not (complete or self.carried.are_complete):
            return
        with self.scoped_process_state:
            self._take(complete)
            for arrived, updates in self.carried.landed():
                if arrived.results:
                    self._results(arrived.element, arrived.results)
                for name, value in updates:
                    self._metrics.count(name, value)
            self._flush()

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

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._results, self._flush = self._way_out()

    def teardown(self) -> None:
        self.flight.abandon()
        super().teardown()

    def standing(self) -> Sequence[Frame]:
        """Where code stands that has been in flight longest; from any thread."""
        return self.flight.standing()


def _timers_of(dofn: Any) -> dict[str, tuple[Any, Callable[..., Any]]]:
    """What finds out the arguments of a timer's callback, and the callback, by the timer's name."""
    found = {}
    for spec, method in common.DoFnSignature(dofn).timer_methods.items():
        callback, method.method_value = method.method_value, dict
        found[spec.name] = method, callback
    return found
