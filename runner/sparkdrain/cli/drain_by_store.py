"""Drains a run through the metadata store that it watches."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import grpc

from sparkdrain.cli import drain_by_service
from sparkdrain.coordination.address import beside, parse
from sparkdrain.coordination.backend import StoreReach
from sparkdrain.coordination.stores import STORES
from sparkdrain.drain import runs
from sparkdrain.errors import BadOption, BadSetup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.coordination.address import StoreAddress
    from sparkdrain.coordination.metadata import MetadataStore

_EVERY_SECONDS: Final = 0.5
_REACH_SECONDS: Final = 2.0


def address_of(metadata_store: str | None, checkpoint_dir: str | None) -> StoreAddress:
    """The store of a run that was given one of these.

    Raises:
        BadOption: there can be no run of another process in it, or there is no such store.
    """
    if metadata_store is not None:
        address, given = parse(metadata_store), f"--metadata_store={metadata_store}"
    else:
        address, given = beside(checkpoint_dir or ""), f"--checkpoint_dir={checkpoint_dir}"
    if STORES.reach(address) is StoreReach.PROCESS:
        message = f"What {given} names is inside of the process that runs the job: ask there."
        raise BadOption(message)
    return address


@contextlib.contextmanager
def opened(address: StoreAddress, *, new: bool) -> Iterator[MetadataStore]:
    """The store at that address.

    Args:
        new: whether it may be begun, if it is not there.

    Raises:
        BadOption: there is no such store.
        BadSetup: it cannot be opened.
    """
    if not new and not STORES.exists(address):
        message = f"There is no metadata store in {address.place}."
        raise BadOption(message)
    with contextlib.closing(STORES.open(address)) as store:
        yield store


def follow(
    store: MetadataStore,
    run_id: str,
    sleep: Callable[[float], object],
    tell: Callable[[str], object],
) -> str:
    """Wait until the run is over; the answer is how it ended.

    Args:
        sleep: waits for so many seconds.
        tell: hears how the drain goes on, if the run's job service is within reach.
    """
    run = runs.find(store, run_id)
    with contextlib.suppress(BadSetup, grpc.RpcError):
        if run.endpoint and not run.is_over:
            with drain_by_service.connected(run.endpoint, _REACH_SECONDS) as service:
                drain_by_service.follow(service, run.job_id, tell)
    while not (run := runs.find(store, run_id)).is_over:
        sleep(_EVERY_SECONDS)
    return run.state


def dry_run(store: MetadataStore, job: str) -> str:
    """What a drain would find; the run's own job service is asked, if it is within reach."""
    run = runs.find(store, job)
    if run.is_over:
        return f"The run {run.run_id} is {run.state}: there is nothing inside."
    with drain_by_service.connected(run.endpoint) as service:
        return drain_by_service.dry_run(service, run.job_id)
