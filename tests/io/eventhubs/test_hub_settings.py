"""A hub is named once, the account too, and no secret shows."""

from __future__ import annotations

import pickle

import pytest
from apache_beam.coders import registry

from sparkdrain import redaction
from sparkdrain.errors import BadOption, BadSetup
from sparkdrain.io.eventhubs import HubEvent, OutgoingEvent, ReadFromEventHubs, WriteToEventHubs
from sparkdrain.io.eventhubs.errors import EventHubsWriteFailed
from sparkdrain.io.eventhubs.service import HubService
from sparkdrain.io.eventhubs.settings import CONNECTION_STRING, hub_settings
from sparkdrain.io.eventhubs.write import SendEvents

KEY = "the-key-of-the-account"
SECRET = f"Endpoint=sb://mine.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey={KEY}="


def test_the_environment_tells_the_account_if_the_program_does_not():
    there = hub_settings("h", None, None, environ={CONNECTION_STRING: SECRET})
    assert there.connection_string == SECRET
    assert there.where == "hub 'h' at mine.servicebus.windows.net"


def test_the_connection_string_of_a_hub_names_it():
    assert hub_settings(None, f"{SECRET};EntityPath=h", None).hub == "h"


@pytest.mark.parametrize(
    ("hub", "secret", "namespace", "why"),
    [
        (None, SECRET, None, "hub= is missing"),
        ("other", f"{SECRET};EntityPath=h", None, "is of 'h'"),
        ("h", "", None, "no account"),
        ("h", "nonsense", None, "no Endpoint"),
        ("h", SECRET, "n.servicebus.windows.net", "two ways to say the same"),
        (None, None, "n.servicebus.windows.net", "needs hub="),
    ],
)
def test_what_says_too_little_or_contradicts_itself_is_refused(hub, secret, namespace, why):
    with pytest.raises(BadOption, match=why) as raised:
        hub_settings(hub, secret, namespace, environ={})
    assert KEY not in str(raised.value)


def test_no_secret_shows_also_in_another_process():
    there = pickle.loads(pickle.dumps(hub_settings("h", SECRET, None)))
    assert KEY not in repr(there)
    assert KEY not in redaction.redact(f"could not connect with {KEY}=")
    assert KEY not in redaction.redact(f"could not connect with {SECRET}")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"start": "committed"}, "keeps no positions"),
        ({"stop": "earliest"}, "is no end"),
        ({"on_lost": "ignore"}, "neither"),
        ({"discover_every": 0}, "no number of seconds"),
        ({"consumer_group": ""}, "consumer_group is empty"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(arguments, why):
    with pytest.raises(BadOption, match=why):
        ReadFromEventHubs("h", connection_string=SECRET, **arguments)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "azure.eventhub", None)
    for module in ("client", "connections", "follower", "outgoing", "events_reader"):
        monkeypatch.delitem(
            __import__("sys").modules, f"sparkdrain.io.eventhubs.{module}", raising=False
        )
    with pytest.raises(BadSetup, match=r"spark-drain-runner\[eventhubs\]"):
        HubService(hub_settings("h", SECRET, None)).open_client()


@pytest.mark.parametrize(
    ("element", "why"),
    [
        ("no pair at all", "takes pairs"),
        ((None, "text"), "is str, not bytes"),
        ((7, b""), "partition key 7 is int"),
        ((b"\xff", b""), "not UTF-8"),
        (("k" * 129, b""), "128 characters at most"),
        (OutgoingEvent(b"", "key", 1), "a key and a partition"),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(element, why):
    with pytest.raises(EventHubsWriteFailed, match=why):
        SendEvents(hub_settings("h", SECRET, None), None)._event(element)


@pytest.mark.parametrize(
    "event",
    [
        HubEvent("h", 1, 7, 1000, None, b"body", (("name", b"x"), ("none", None))),
        OutgoingEvent({"any": "value"}, "key", None, ()),
    ],
)
def test_events_come_through_a_shuffle_as_they_are(event):
    coder = registry.get_coder(type(event))
    found = coder.decode(coder.encode(event))
    assert (type(found), found) == (type(event), event)


def test_a_transform_can_be_made_without_a_connection():
    WriteToEventHubs("h", connection_string=SECRET)
