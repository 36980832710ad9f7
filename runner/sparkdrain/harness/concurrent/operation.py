"""A step with many elements in flight, as an operation among Beam's."""

from __future__ import annotations

import functools
import math
import pickle
import threading
import time
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from apache_beam.utils.windowed_value import WindowedValue

from sparkdrain.harness.beam import operations
from sparkdrain.harness.compiled.steps import takes_element_only
from sparkdrain.harness.concurrent.element import ElementInFlight
from sparkdrain.harness.concurrent.flight import StepFlight
from sparkdrain.harness.concurrent.room import FlightRoom
from sparkdrain.harness.concurrent.threads import Threads
from sparkdrain.harness.concurrent.tracker import ELEMENT, StepMetrics
from sparkdrain.harness.restrictions import sees_windows
from sparkdrain.harness.step_name import raise_named
from sparkdrain.harness.way_out import way_out
from sparkdrain.notes import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sparkdrain.harness.compiled.chain import LazyChain
    from sparkdrain.harness.concurrent.dofn import ConcurrentDoFn
    from sparkdrain.harness.concurrent.loop import EventLoop
    from sparkdrain.harness.dofn import DoFnHandle
    from sparkdrain.harness.harness import Carrier
    from sparkdrain.harness.step_book import Frame


class ConcurrentOperation(operations.DoOperation):
    """Beam's, but an element is only handed over; its results leave when it is complete.

    Results leave from the slot's thread, whenever it comes by: with the next element, and at the
    end of a bundle, which waits for all elements.
    """

    def prepare(
        self,
        concurrent: ConcurrentDoFn,
        handle: DoFnHandle,
        chain: Callable[[], LazyChain | None],
        loop: EventLoop,
        carrier: Carrier | None,
        *,
        most_bytes: int,
        size_of: Callable[[Any], int],
    ) -> None:
        """What it needs to know before it is set up.

        Args:
            chain: what takes its results, or None if Beam does.
            loop: where user code runs.
            carrier: keeps what is in flight when a bundle ends; None: a bundle waits for that.
            most_bytes: that elements in flight may take.
            size_of: tells about how many bytes a windowed value takes.
        """
        self._concurrent = concurrent
        self._way_out: Callable[[], Any] = lambda: way_out(self, handle, chain(), checks=False)
        # Whether ``process`` takes nothing but an element, or is called for each window.
        self._is_simple = takes_element_only(handle)
        self._by_window = bool(handle.side_inputs) or sees_windows(handle.dofn)
        self._by_key = concurrent.settings.order == "by_key"
        self._context: Any = None
        self._threads: Threads | None = None
        self._carrier = carrier if concurrent.settings.carry_over else None
        # Elements that came in this bundle and have not left; if they can be carried over.
        self._new: dict[ElementInFlight, None] = {}
        self._failed_before = 0
        metrics = self._metrics = StepMetrics(self)
        call = self._call if concurrent.waits else self._call_in_thread
        name, chosen = self.name_context.step_name, concurrent.settings
        self.flight = StepFlight(name, chosen, loop, metrics, call, concurrent.process)
        self._size_of = size_of
        self._room = FlightRoom(name, chosen.max_in_flight, most_bytes)
        self.flight.most = self._room.most
        is_free = chosen.order == "none" and chosen.timeout is None and self._carrier is None
        self._is_plain = self._is_simple and concurrent.waits and is_free
        concurrent.begin(loop, metrics.as_step, self._hand_over)

    # --- elements in --------------------------------------------------------------------------

    def process(self, windowed_value: Any) -> None:
        """Hand an element over."""
        if self._is_simple:
            self.take(windowed_value.value, windowed_value)
        elif self._by_window and len(windowed_value.windows) != 1:
            value, time = windowed_value.value, windowed_value.timestamp
            for window in windowed_value.windows:
                self._process(WindowedValue(value, time, (window,), windowed_value.pane_info))
        else:
            self._process(windowed_value)

    def process_values(self, values: Any, context: Any) -> None:
        """Hand elements over that share a context."""
        for value in values:
            if self._is_simple:
                self.take(value, context)
            else:
                self.process(context.with_value(value))

    def take(self, value: Any, context: Any) -> None:
        """Hand an element over, of which ``process`` takes the value and nothing else."""
        if self._is_plain:
            needs_care = self.flight.push((context, value))
        else:
            key = _key(value) if self._by_key else None
            needs_care = self._push(ElementInFlight(context, (value,), None, key))
        if needs_care:
            with self.scoped_process_state:
                self._make_room(lambda: context.with_value(value))

    def _process(self, windowed_value: Any) -> None:
        with self.scoped_process_state:
            self._context = windowed_value
            super().process(windowed_value)
            self._make_room(lambda: windowed_value)

    def _hand_over(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        key = _key(self._context.value) if self._by_key else None
        self._push(ElementInFlight(self._context, args, kwargs, key))

    def _push(self, element: ElementInFlight) -> bool:
        if self._carrier is not None:
            element.failed = self._failed_before
            element.updates = []
            self._new[element] = None
        return self.flight.push(element)

    def resume(self, windowed_value: Any, failed: int) -> None:
        """Start an element again that was carried over, and at which attempts have failed."""
        self._failed_before = failed
        try:
            self.process(windowed_value)
        finally:
            self._failed_before = 0

    # --- user code ----------------------------------------------------------------------------

    def _call(self, element: ElementInFlight) -> Any:
        if element.updates is not None:
            ELEMENT.set(element)
        if element.kwargs:
            return self._concurrent.process(*element.args, **element.kwargs)
        return self._concurrent.process(*element.args)

    def _call_in_thread(self, element: ElementInFlight) -> Any:
        if self._threads is None:
            most = self._concurrent.settings.max_in_flight
            self._threads = Threads(most, self._metrics.enter)
        return self._threads.submit(functools.partial(self._called, element))

    def _called(self, element: ElementInFlight) -> Any:
        element.thread = threading.get_ident()
        try:
            made = self._call(element)
            # What a generator does is to be done here.
            return list(made) if hasattr(made, "__next__") else made
        finally:
            element.thread = None

    # --- results out --------------------------------------------------------------------------

    def _make_room(self, last: Callable[[], Any]) -> None:
        """Wait until an element may come, after this last one."""
        self._hand_on()
        while self.flight.is_full and not self._room.grow(lambda: self._size_of(last())):
            self._wait()
            self._hand_on()
        self.flight.most = self._room.most

    def _wait(self, seconds: float = math.inf) -> None:
        try:
            self.flight.wait(seconds)
        except BaseException as error:
            add_note(error, f"[{self.flight.described()}]")
            raise

    def _hand_on(self) -> None:
        """Results of elements that are complete leave."""
        try:
            complete = self.flight.take()
        except BaseException as error:  # noqa: BLE001 - raised again, with the step's name
            raise_named(error, self.name_context)
        if not complete:
            return
        handle_results = self._results
        for element in complete:
            if type(element) is tuple:
                context, results = element
                if results:
                    handle_results(context, results)
                continue
            if element.results:
                handle_results(element.context, element.results)
            if self._carrier is not None:
                self._leaves(element, self._carrier)
        self._flush()

    def _leaves(self, element: ElementInFlight, carrier: Carrier) -> None:
        self._new.pop(element, None)
        updates, element.updates = element.updates, None
        for name, value in updates or ():
            self._metrics.count(name, value)
        if element.number is not None:
            carrier.drop(element.number)

    # --- the life of a bundle -----------------------------------------------------------------

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._results, self._flush = self._way_out()

    def land(self) -> None:
        """Wait until nothing is in flight, and all results have left; unless it is carried over."""
        if self.flight.inside:
            with self.scoped_process_state:
                self._hand_on()
                while self.flight.inside and not self._carries:
                    self._wait()
                    self._hand_on()

    @property
    def _carries(self) -> bool:
        return self._carrier is not None and self._carrier.is_on

    def finish(self) -> None:
        self.land()
        if self._carrier is not None and self._new:
            self._carry(self._carrier)
        super().finish()

    def _carry(self, carrier: Carrier) -> None:
        """Keep what came in this bundle and does not land soon."""
        is_ordered = self._concurrent.settings.order != "none"
        with self.scoped_process_state:
            end = time.monotonic() + carrier.patience
            while self._new and (left := end - time.monotonic()) > 0:
                self._wait(left)
                self._hand_on()
            try:
                for element in self._new:
                    windowed, failed = element.windowed, element.failed
                    element.number = carrier.keep(windowed, failed, is_ordered=is_ordered)
            except Exception as error:  # noqa: BLE001 - raised again, with the step's name
                add_note(error, "[an element in flight has to be encoded to be carried over]")
                raise_named(error, self.name_context)
            self._new.clear()

    def teardown(self) -> None:
        self.flight.abandon()
        super().teardown()
        if self._threads is not None:
            self._threads.shutdown()

    def standing(self) -> Sequence[Frame]:
        """Where code stands that has been in flight longest; from any thread."""
        return self.flight.standing()


def _key(value: Any) -> Any:
    try:
        key, _ = value
    except (TypeError, ValueError):
        msg = f"a step with order by_key takes pairs of key and value, and got {value!r:.200}"
        raise TypeError(msg) from None
    return key if isinstance(key, Hashable) else pickle.dumps(key)
