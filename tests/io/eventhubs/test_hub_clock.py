"""The time of a hub is that of its newest event: the service does not tell its own."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import datetime, timezone
from types import SimpleNamespace

import pytest

pytest.importorskip("azure.eventhub", reason="needs the extra eventhubs")

from sparkdrain.io.eventhubs.client import HubCatalog
from sparkdrain.io.kafka.client import ServiceTime

NOW = 1_800_000_000.0


class Consumer:
    """Knows when the newest event of each partition was taken; None for an empty partition."""

    def __init__(self, taken):
        self.taken, self.is_closed = taken, False

    def get_partition_ids(self):
        return [str(number) for number in range(len(self.taken))]

    def get_partition_properties(self, ident):
        taken = self.taken[int(ident)]
        moment = datetime.fromtimestamp(NOW + 999 if taken is None else taken, timezone.utc)
        return {"is_empty": taken is None, "last_enqueued_time_utc": moment}

    def close(self):
        self.is_closed = True


@pytest.mark.parametrize(
    ("taken", "newest"), [([NOW - 9, NOW, None], NOW), ([None, None], None), ([], None)]
)
def test_the_newest_event_of_all_partitions_counts(taken, newest):
    consumer, settings = Consumer(taken), SimpleNamespace(hub="hub", where="hub at service")
    client = SimpleNamespace(consumer=lambda: consumer, telling=nullcontext, settings=settings)
    clock = HubCatalog(client)
    assert clock.time(["hub"]) == ServiceTime(newest, "hub at service does not tell its time")
    clock.close()
    assert consumer.is_closed
