"""What coordination costs: requests and CPU time of drivers that stand by, and who has which slot.

Run: ``python -m benchmarks.coordination [--store ADDRESS] [--lease 3] [--seconds 30]``, on Linux,
without Spark. The store is a file in a temporary folder if none is given. First one driver leads,
alone in this process, and then another one waits beside it. Printed are their requests to the store
in the time of a lease, and the CPU time of the leader as a share of one core: the job can lose no
more than that. Then slots are assigned to a thousand executors, of which a seventh is lost. The
exit code is 1 if an aim is not met.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import sys
import tempfile
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sparkdrain.coordination.address import StoreAddress
from sparkdrain.coordination.assignment import assign
from sparkdrain.coordination.stores import STORES
from sparkdrain.errors import Cancelled
from sparkdrain.standby.leadership import Contender
from sparkdrain.standby.standby import DriverEnd, Standby
from sparkdrain.types import CancelToken

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkdrain.coordination.metadata import MetadataStore

AIM_SHARE: Final = 0.01
"""Of one core."""
AIM_SECONDS: Final = 0.1
"""To assign a thousand slots to a thousand executors."""
EXECUTORS: Final = 1000
TIMES: Final = 9


class Counted:
    """A store that counts what is asked of it."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.requests = 0

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._store, name)
        if name not in ("get", "put", "remove", "all"):
            return asked

        def ask(*arguments: Any, **named: Any) -> Any:
            self.requests += 1
            return asked(*arguments, **named)

        return ask


class Ready(Contender):
    number = 0

    def check(self) -> None:
        pass

    def shares(self, epoch: int) -> bool:
        return bool(epoch)


class Home(NamedTuple):
    """An executor."""

    location: str
    name: str


def driver(address: StoreAddress, owner: str, lease: float) -> tuple[Standby, Counted]:
    """One that stands by for a job that only this program knows."""
    store = Counted(STORES.open(address))
    warn = partial(print, file=sys.stderr)
    standby: Any = Standby(store, "benchmark", owner, lease, 3, lambda text: None, warn)  # type: ignore[arg-type]
    return standby, store


class Measured(NamedTuple):
    """What drivers cost.

    Attributes:
        leads: requests of the leader in the time of a lease.
        waits: requests of a driver that waits, in the same time.
        share: CPU time of the leader, of one core.
    """

    leads: float
    waits: float
    share: float


def lead_and_wait(address: StoreAddress, lease: float, seconds: float) -> Measured:
    """Let one driver lead, alone in this process, and then another one wait."""
    first, of_first = driver(address, "leads", lease)
    stop = CancelToken()
    first.wait(Ready(), stop)
    first.took(1)
    with first.lead(stop):
        before, began, used = of_first.requests, time.monotonic(), time.process_time()
        time.sleep(seconds)
        share = (time.process_time() - used) / (time.monotonic() - began)
        leads = (of_first.requests - before) / seconds * lease
        second, of_second = driver(address, "waits", lease)
        waiting = threading.Thread(target=_wait, args=(second, stop))
        waiting.start()
        time.sleep(lease)  # what it asks once
        before = of_second.requests
        time.sleep(seconds)
        waits = (of_second.requests - before) / seconds * lease
        stop.cancel()
        waiting.join()
    second.close(DriverEnd("STOPPED"))
    first.close(DriverEnd("DONE"))
    return Measured(leads, waits, share)


def _wait(standby: Standby, stop: CancelToken) -> None:
    with contextlib.suppress(Cancelled):
        standby.wait(Ready(), stop)


def assigned(slots: int, copies: int) -> float:
    """Median CPU seconds to assign slots when executors are lost; each has so many copies."""
    homes = [Home(f"host{number // 4}", f"{number:04d}") for number in range(EXECUTORS)]
    placed = assign(range(slots), {}, homes)
    alive = [home for number, home in enumerate(homes) if number % 7]
    chance = random.Random(1)
    held: dict[int, Mapping[str, int]] = {}
    if copies:
        held = {slot: _copies(home, copies, chance) for slot, home in placed.items()}
    took = []
    for _ in range(TIMES):
        began = time.process_time()  # of a busy machine, too
        assign(range(slots), placed, alive, held)
        took.append(time.process_time() - began)
    return statistics.median(took)


def _copies(home: Home, copies: int, chance: random.Random) -> dict[str, int]:
    size = chance.randint(1, 10**9)
    others = [f"host{chance.randrange(EXECUTORS // 4)}" for _ in range(copies)]
    return dict.fromkeys([home.location, *others], size)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coordination")
    parser.add_argument("--store", help="address of a metadata store, as of --metadata_store")
    parser.add_argument("--lease", type=float, default=3.0, help="seconds (3)")
    parser.add_argument("--seconds", type=float, default=30.0, help="for each driver (30)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="coordination-") as folder:
        text = given.store or f"file:{folder}/store"
        address = StoreAddress(*text.split(":", 1))
        found = lead_and_wait(address, given.lease, given.seconds)
    print(f"in the time of a lease, {given.lease:g} s, on {address.kind}:")
    print(f"  the leader asks the store {found.leads:.1f} times, one that waits {found.waits:.1f}")
    is_met = found.share < AIM_SHARE
    print(f"  the leader takes {found.share:.3%} of a core (below {AIM_SHARE:.0%}: {_met(is_met)})")
    for slots, copies in ((1000, 0), (1000, 2), (10_000, 0), (10_000, 2)):
        seconds = assigned(slots, copies)
        aim = ""
        if slots == EXECUTORS:
            is_met = is_met and seconds < AIM_SECONDS
            aim = f" (below {1000 * AIM_SECONDS:.0f} ms: {_met(seconds < AIM_SECONDS)})"
        known = f", files on {copies + 1} hosts each" if copies else ""
        print(f"{slots:,} slots, {EXECUTORS:,} executors{known}: {1000 * seconds:.1f} ms{aim}")
    sys.exit(not is_met)


def _met(is_met: bool) -> str:
    return "met" if is_met else "NOT MET"


if __name__ == "__main__":
    main()
