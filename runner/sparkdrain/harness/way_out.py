"""The way out for results of user code, for callers that take Beam's place."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.harness.beam import common, operations
from sparkdrain.harness.compiled.generate import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.compiled.chain import LazyChain
    from sparkdrain.harness.dofn import DoFnHandle

_AT_ONCE: Final = 4096


def way_out(
    operation: Any, handle: DoFnHandle, chain: LazyChain | None, *, checks: bool
) -> tuple[Callable[[Any, Any], None], Callable[[], None]]:
    """What takes the results of a DoFn, and what sees to it that all have left the DoFn.

    Args:
        operation: what runs the DoFn, set up.
        chain: takes the results; None: Beam does, as its runner of DoFns has it.
        checks: whether Beam takes a string or dict instead of an iterable of results for an error.
    """
    if chain is not None:
        gathering = Gathering(chain)
        return gathering.handle_results, gathering.flush
    tags, outputs = operation.spec.output_tags, operation.receivers
    receivers = operations._TaggedReceivers(  # noqa: SLF001 - the same
        operation.counter_factory, operation.name_context.logging_name()
    )
    receivers.update(zip(tags, outputs, strict=True))
    if len(tags) == 1:
        receivers[None] = outputs[0]
    elif "None" in tags:
        receivers[None] = receivers["None"]
    handler = common._OutputHandler(  # noqa: SLF001 - there is no other way to what it does
        handle.windowing.windowfn,
        receivers[None],
        receivers,
        None,
        None,
        False,
        False,
        check_user_dofn_output=checks,
    )
    return handler.handle_process_outputs, _nothing


def _nothing() -> None:
    """Beam's handler keeps no results."""


class Gathering:
    """Gathers results as long as they share time, windows and pane of what they were made of.

    A DoFn is called for one element or timer, and mostly makes one result or none; to run a chain
    costs more than what it does for a result. All results have gone through it after ``flush``.
    """

    def __init__(self, chain: LazyChain) -> None:
        self._chain = chain
        self._values: list[Any] = []
        self._context: Any = None

    def handle_results(self, context: Any, results: Any) -> None:
        """Take what a DoFn has returned for ``context``, an element or the like; not None.

        Raises:
            TypeError: these are no results.
            Exception: what user code raises when it is asked for them, or behind the DoFn.
        """
        known = self._context
        if context is not known and not (
            known is not None
            and known.timestamp_micros == context.timestamp_micros
            and (known.windows is context.windows or known.windows == context.windows)
            and (known.pane_info is context.pane_info or known.pane_info == context.pane_info)
        ):
            self.flush()
            self._context = context
        if type(results) is list and len(results) + len(self._values) < _AT_ONCE:
            self._values += results
            return
        if self._chain.checks_results and isinstance(results, (str, bytes, dict)):
            refuse(results)
        left = iter(results)
        self._values += islice(left, _AT_ONCE)
        while len(self._values) >= _AT_ONCE:
            self.flush()
            self._values += islice(left, _AT_ONCE)

    def flush(self) -> None:
        """Run what was gathered.

        Raises:
            Exception: what user code raises behind the DoFn; it names the step, and has the
                attribute ``is_behind_keys``: it is not known of which key.
        """
        if not self._values:
            return
        values, self._values = self._values, []
        try:
            try:
                self._chain.run(values, self._context)
            except BaseException as error:  # noqa: BLE001 - raised again, with the step's name
                self._chain.reraise(error)
        except BaseException as error:
            error.is_behind_keys = True  # type: ignore[attr-defined]
            raise
