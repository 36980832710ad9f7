"""What a group of a thousand members costs: requests for each heartbeat, and one new assignment.

    python -m benchmarks.membership                              # a store in files
    python -m benchmarks.membership --store zookeeper:host:2181/root

All members are in one process and beat one after the other. Their clock is made, so that none dies
for being slow here. What is measured is real time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING

from sparkdrain.coordination.address import parse
from sparkdrain.coordination.assignment import assign
from sparkdrain.coordination.barrier import BarrierPhase, who_may_join
from sparkdrain.coordination.group_leader import GroupLeader, read_model
from sparkdrain.coordination.group_member import GroupMember, SlotWork
from sparkdrain.coordination.locality import LastHome
from sparkdrain.coordination.membership import Members
from sparkdrain.coordination.metadata import ANY, MetadataStore
from sparkdrain.coordination.stores import STORES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sparkdrain.coordination.metadata import CorruptRecord, Versioned

SLOTS_OF_A_MEMBER = 4
SECONDS = 30.0
BEATS = 3


class Counted(MetadataStore):
    """A store that counts what it is asked for."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.requests: Counter[str] = Counter()

    def get(self, namespace: str, key: str) -> Versioned | None:
        self.requests["get"] += 1
        return self._store.get(namespace, key)

    def put(self, namespace: str, key: str, value: bytes, version: str = ANY) -> str | None:
        self.requests["put"] += 1
        return self._store.put(namespace, key, value, version)

    def remove(self, namespace: str, key: str, version: str = ANY) -> bool:
        self.requests["remove"] += 1
        return self._store.remove(namespace, key, version)

    def all(
        self,
        namespace: str,
        on_corrupt: Callable[[CorruptRecord], object] | None = None,
        without: Collection[str] = frozenset(),
        prefix: str = "",
    ) -> dict[str, Versioned]:
        self.requests["all"] += 1
        return self._store.all(namespace, on_corrupt, without, prefix)

    def flush(self) -> None:
        self._store.flush()

    def close(self) -> None:
        self._store.close()


class NoWork(SlotWork):
    """Members that only count their starts."""

    starts = 0

    def start(self, version: int, slots: frozenset[int]) -> None:
        self.starts += 1

    def stop(self) -> None:
        pass


class Made:
    """A clock that goes on when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="", help="an address; none: files in a new folder")
    parser.add_argument("--members", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Counted(STORES.open(parse(options.store or f"file:{folder}")))
        run(store, options.members)
        store.close()


def run(store: Counted, count: int) -> None:
    """Let a group of so many members come together, and measure it."""
    clock, work = Made(), NoWork()
    group = f"benchmark-{time.time_ns()}"
    members = [
        GroupMember(
            store,
            group,
            f"member{number:04d}",
            f"host{number // 4}",
            work,
            lambda number=number: str(number),
            seconds=SECONDS,
            clock=clock,
        )
        for number in range(count)
    ]
    leader = GroupLeader(
        store,
        group,
        SLOTS_OF_A_MEMBER * count,
        seconds=SECONDS,
        settle=1.0,
        timeout=SECONDS,
        clock=clock,
    )

    def step() -> None:
        clock.now += SECONDS / 12
        for member in members:
            member.step()

    def lead() -> float:
        began = time.perf_counter()
        leader.step(1)
        return time.perf_counter() - began

    began = time.perf_counter()
    longest = 0.0
    while work.starts < count:
        step()
        longest = max(longest, lead())
    print(f"{count} members work after {time.perf_counter() - began:.1f} s of real time")
    print(f"the leader's longest step, with all of its requests: {1000 * longest:.0f} ms")

    store.requests.clear()
    began = time.perf_counter()
    for _ in range(2 * BEATS):
        step()
    seconds = time.perf_counter() - began
    each = {name: number / count / BEATS for name, number in store.requests.items()}
    print(f"requests for each member and heartbeat: {each}")
    print(f"a heartbeat and a look take {1e6 * seconds / BEATS / count:.0f} us")

    store.requests.clear()
    looked = lead()
    print(f"the leader looks at all: {1000 * looked:.0f} ms, {dict(store.requests)}")

    model, seen = read_model(store, group), Members(store, group, clock).look()
    assert model.phase is BarrierPhase.END
    began = time.process_time()
    there = list(who_may_join(model, seen, clock()))[: count - count // 7]
    homes = {name: LastHome(seen[name].record.location, name) for name in there}
    last = {slot: homes.get(name, LastHome("", name)) for slot, name in model.homes.items()}
    placed = assign(range(SLOTS_OF_A_MEMBER * count), last, homes.values())
    seconds = time.process_time() - began
    moved = sum(placed[slot] != last[slot] for slot in placed)
    print(f"a seventh leaves: {1000 * seconds:.1f} ms of a core to assign {len(placed)} slots")
    print(f"{moved} slots move")


if __name__ == "__main__":
    main()
