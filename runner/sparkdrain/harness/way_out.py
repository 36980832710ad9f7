"""The way out for results of user code, for callers that take Beam's place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkdrain.harness.beam import common, operations
from sparkdrain.harness.compiled.gathering import Gathering

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.compiled.chain import LazyChain
    from sparkdrain.harness.dofn import DoFnHandle


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
