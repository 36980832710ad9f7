"""A metadata store in a table of an Azure storage account, for all machines that reach it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import string
from typing import TYPE_CHECKING, Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.data.tables import TableServiceClient, UpdateMode
from azure.identity import DefaultAzureCredential
from typing_extensions import override

from sparkdrain import redaction
from sparkdrain.coordination import backend
from sparkdrain.coordination.large_values import LargeValues
from sparkdrain.coordination.metadata import (
    ABSENT,
    ANY,
    Handle,
    Keys,
    MetadataStore,
    OnCorrupt,
    StoreDown,
    Versioned,
    fail,
)
from sparkdrain.coordination.timed_store import TimedStore
from sparkdrain.errors import BadSetup

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONNECTION_STRING: Final = "AZURE_STORAGE_CONNECTION_STRING"
"""The environment variable with the account's connection string; its key is a secret."""

ACCOUNT: Final = "AZURE_STORAGE_ACCOUNT"
"""The environment variable with the account's name, for who has an identity instead of a key."""

_ANSWER_SECONDS: Final = 15.0
_PATIENCE: Final[dict[str, Any]] = {
    "retry_total": 2,
    "retry_backoff_factor": 0.2,
    "connection_timeout": 3,
    "read_timeout": 5,
}
_PROPERTY_BYTES: Final = 64 * 1024
_PROPERTIES: Final = 8
_LIMIT: Final = _PROPERTY_BYTES * _PROPERTIES
"""Bytes of a record's value. Azure takes 64 KiB in a property, and 1 MiB in an entity."""

_CONTAINER: Final = re.compile(r"[a-z0-9](-?[a-z0-9]){2,62}")
_PLAIN: Final = frozenset(string.ascii_letters + string.digits + "-.")
_LONGEST_SHOWN: Final = 400
_NOT_FOUND: Final = 404
_REFUSED: Final = frozenset({401, 403})
_LAST: Final = "~"
"""A character that sorts after every character of a row's name."""


class Backend(backend.Backend):
    """See ``coordination.backend.Backend``. A place has the form of a container's name."""

    @override
    def place(self, text: str) -> str:
        if not _CONTAINER.fullmatch(text) or len(text) > 63:
            message = (
                "it is no name. It has 3 to 63 of a-z, 0-9 and '-', as a container has; the "
                f"account is told by {CONNECTION_STRING} or {ACCOUNT} in the environment."
            )
            raise ValueError(message)
        return text

    @override
    def open(self, place: str) -> MetadataStore:
        store = LargeValues(AzureStore(place, os.environ), _LIMIT)
        return TimedStore(store, f"azure:{place}", _ANSWER_SECONDS)


class AzureStore(MetadataStore):
    """See ``MetadataStore``; a value has at most ``_LIMIT`` bytes.

    A record is an entity: its partition is the namespace, its version is the ETag that the service
    gives to each write. No clock but the service's counts.
    """

    def __init__(self, place: str, environ: Mapping[str, str]) -> None:
        """Connect, and make the table if it is not there.

        Args:
            place: as ``Backend.place`` gives it.
            environ: has ``CONNECTION_STRING``, or ``ACCOUNT`` for an identity.

        Raises:
            BadSetup: the account is not told, does not answer, or refuses; says which.
        """
        self._handle = Handle(f"The metadata store azure:{place}")
        self._service = _service(place, environ)
        try:
            with self._telling():
                self._table = self._service.create_table_if_not_exists(table_name(place))
        except StoreDown as error:
            self._service.close()
            raise BadSetup(str(error)) from error

    @override
    def get(self, namespace: str, key: str) -> Versioned | None:
        self._handle.check(namespace, key)
        with self._telling():
            try:
                return _versioned(self._table.get_entity(namespace, row_name(key)))
            except ResourceNotFoundError:
                return None

    @override
    def put(self, namespace: str, key: str, value: bytes, version: str = ANY) -> str | None:
        self._handle.check(namespace, key)
        if not _is_possible(version):
            return None
        entity = _entity(namespace, key, value)
        with self._telling():
            try:
                if version == ABSENT:
                    return str(self._table.create_entity(entity)["etag"])
                if version == ANY:
                    return str(self._table.upsert_entity(entity, UpdateMode.REPLACE)["etag"])
                answer = self._table.update_entity(
                    entity,
                    UpdateMode.REPLACE,
                    etag=version,
                    match_condition=MatchConditions.IfNotModified,
                )
                return str(answer["etag"])
            except (ResourceExistsError, ResourceModifiedError, ResourceNotFoundError):
                return self._version_of_mine(entity)

    @override
    def remove(self, namespace: str, key: str, version: str = ANY) -> bool:
        self._handle.check(namespace, key)
        if version == ABSENT:
            return self.get(namespace, key) is None
        if not _is_possible(version):
            return False
        condition: dict[str, Any] = {}
        if version != ANY:
            condition = {"etag": version, "match_condition": MatchConditions.IfNotModified}
        # The client hides that there was no such entity.
        statuses: list[int] = []
        with self._telling():
            try:
                self._table.delete_entity(
                    namespace,
                    row_name(key),
                    retry_total=0,  # of two tries, the second could not tell who has removed it
                    raw_response_hook=lambda told: statuses.append(told.http_response.status_code),
                    **condition,
                )
            except ResourceModifiedError:
                return False
        return version == ANY or _NOT_FOUND not in statuses

    @override
    def all(
        self, namespace: str, on_corrupt: OnCorrupt = fail, without: Keys = (), prefix: str = ""
    ) -> dict[str, Versioned]:
        self._handle.check(namespace)
        wanted = "PartitionKey eq @space and RowKey ge @begin and RowKey lt @end"
        begin = _escaped(prefix)[:_LONGEST_SHOWN]
        values = {"space": namespace, "begin": begin, "end": begin + _LAST}
        records = {}
        with self._telling():
            for entity in self._table.query_entities(wanted, parameters=values):
                key = entity["key"].decode()
                if key.startswith(prefix) and key not in without:
                    records[key] = _versioned(entity)
        return records

    @override
    def close(self) -> None:
        if self._handle.close():
            self._service.close()

    def _version_of_mine(self, entity: dict[str, Any]) -> str | None:
        """The version of an entity, if this very write has put it.

        The client repeats a write whose answer was lost, and hears that the entity has changed.
        """
        try:
            there = self._table.get_entity(entity["PartitionKey"], entity["RowKey"])
        except ResourceNotFoundError:
            return None
        return _etag(there) if there.get("write") == entity["write"] else None

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Tells of errors without their text, which may show what a request was signed with."""
        where = self._handle.store
        try:
            yield
        except (ResourceExistsError, ResourceModifiedError, ResourceNotFoundError):
            raise
        except (ServiceRequestError, ServiceResponseError) as error:
            message = (
                f"{where} cannot be reached now ({type(error).__name__}); what was asked may or "
                f"may not have been done. See that the endpoint in {CONNECTION_STRING} or the name "
                f"in {ACCOUNT} is right."
            )
            raise StoreDown(message) from None
        except HttpResponseError as error:
            if isinstance(error, ClientAuthenticationError) or error.status_code in _REFUSED:
                message = (
                    f"{where} refuses this user (status {error.status_code}): give the account's "
                    f"key by {CONNECTION_STRING}, or let the identity read and write its tables."
                )
            else:
                code = getattr(getattr(error, "error_code", None), "value", error.reason)
                message = f"{where} cannot be used now: status {error.status_code}, {code}."
            raise StoreDown(message) from None


def table_name(place: str) -> str:
    """A table's name, which has letters and digits only; different places have different ones."""
    if place.isalnum() and place[0].isalpha():
        return place
    digest = hashlib.sha256(place.encode()).hexdigest()[:16]
    return f"t{place.replace('-', '')[:46]}{digest}"


def row_name(key: str) -> str:
    """A row's name: that of a long key ends with a digest."""
    name = _escaped(key)
    if len(name) <= _LONGEST_SHOWN:
        return name
    # No escaped byte has an h.
    return f"{name[:_LONGEST_SHOWN]}_h{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def _escaped(key: str) -> str:
    return "".join(
        each if each in _PLAIN else "".join(f"_{byte:02X}" for byte in each.encode())
        for each in key
    )


def _entity(namespace: str, key: str, value: bytes) -> dict[str, Any]:
    chunks = range(0, len(value), _PROPERTY_BYTES)
    return {
        "PartitionKey": namespace,
        "RowKey": row_name(key),
        "key": key.encode(),
        "write": secrets.token_hex(8),
        "chunks": len(chunks),
        **{
            f"value{number}": bytes(value[begin : begin + _PROPERTY_BYTES])
            for number, begin in enumerate(chunks)
        },
    }


def _versioned(entity: Any) -> Versioned:
    value = b"".join(entity[f"value{number}"] for number in range(entity["chunks"]))
    return Versioned(value, _etag(entity))


def _is_possible(version: str) -> bool:
    # The service takes nothing else for an ETag, and fails.
    return version in {ANY, ABSENT} or version.startswith('W/"')


def _etag(entity: Any) -> str:
    return str(entity.metadata["etag"])


def _secrets(connection_string: str) -> list[str]:
    pairs = (part.partition("=") for part in connection_string.split(";"))
    return [value for name, _, value in pairs if name in {"AccountKey", "SharedAccessSignature"}]


def _service(place: str, environ: Mapping[str, str]) -> TableServiceClient:
    if secret := environ.get(CONNECTION_STRING):
        redaction.remember([secret, *_secrets(secret)], "connection_string")
        try:
            return TableServiceClient.from_connection_string(secret, **_PATIENCE)
        except ValueError:
            message = (
                f"--metadata_store=azure:{place}: {CONNECTION_STRING} is no connection string of a "
                "storage account. Copy it from the account's page of access keys."
            )
            raise BadSetup(message) from None
    if account := environ.get(ACCOUNT):
        endpoint = f"https://{account}.table.core.windows.net"
        return TableServiceClient(endpoint, credential=DefaultAzureCredential(), **_PATIENCE)
    message = (
        f"--metadata_store=azure:{place} needs an account: set {CONNECTION_STRING}, or {ACCOUNT} "
        "for who has an identity."
    )
    raise BadSetup(message)
