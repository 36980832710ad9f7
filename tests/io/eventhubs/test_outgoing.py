"""Events fill batches; each batch has one key or partition, and none is forgotten."""

from __future__ import annotations

import pytest
from azure.eventhub.exceptions import AuthenticationError, ConnectionLostError
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.io.eventhubs.connections import HubConnections
from sparkdrain.io.eventhubs.errors import EventHubsRefused, EventHubsWriteFailed
from sparkdrain.io.eventhubs.outgoing import Outgoing
from sparkdrain.io.eventhubs.settings import hub_settings

SECRET = "Endpoint=sb://mine.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=k="


class FakeBatch:
    """Takes ten bytes."""

    max_size_in_bytes = 10

    def __init__(self, **told):
        self.told = told
        self.events = []

    def __len__(self):
        return len(self.events)

    def add(self, data):
        body = b"".join(data.body)
        if sum(map(len, self.events)) + len(body) > self.max_size_in_bytes:
            raise ValueError
        self.events.append(body)


class FakeProducer:
    def __init__(self, hub):
        self.hub = hub

    def create_batch(self, **told):
        return FakeBatch(**told)

    def send_batch(self, batch):
        if self.hub.error is not None:
            raise self.hub.error
        self.hub.sent.append(batch)

    def close(self):
        self.hub.closed += 1


class FakeHub(HubConnections):
    def __init__(self):
        super().__init__(hub_settings("h", SECRET, None))
        self.sent, self.closed, self.error = [], 0, None

    def producer(self, **extra):
        return FakeProducer(self)


@given(st.lists(st.tuples(st.binary(max_size=10), st.sampled_from([None, "a", "b"]))))
def test_what_was_added_is_sent_once_in_batches_of_one_key(events):
    hub = FakeHub()
    outgoing = Outgoing(hub)
    for value, key in events:
        outgoing.add(value, key, None, ())
    assert outgoing.send() == len(events)
    assert outgoing.send() == 0
    for key in (None, "a", "b"):
        told = {} if key is None else {"partition_key": key}
        found = [body for batch in hub.sent if batch.told == told for body in batch.events]
        assert found == [value for value, of in events if of == key]


def test_many_keys_do_not_fill_the_memory():
    hub = FakeHub()
    outgoing = Outgoing(hub)
    for number in range(200):
        outgoing.add(b"x", f"key-{number}", None, ())
        assert len(outgoing._batches) <= 64
    assert outgoing.send() == 200
    assert len(hub.sent) == 200


def test_an_event_that_is_too_large_is_named_with_its_size():
    outgoing = Outgoing(FakeHub())
    with pytest.raises(EventHubsWriteFailed, match=r"an event of 11 bytes .* \(10 bytes\)"):
        outgoing.add(b"x" * 11, None, None, ())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionLostError("gone"), EventHubsWriteFailed),
        (AuthenticationError("no"), EventHubsRefused),
    ],
)
def test_events_that_were_not_taken_fail_the_bundle(error, kind):
    hub = FakeHub()
    outgoing = Outgoing(hub)
    outgoing.add(b"x", None, None, ())
    hub.error = error
    with pytest.raises(kind, match="hub 'h'"):
        outgoing.send()
    assert hub.closed == 1


def test_a_bundle_that_failed_leaves_nothing_to_the_next():
    hub = FakeHub()
    outgoing = Outgoing(hub)
    outgoing.add(b"x", None, None, ())
    outgoing.forget()
    assert outgoing.send() == 0
    assert not hub.sent
