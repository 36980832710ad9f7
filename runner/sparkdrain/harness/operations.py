"""The operations that stand at the ends of a stage, and what reads a source as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from sparkdrain.harness.beam import common, operations
from sparkdrain.harness.harness import Inlet
from sparkdrain.harness.sampling import SampleSchedule, size_sampler

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sparkdrain.harness.harness import Writer


class SourceOperation(operations.Operation, Inlet):
    """Feeds the elements of an edge (or an impulse) into a stage.

    Attributes:
        targets: the operations that get the elements.
    """

    def __init__(
        self,
        name: common.NameContext,
        counter_factory: Any,
        state_sampler: Any,
        consumers: Sequence[Any],
        coder: Any,
    ) -> None:
        super().__init__(name, None, counter_factory, state_sampler)
        self.targets = list(consumers)
        self._coder = coder
        self._compiled: Any = None
        self._size: Any = None
        self._due = SampleSchedule()

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self.receivers = [
            operations.ConsumerSet.create(
                self.counter_factory,
                self.name_context.step_name,
                0,
                self.targets,
                self._coder,
                None,
                None,
            )
        ]
        self._size = size_sampler(self.receivers[0])
        if len(self.targets) == 1:
            self._compiled = getattr(self.targets[0], "process_values", None)

    @override
    def feed(self, values: list[Any], context: Any) -> None:
        if self._compiled is not None:
            self.receivers[0].opcounter.element_counter.update(len(values))
            if values and self._size is not None and self._due():
                self._size(values[0], context)
            self._compiled(values, context)
            return
        receive = self.receivers[0].receive
        with_value = context.with_value
        for value in values:
            receive(with_value(value))

    @override
    def feed_windowed(self, elements: list[Any]) -> None:
        receive = self.receivers[0].receive
        for element in elements:
            receive(element)

    def fed(self, count: int, key: Any, last: Any) -> None:
        """Count elements that others have fed in its place, and sample the size of the last one.

        Args:
            key: the key of ``last``, which is a windowed value without it.
        """
        self.receivers[0].opcounter.element_counter.update(count)
        if self._size is not None:
            self._size((key, last.value), last)

    @override
    def split(self, keep: float) -> list[Any]:
        split = self.receivers[0].try_split(keep)
        return [residual.residual_value for _, residual in split[1]] if split else []


class SinkOperation(operations.Operation):
    """Hands the elements of a PCollection to the writer of an edge."""

    def __init__(
        self, name: common.NameContext, counter_factory: Any, state_sampler: Any, writer: Writer
    ) -> None:
        super().__init__(name, None, counter_factory, state_sampler)
        self.writer = writer

    def process(self, windowed_value: Any) -> None:
        self.writer.write(windowed_value.value, windowed_value)


class ReadFromImpulse(operations.ImpulseReadOperation):
    """Beam's; its frame on the stack tells the step in an error, which Beam does not do here."""

    def process(self, windowed_value: Any) -> None:
        super().process(windowed_value)


def counted(operation: operations.Operation) -> Iterator[int]:
    """How many elements each output of an operation has had."""
    return (receiver.opcounter.element_counter.value() for receiver in operation.receivers)
