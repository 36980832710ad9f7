"""Tagged, timestamped and windowed results of user code, taken apart as Beam's operations do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import TimestampedValue, WindowedValue

from sparkdrain.harness.compiled.windowing import WindowAssigner
from sparkdrain.harness.step_name import raise_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.compiled.steps import Step


def main_index(step: Step) -> int | None:
    """Which of a step's receivers is that of its main output."""
    tags = getattr(step.operation.spec, "output_tags", None)
    if tags is None or len(tags) == 1:
        return 0
    return tags.index("None") if "None" in tags else None


def main_receiver(step: Step) -> Any:
    """The receiver of a step's main output, which counts its elements; None: it has none."""
    receivers, index = step.operation.receivers, main_index(step)
    return None if index is None or not receivers else receivers[index]


class Unwrap:
    """Makes value and context of a result of ``step``.

    Args:
        observe: hears of the context of what goes to other outputs, before it goes there.
    """

    def __init__(self, step: Step, observe: Callable[[Any], None] | None = None) -> None:
        operation = step.operation
        self._observe = observe
        self._name = operation.name_context
        self._assign = WindowAssigner(step.windowfn)
        self.is_by_time = self._assign.is_by_time
        """Whether values with the same timestamp, from the same context, get the same one."""
        tags = operation.spec.output_tags
        self._receivers = dict(zip(tags, operation.receivers, strict=False))
        index = main_index(step)
        self._main = None if index is None else tags[index]

    def __call__(self, result: Any, context: Any) -> tuple[Any, Any]:
        """Value and context for the main output, or no context: it went to another output."""
        if type(result) is not TaggedOutput:
            return self._windowed(result, context)
        if not isinstance(result.tag, str):
            msg = f"In a TaggedOutput the tag must be a string, not {type(result.tag)}"
            raise TypeError(msg)
        value, context = self._windowed(result.value, context)
        if result.tag == self._main:
            return value, context
        if self._observe is not None:
            self._observe(context)
        receiver = self._receivers.get(result.tag)
        if receiver is not None:
            receiver.receive(context.with_value(value))
        return None, None

    def at(self, result: TimestampedValue, context: Any) -> Any:
        """The context of a timestamped result."""
        try:
            made = self._assign.at(result.timestamp, result.value)
        except Exception as error:  # noqa: BLE001 - raised again, with the step's name
            raise_named(error, self._name)
        return made if len(context.windows) == 1 else _in_each(made, context)

    def _windowed(self, result: Any, context: Any) -> tuple[Any, Any]:
        if isinstance(result, TimestampedValue):
            return result.value, self.at(result, context)
        if isinstance(result, WindowedValue):
            return result.value, _in_each(result, context)
        return result, context


def _in_each(made: Any, context: Any) -> Any:
    """The context ``made``, as often as ``context`` has windows."""
    times = len(context.windows)
    if times == 1:
        return made
    return WindowedValue(None, made.timestamp, list(made.windows) * times, made.pane_info)
