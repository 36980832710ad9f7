"""How a hub is reached."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sparkdrain import redaction
from sparkdrain.errors import BadOption

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


CONNECTION_STRING: Final = "AZURE_EVENTHUB_CONNECTION_STRING"
"""The environment variable with the connection string of a namespace or hub; it has a secret."""

_KEYS: Final = frozenset({"sharedaccesskey", "sharedaccesssignature"})


@dataclass(frozen=True)
class HubSettings:
    """How a hub is reached; the secret never shows.

    Attributes:
        connection_string: the string that Azure shows for the namespace or the hub; empty with
            ``namespace``.
        namespace: ``NAME.servicebus.windows.net``, for who has an identity; else empty.
        consumer_group: whose events are read; each group may have five readers of a partition.
        websockets: whether AMQP goes through port 443, where 5671 is closed.
    """

    hub: str
    connection_string: str = field(default="", repr=False)
    namespace: str = ""
    consumer_group: str = "$Default"
    websockets: bool = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def __post_init__(self) -> None:
        if self.connection_string:
            pairs = _parts(self.connection_string)
            secret = [value for name, value in pairs.items() if name in _KEYS]
            redaction.remember([self.connection_string, *secret], "connection_string")

    @property
    def where(self) -> str:
        """Hub and namespace, for messages."""
        endpoint = _parts(self.connection_string).get("endpoint", self.namespace)
        return f"hub {self.hub!r} at {endpoint.removeprefix('sb://').rstrip('/')}"


def hub_settings(
    hub: str | None,
    connection_string: str | None,
    namespace: str | None,
    *,
    consumer_group: str = "$Default",
    websockets: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> HubSettings:
    """Settings as a user gave them.

    Args:
        hub: its name; None for the one that the connection string names (``EntityPath``).
        connection_string: None for what ``CONNECTION_STRING`` in the environment says.
        namespace: instead of a connection string, for who has an identity.
        consumer_group: as in ``HubSettings``.
        websockets: as in ``HubSettings``.
        environ: the variables of the process that makes the pipeline.

    Raises:
        BadOption: they contradict each other, or say too little.
    """
    if namespace and connection_string:
        msg = "connection_string and namespace are two ways to say the same: give one of them"
        raise BadOption(msg)
    if not consumer_group:
        msg = "consumer_group is empty: name one, or leave it out for '$Default'"
        raise BadOption(msg)
    if namespace:
        if not hub:
            msg = "namespace= needs hub=, the name of the event hub"
            raise BadOption(msg)
        return HubSettings(hub, "", namespace, consumer_group, websockets)
    secret = connection_string or environ.get(CONNECTION_STRING, "")
    if not secret:
        msg = (
            "no account: pass connection_string=, or set "
            f"{CONNECTION_STRING}, or pass namespace= for who has an identity"
        )
        raise BadOption(msg)
    redaction.remember([secret], "connection_string")
    parts = _parts(secret)
    if "endpoint" not in parts:
        msg = (
            "the connection string of Event Hubs has no Endpoint: copy it from the namespace's "
            "page of shared access policies"
        )
        raise BadOption(msg)
    named = parts.get("entitypath")
    if hub and named and hub != named:
        msg = f"hub={hub!r}, but the connection string is of {named!r}: use that of the namespace"
        raise BadOption(msg)
    if not (hub or named):
        msg = "hub= is missing: the connection string is that of a namespace, which has many"
        raise BadOption(msg)
    return HubSettings(hub or named or "", secret, "", consumer_group, websockets)


def _parts(connection_string: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in connection_string.split(";"))
    return {name.strip().lower(): value.strip() for name, _, value in pairs}
