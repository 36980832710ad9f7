"""A step with state of which many keys are in flight, as an operation among Beam's."""

from __future__ import annotations

import functools
import math
import time
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.harness.beam import common, operations
from sparkdrain.harness.concurrent.operation import way_out
from sparkdrain.harness.concurrent.tracker import STEP, StepMetrics
from sparkdrain.harness.keyed.carrying import Arrived, CarriedKeys
from sparkdrain.harness.keyed.flight import KeysInFlight
from sparkdrain.harness.keyed.worker import KeyWorker
from sparkdrain.harness.stateful import Fire, FlightCalls, flight_calls
from sparkdrain.harness.step_name import raise_named
from sparkdrain.notes import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sparkdrain.harness.compiled.chain import LazyChain
    from sparkdrain.harness.concurrent.dofn import ConcurrentDoFn
    from sparkdrain.harness.concurrent.slot_loop import SlotLoop
    from sparkdrain.harness.dofn import DoFnHandle
    from sparkdrain.harness.harness import Carrier
    from sparkdrain.harness.keyed.carrying import CarriedTurn
    from sparkdrain.harness.keyed.flight import ElementsTurn, KeyTurn
    from sparkdrain.harness.keyed_state import KeyedState
    from sparkdrain.harness.large_place import LargePlace
    from sparkdrain.harness.limits import UpTo
    from sparkdrain.harness.small_place import SmallPlace
    from sparkdrain.harness.step_book import Frame


# So long a round lets elements go on that were carried over before, if nothing is new.
_GLANCE_SECONDS: Final = 0.005


class KeyedOperation(operations.DoOperation):
    """Beam's, but keys come to ``flight``; results leave when its loop has run."""

    def prepare(
        self,
        concurrent: ConcurrentDoFn,
        handle: DoFnHandle,
        chain: Callable[[], LazyChain | None],
        loop: SlotLoop,
        carrier: Carrier | None,
        state: KeyedState,
    ) -> None:
        """What it needs to know before it is set up.

        Args:
            concurrent: how the DoFn is called.
            handle: of the DoFn.
            chain: what takes its results, or None if Beam does.
            loop: where user code runs.
            carrier: keeps what is in flight when a bundle ends; None: a bundle waits for that.
            state: of the DoFn.
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
        records = state.small.records
        self.flight = KeysInFlight(
            self.name_context.step_name,
            concurrent.settings,
            loop,
            self._metrics,
            lambda: KeyWorker(state, calls_in),
            records.resting,
        )
        self._carrier = carrier if concurrent.settings.carry_over else None
        self._carried: CarriedKeys | None = None
        if self._carrier is not None:
            self._carried = CarriedKeys(self.flight, records, self._carrier)
        self._arrived: list[Any] = []
        concurrent.begin(loop, self._as_step, self._start)

    async def _as_step(self, called: Any) -> Any:
        STEP.set(self._metrics)
        return await called

    # --- turns of keys ------------------------------------------------------------------------

    def process(self, windowed_value: Any) -> None:
        """Take an element of an edge that feeds other transforms, too."""
        self._arrived.append(windowed_value.with_value(windowed_value.value[1]))

    def take_arrived(self, encoded: bytes, key: Any) -> ElementsTurn | CarriedTurn | None:
        """Hand over what has come since the last call, all of a key; returns its turn."""
        arrived, self._arrived = self._arrived, []
        return self.add_some(encoded, lambda _: key, arrived)

    def add_some(
        self, encoded: bytes, decode_key: Callable[[bytes], Any], elements: list[Any]
    ) -> ElementsTurn | CarriedTurn | None:
        """Take elements of a key, as windowed values without it; returns their turn.

        None: their turn comes in a later round.
        """
        if self._carried is not None:
            return self._carried.arrive(encoded, decode_key, elements)
        return self.flight.add(encoded, decode_key, (elements,))

    def add(
        self, encoded: bytes, decode_key: Callable[[bytes], Any], lists: Iterable[list[Any]]
    ) -> None:
        """Take all elements of a key, as windowed values without it; wait until there is room."""
        if self._carried is None:
            self.flight.add(encoded, decode_key, lists)
            if self.flight.is_full:
                self.make_room()
            return
        for elements in lists:
            self.make_room(self._carried.arrive(encoded, decode_key, elements))

    def fed(self) -> None:
        """All elements of the round have come. What may be carried over lands later."""
        if self._carrier is None or not self._carrier.is_on:
            self.land()

    def resume(self, windowed_value: Any, encoded: bytes) -> None:
        """Start an element again that was carried over."""
        assert self._carried is not None
        key, value = windowed_value.value
        self._carried.arrive(encoded, lambda _: key, (windowed_value.with_value(value),))

    def make_room(self, turn: ElementsTurn | CarriedTurn | None = None) -> None:
        """Wait until there is room for another key, and for more elements of a turn."""
        while self.flight.is_full or (turn is not None and turn.is_full):
            self._run(feeds=self.flight.is_full)

    def land(self) -> None:
        """Wait until all turns are over, unless they are carried over."""
        carrier, carried, flight = self._carrier, self._carried, self.flight
        if carrier is None or carried is None:
            self.land_turns()
        elif not carrier.is_on:
            carried.wake()
            self.land_turns()
        elif flight.turns:
            end = time.monotonic() + (carrier.patience if flight.are_any else 0)
            self._run(_GLANCE_SECONDS)
            while flight.are_any and (left := end - time.monotonic()) > 0:
                self._run(left)
            self._let_rest(carried)

    def _let_rest(self, carried: CarriedKeys) -> None:
        while not carried.all_rest():
            self._run()

    def land_turns(self, more: Callable[[], KeyTurn | None] | None = None) -> None:
        """Wait until all turns are over that do not rest, and all that ``more`` has."""
        self.flight.draw(more)
        while self.flight.are_any:
            self._run()
        self.flight.draw(None)

    def fire_turns(self, up_to: UpTo, more: Callable[[], KeyTurn | None]) -> None:
        """Wait until all turns are over that ``more`` has; of keys that rest, they come later."""
        if self._carried is not None:
            self._carried.are_due(up_to)
        self.land_turns(more)

    def finish(self) -> None:
        carrier, carried = self._carrier, self._carried
        if carrier is not None and carried is not None:
            if carrier.is_on:
                self._let_rest(carried)
                self._hand_on(self.flight.close_gate)
                with self.scoped_process_state:
                    self._keep(carried)
            else:
                self.land()
                while carried.release():
                    self.land_turns()
        super().finish()

    def _keep(self, carried: CarriedKeys) -> None:
        try:
            carried.keep()
        except Exception as error:  # noqa: BLE001 - raised again, with the step's name
            add_note(error, "[an element in flight has to be encoded to be carried over]")
            raise_named(error, self.name_context)

    def _run(self, seconds: float = math.inf, *, feeds: bool = False) -> None:
        self._hand_on(lambda: self.flight.run(seconds, feeds=feeds))

    def _hand_on(self, take: Callable[[], list[tuple[Any, Any]]]) -> None:
        """Results of elements that are complete leave."""
        with self.scoped_process_state:
            try:
                complete = take()
            except Exception as error:  # noqa: BLE001 - raised again, with the step's name
                raise_named(error, self.name_context)
            except BaseException as error:
                add_note(error, f"[{self.flight.described()}]")
                raise
            if complete:
                handle_results = self._results or self._begin_results()
                for context, results in complete:
                    if type(context) is not Arrived:
                        handle_results(context, results)
                        continue
                    if results:
                        handle_results(context.element, results)
                    self._leaves(context)
                self._flush()

    def _leaves(self, arrived: Arrived) -> None:
        assert self._carried is not None
        for name, value in self._carried.leaves(arrived):
            self._metrics.count(name, value)

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
