"""Beam's way for results of user code, for callers that take Beam's place."""

from __future__ import annotations

from typing import Any

from sparkdrain.harness.beam import common, operations


def output_handler(operation: Any, windowfn: Any, *, checks: bool) -> Any:
    """What takes the results of a DoFn, as Beam's runner of DoFns makes it.

    Args:
        operation: what runs the DoFn, set up.
        windowfn: gives windows to results with a timestamp of their own.
        checks: whether a string or dict instead of an iterable of results is an error.
    """
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
        windowfn,
        receivers[None],
        receivers,
        None,
        None,
        False,
        False,
        check_user_dofn_output=checks,
    )
