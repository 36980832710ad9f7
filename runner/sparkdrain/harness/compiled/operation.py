"""A compiled chain as an operation among Beam's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkdrain.harness.beam import operations
from sparkdrain.harness.compiled.chain import LazyChain

if TYPE_CHECKING:
    from sparkdrain.harness.compiled.steps import Step


class CompiledOperation(operations.Operation):
    """Does what the operation of its first step and all behind it would do.

    Only producers see it. Life cycle and metrics stay with the operations it stands for, which
    also run what a chain does not: tagged results, and what DoFns yield when a bundle ends.
    """

    def __init__(self, step: Step, factory: Any) -> None:
        operation = step.operation
        super().__init__(
            operation.name_context, None, factory.counter_factory, factory.state_sampler
        )
        self._chain = LazyChain(step, factory)
        self._state = operation.scoped_process_state
        self._context: Any = None

    def process(self, windowed_value: Any) -> None:
        """Process one element."""
        context = self._context
        if (
            context is None
            or context.timestamp_micros != windowed_value.timestamp_micros
            or context.windows is not windowed_value.windows
            or context.pane_info is not windowed_value.pane_info
        ):
            self._context = context = windowed_value
        chain = self._chain
        try:
            with self._state:
                chain.run((windowed_value.value,), context)
        except BaseException as error:  # noqa: BLE001 - raised again, with the step's name
            chain.reraise(error)

    def process_values(self, values: Any, context: Any) -> None:
        """Process elements that share a context."""
        chain = self._chain
        try:
            with self._state:
                chain.run(values, context)
        except BaseException as error:  # noqa: BLE001 - raised again, with the step's name
            chain.reraise(error)
