"""Calls the methods of a stateful DoFn as Beam does, by code that is made for their parameters.

Beam compares each parameter with each kind of marker for every element. What is asked for does not
change, so here a function is written once that passes just that. DoFns with parameters that are
not in ``_ELEMENT`` and ``_TIMER``, or with side inputs, are left to Beam.
"""

from __future__ import annotations

import inspect
import itertools
import sys
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from apache_beam import DoFn
from apache_beam.transforms.core import CallableWrapperDoFn
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import WindowedValue
from apache_beam.typehints.typecheck import AbstractDoFnWrapper

from sparkdrain.harness.beam import common, operations
from sparkdrain.harness.record_state import RecordPlace, RecordTimer, layout_for
from sparkdrain.harness.round_state import RoundTimer
from sparkdrain.harness.sampling import size_sampler
from timers_state import Domain

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.dofn import DoFnHandle
    from sparkdrain.harness.operations import SourceOperation
    from sparkdrain.harness.round_state import RoundKeyedState

# What is passed for a marker, as source text.
_ELEMENT = {
    DoFn.KeyParam: "key",
    DoFn.WindowParam: "window",
    DoFn.TimestampParam: "timestamp",
    DoFn.PaneInfoParam: "element.pane_info",
}
_TIMER = {
    DoFn.KeyParam: "key",
    DoFn.WindowParam: "window",
    DoFn.WindowedValueParam: "window",
    DoFn.TimestampParam: "timestamp",
    DoFn.DynamicTimerTagParam: "tag",
}
# Timers are not given these, and keep the marker.
_NOT_FOR_TIMERS = (DoFn.ElementParam, DoFn.PaneInfoParam, DoFn.SideInputParam)
# Many elements share their time with the one before, often that of another key.
_TIMESTAMP = (
    "if element.timestamp_micros != micros:",
    "    micros, timestamp = element.timestamp_micros, element.timestamp",
)
_NUMBERS = itertools.count()


Fire = dict[bytes, "Callable[[Any, Any, Any, Any, str], None]"]


@dataclass(slots=True)
class RecordCalls:
    """The same calls for keys that are kept as records.

    Attributes:
        place: says which record has its turn.
        feed, fire: as those of ``StatefulCalls``.
    """

    place: RecordPlace
    feed: Callable[[Any, list[Any]], None]
    fire: Fire


@dataclass(slots=True)
class StatefulCalls:
    """The calls of one DoFn, for elements of one key after the other, and for its timers.

    Attributes:
        feed: ``feed(key, elements)``: processes windowed values, whose own values have no key.
        fire: by family: ``fire(key, window, timestamp, pane, tag)``.
        event_only: whether all timers fire in event time.
        records: the same for keys that are kept as records; None: none is.
    """

    feed: Callable[[Any, list[Any]], None]
    fire: Fire
    event_only: bool
    records: RecordCalls | None
    _operation: Any
    _firing: Any
    _source: Any
    _sample: Callable[[Any, Any], None] | None

    def processing(self) -> Any:
        """While the DoFn gets elements, its step is at work."""
        return self._operation.scoped_process_state

    def firing(self) -> Any:
        """The same for timers."""
        return self._firing

    def fed(self, count: int, key: Any, last: Any | None) -> None:
        """Count elements that were fed in a round, of which one may be shown."""
        self._source.receivers[0].opcounter.element_counter.update(count)
        if self._sample is not None and last is not None:
            self._sample((key, last.value), last)

    def reraise(self, error: Exception) -> NoReturn:
        """Name the step in an error of user code as Beam does, once."""
        if getattr(error, "_tagged_with_step", False):
            raise error
        annotation = f" [while running '{self._operation.name_context.logging_name()}']"
        new: Any
        try:
            new = type(error)(error.args[0] + annotation, *error.args[1:])
            new._tagged_with_step = True  # noqa: SLF001
        except Exception:  # noqa: BLE001 - user exceptions may be made in any way
            text = traceback.format_exception_only(type(error), error)[-1].strip()
            new = RuntimeError(text + annotation)
            new._tagged_with_step = True  # noqa: SLF001
        raise new.with_traceback(sys.exc_info()[2])


def stateful_calls(
    source: SourceOperation, operation: Any, handle: DoFnHandle, context: RoundKeyedState
) -> StatefulCalls | None:
    """The calls of the DoFn of ``operation``; None if Beam must make them.

    Args:
        source: feeds the operation; Beam must, if it feeds others too.
        operation: set up.
        handle: of the DoFn.
        context: its state.
    """
    if list(source.targets) != [operation] or not _is_plain(handle):
        return None
    signature = common.DoFnSignature(handle.dofn)
    process, timers = signature.process_method, signature.timer_methods
    # Beam passes by position: with an argument that has no default, there is something missing.
    if len(process.args) != len(process.defaults) + 1 or not _are_known(process, _ELEMENT, ()):
        return None
    if not all(_are_known(method, _TIMER, _NOT_FOR_TIMERS) for method in timers.values()):
        return None
    handle_results = _output_handler(operation, handle, process).handle_process_outputs
    event_only = all(TimeDomain.is_event_time(spec.time_domain) for spec in timers)
    feed, fire = _written(context, handle_results, process, timers, None)
    place = _record_place(context, process, timers) if event_only else None
    records = None
    if place is not None:
        records = RecordCalls(place, *_written(context, handle_results, process, timers, place))
    return StatefulCalls(
        feed,
        fire,
        event_only,
        records,
        operation,
        _firing_state(operation),
        source,
        size_sampler(source.receivers[0]),
    )


def _written(
    context: RoundKeyedState,
    handle_results: Callable[..., None],
    process: Any,
    timers: dict[Any, Any],
    place: RecordPlace | None,
) -> tuple[Any, Fire]:
    feed = _Writer(context, handle_results, place).feed(process)
    return feed, {
        spec.name.encode(): _Writer(context, handle_results, place).fire(method)
        for spec, method in timers.items()
    }


def _record_place(
    context: RoundKeyedState, process: Any, timers: dict[Any, Any]
) -> RecordPlace | None:
    """Where the DoFn's records have their turns; None if its keys cannot be records."""
    asked = [default for method in (process, *timers.values()) for default in method.defaults]
    states = {d.state_spec.name: d.state_spec for d in asked if isinstance(d, DoFn.StateParam)}
    families = {spec.name.encode() for spec in timers}
    families |= {d.timer_spec.name.encode() for d in asked if isinstance(d, DoFn.TimerParam)}
    specs = [states[name] for name in sorted(states)]
    layout = layout_for(specs, sorted(families), expires=context.expiry_of is not None)
    return None if layout is None else RecordPlace(context, specs, layout)


def _is_plain(handle: DoFnHandle) -> bool:
    """Whether a DoFn has no side inputs and makes elements, not batches, that nobody checks."""
    dofn = handle.dofn
    if handle.args or handle.kwargs or handle.side_inputs:
        return False
    if isinstance(dofn, (AbstractDoFnWrapper, CallableWrapperDoFn)):
        return False
    if hasattr(dofn, "_runtime_output_constraints") or dofn._process_batch_defined:  # noqa: SLF001
        return False
    return not getattr(dofn.process, "_beam_yields_batches", False)


def _are_known(method: Any, known: dict[Any, str], ignored: tuple[Any, ...]) -> bool:
    for default in method.defaults:
        if isinstance(default, (DoFn.StateParam, DoFn.TimerParam)):
            continue
        try:
            found = default in known or default in ignored
        except TypeError:  # of the user's own, and not hashable
            found = False
        if not found:
            return False
    return True


def _firing_state(operation: Any) -> Any:
    """What Beam's operation has for itself; asked for again, it is the same."""
    return operation.state_sampler.scoped_state(
        operation.name_context, "process-timers", metrics_container=operation.metrics_container
    )


def _output_handler(operation: Any, handle: DoFnHandle, process: Any) -> Any:
    """Beam's, as its runner of DoFns makes it."""
    tags, outputs = operation.spec.output_tags, operation.receivers
    receivers = operations._TaggedReceivers(  # noqa: SLF001 - the same
        operation.counter_factory, operation.name_context.logging_name()
    )
    receivers.update(zip(tags, outputs, strict=True))
    if len(tags) == 1:
        receivers[None] = outputs[0]
    elif "None" in tags:
        receivers[None] = receivers["None"]
    return common._OutputHandler(  # noqa: SLF001 - there is no other way to what it does
        handle.windowing.windowfn,
        receivers[None],
        receivers,
        None,
        None,
        False,
        False,
        check_user_dofn_output=not inspect.isgeneratorfunction(process.method_value),
    )


class _Writer:
    """Writes the function that calls one method."""

    def __init__(
        self,
        context: RoundKeyedState,
        handle_results: Callable[..., None],
        place: RecordPlace | None,
    ) -> None:
        self._context = context
        self._place = place
        self._names: dict[str, Any] = {
            "enter": context.enter if place is None else place.enter,
            "cell": context.cell,
            "RoundTimer": RoundTimer,
            "micros": None,
            "timestamp": None,
            "WindowedValue": WindowedValue,
            "handle_results": handle_results,
        }
        self._on_enter: list[str] = []

    def feed(self, method: Any) -> Any:
        """``feed(key, elements)``, which calls ``process``."""
        at = "timestamp", "element.pane_info"
        arguments = ["(key, element.value)"]
        arguments += [self._argument(default, _ELEMENT, *at) for default in method.defaults]
        asked = " ".join(arguments)
        lines = [
            "def call(key, elements):",
            "    global micros, timestamp",
            "    last = None",
            "    for element in elements:",
            "        windows = element.windows",
            "        if len(windows) != 1:",
            "            for window in windows:",
            "                alone = WindowedValue(element.value, element.timestamp, (window,))",
            "                call(key, (alone,))",
            "            last = None",
            "            continue",
            "        (window,) = windows",
            "        if window is not last:",
            "            place = enter(window, key)",
            *(f"            {line}" for line in self._on_enter),
            "            last = window",
            *([f"        {line}" for line in _TIMESTAMP] if "timestamp" in asked else []),
            f"        results = method({', '.join(arguments)})",
            "        if results is not None:",
            "            handle_results(element, results)",
        ]
        return self._made(lines, method)

    def fire(self, method: Any) -> Any:
        """``fire(key, window, timestamp, pane, tag)``, which calls the method of a timer."""
        defaults = method.defaults
        names = method.args[len(method.args) - len(defaults) :]
        arguments = [
            f"{name}={self._argument(default, _TIMER, 'timestamp', 'pane')}"
            for name, default in zip(names, defaults, strict=True)
            if default not in _NOT_FOR_TIMERS
        ]
        asks = any(isinstance(default, (DoFn.StateParam, DoFn.TimerParam)) for default in defaults)
        enters = self._place is None and asks
        lines = [
            "def call(key, window, timestamp, pane, tag):",
            *(["    place = enter(window, key)"] if enters else []),
            *(f"    {line}" for line in self._on_enter),
            f"    results = method({', '.join(arguments)})",
            "    if results is not None:",
            "        handle_results(WindowedValue(None, timestamp, (window,)), results)",
        ]
        return self._made(lines, method)

    def _argument(self, default: Any, known: dict[Any, str], timestamp: str, pane: str) -> str:
        """What is passed for a marker."""
        number = len(self._names)
        if self._place is not None:
            made = self._of_place(default, self._place, pane, f"kept{number}")
            if made is not None:
                return made
        if isinstance(default, DoFn.StateParam):
            self._names[f"spec{number}"] = default.state_spec
            self._on_enter.append(f"state{number} = cell(place, spec{number})")
            return f"state{number}"
        if isinstance(default, DoFn.TimerParam):
            family, domain = self._context.family(default.timer_spec)
            self._names[f"family{number}"] = family
            self._names[f"domain{number}"] = domain
            if domain is Domain.PROCESSING:
                return f"RoundTimer(place, family{number}, domain{number}, {timestamp}, {pane})"
            # Nobody asks an event-time timer when it was set: one serves for a whole turn.
            made = f"RoundTimer(place, family{number}, domain{number}, None, None)"
            self._on_enter.append(f"timer{number} = {made}")
            return f"timer{number}.set_in({pane})"
        return known[default]

    def _of_place(self, default: Any, place: RecordPlace, pane: str, name: str) -> str | None:
        """The same for what a place has, which is always the same object."""
        if isinstance(default, DoFn.StateParam):
            self._names[name] = place.cells[default.state_spec.name]
            return name
        if isinstance(default, DoFn.TimerParam):
            self._names[name] = RecordTimer(place, default.timer_spec.name.encode())
            return f"{name}.set_in({pane})"
        return None

    def _made(self, lines: list[str], method: Any) -> Any:
        self._names["method"] = method.method_value
        filename = f"<calls of a stateful DoFn {next(_NUMBERS)}>"
        exec(compile("\n".join(lines), filename, "exec"), self._names)  # noqa: S102 - our own
        return self._names["call"]
