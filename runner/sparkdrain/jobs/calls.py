"""What a client and the service of this package tell each other beside Beam's Job API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from sparkdrain.jobs.failures import as_exception

if TYPE_CHECKING:
    import grpc

ERROR_KIND_KEY: Final = "sparkdrain-error"
"""In trailing metadata: the name of the type of an error."""

DRY_RUN_KEY: Final = "sparkdrain-dry-run"
"""In the metadata of GetJobMetrics: what would a drain find? In its trailing metadata: that."""

LEAVE_KEY: Final = "sparkdrain-leave"
"""In the metadata of Cancel: only this driver is to stop, and others may go on with the job."""


def raise_ours(error: grpc.RpcError) -> NoReturn:
    """Raise the error that the service has raised; or ``error`` itself if it was no such one."""
    kinds = dict(error.trailing_metadata() or ())
    if ERROR_KIND_KEY not in kinds:
        raise error
    raise as_exception(kinds[ERROR_KIND_KEY], error.details()) from None
