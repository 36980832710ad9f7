"""A metadata store in ZooKeeper: a node for each record, for all machines that reach it."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL
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
    version_of,
)
from sparkdrain.coordination.timed_store import TimedStore
from sparkdrain.errors import BadSetup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

AUTH: Final = "SPARKDRAIN_ZOOKEEPER_AUTH"
"""The environment variable with ``user:password``, for ZooKeeper's digest scheme."""

_ANSWER_SECONDS: Final = 15.0
_SESSION_SECONDS: Final = 10.0
_LIMIT: Final = 512 * 1024
"""Bytes of a node; ZooKeeper takes requests of less than 1 MiB (``jute.maxbuffer``)."""

_NUMBER_BYTES: Final = 16
_PLACE: Final = re.compile(r"(?P<hosts>[^/@\s]+?:\d+(,[^/@,\s]+?:\d+)*)(?P<root>(/[^/\s]+)*)/?")
_LOST: Final = (
    exceptions.ConnectionLoss,
    exceptions.ConnectionClosedError,
    exceptions.SessionExpiredError,
    exceptions.OperationTimeoutError,
    KazooTimeoutError,
)
_REFUSED: Final = (exceptions.NoAuthError, exceptions.AuthFailedError)
_CHANGED: Final = (
    exceptions.NoNodeError,
    exceptions.BadVersionError,
    exceptions.NodeExistsError,
)


class Backend(backend.Backend):
    """See ``coordination.backend.Backend``. A place is hosts with ports, and a path."""

    @override
    def place(self, text: str) -> str:
        found = _PLACE.fullmatch(text.removeprefix("//"))
        if found is None:
            message = (
                "it does not say where ZooKeeper is. Give HOST:PORT/PATH, with more hosts behind "
                f"commas; a password belongs into {AUTH}."
            )
            raise ValueError(message)
        return f"{found['hosts']}{found['root']}"

    @override
    def prepare(self, place: str, *, group: bool) -> list[str]:
        if _user(os.environ):
            return []
        return [
            f"Everybody who reaches ZooKeeper at {place} may read and change the records there, "
            f"and drain the job: {AUTH} is not set."
        ]

    @override
    def open(self, place: str) -> MetadataStore:
        store = LargeValues(ZooKeeperStore(place, _user(os.environ)), _LIMIT)
        return TimedStore(store, place, _ANSWER_SECONDS)


class ZooKeeperStore(MetadataStore):
    """See ``MetadataStore``; a value has at most ``_LIMIT`` bytes.

    A record is a node ``PATH/NAMESPACE/@KEY``, with the key percent-encoded. ZooKeeper counts the
    changes of a node anew when the node was deleted and made again. So a node's data begins with a
    random number, a child node has that number as its name, and each write checks that the child is
    there. The number and ZooKeeper's count make up the version.
    """

    def __init__(self, place: str, auth: str = "", seconds: float = _ANSWER_SECONDS) -> None:
        """Connect, and make the path if it is not there.

        Args:
            place: as ``Backend.place`` gives it.
            auth: ``user:password``; only this user may read and write what the store makes. Empty:
                everybody may.
            seconds: how long to wait for the connection.

        Raises:
            BadSetup: ZooKeeper does not answer, or refuses; says which.
        """
        hosts, slash, path = place.partition("/")
        self._handle = Handle(f"The metadata store zookeeper:{place}")
        self._root = f"/{path}" if slash else ""
        self._namespaces: set[str] = set()
        self._client: Any = KazooClient(
            hosts=hosts,
            timeout=_SESSION_SECONDS,
            auth_data=[("digest", auth)] if auth else None,
            default_acl=CREATOR_ALL_ACL if auth else None,
            # For ever, and twice in a second: an outage ends the moment the server is back.
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=0.5),
        )
        try:
            # Not `start`, which waits for longer when the server says nothing.
            self._client.start_async().wait(seconds)
            if not self._client.connected:
                raise KazooTimeoutError
            self._client.ensure_path_async(self._root or "/").get(timeout=seconds)
        except BaseException as error:
            # Not waited for: the client waits for a server that says nothing.
            threading.Thread(target=self._stop, name="zookeeper-stop", daemon=True).start()
            if isinstance(error, _REFUSED):
                raise BadSetup(self._refusal(error)) from error
            if isinstance(error, _LOST):
                message = (
                    f"{self._handle.store} does not answer within {seconds:g} s "
                    f"({type(error).__name__}). See that ZooKeeper runs there, and that this "
                    "machine reaches it."
                )
                raise BadSetup(message) from error
            raise

    @override
    def get(self, namespace: str, key: str) -> Versioned | None:
        path = self._path(namespace, key)
        with self._telling():
            try:
                return _versioned(*self._client.get(path))
            except exceptions.NoNodeError:
                return None

    @override
    def put(self, namespace: str, key: str, value: bytes, version: str = ANY) -> str | None:
        while version == ANY:
            found = version_of(self.get(namespace, key))
            written = self.put(namespace, key, value, found)
            if written is not None:
                return written
        path = self._path(namespace, key)
        if version == ABSENT:
            return self._create(namespace, path, value)
        made, _, count = version.partition(".")
        if not count.isdigit():
            return None
        results = self._commit(
            lambda steps: (
                steps.check(f"{path}/{made}", -1),
                steps.set_data(path, bytes.fromhex(made) + value, int(count)),
            )
        )
        return None if results is None else f"{made}.{results[1].version}"

    @override
    def remove(self, namespace: str, key: str, version: str = ANY) -> bool:
        while version == ANY:
            found = version_of(self.get(namespace, key))
            if self.remove(namespace, key, found):
                return True
        if version == ABSENT:
            return self.get(namespace, key) is None
        path = self._path(namespace, key)
        made, _, count = version.partition(".")
        if not count.isdigit():
            return False
        results = self._commit(
            lambda steps: (steps.delete(f"{path}/{made}", -1), steps.delete(path, int(count)))
        )
        return results is not None

    @override
    def all(
        self, namespace: str, on_corrupt: OnCorrupt = fail, without: Keys = (), prefix: str = ""
    ) -> dict[str, Versioned]:
        path = self._path(namespace)
        with self._telling():
            try:
                names = self._client.get_children(path)
            except exceptions.NoNodeError:
                return {}
            left_out = {_name(key) for key in without}
            wanted = [
                name for name in names if name.startswith(_name(prefix)) and name not in left_out
            ]
            # All are asked for before the first answer is waited for.
            asked = [(name, self._client.get_async(f"{path}/{name}")) for name in wanted]
            records = {}
            for name, answer in asked:
                with contextlib.suppress(exceptions.NoNodeError):  # it was removed meanwhile
                    records[unquote(name[1:])] = _versioned(*answer.get())
            return records

    @override
    def close(self) -> None:
        if self._handle.close():
            self._stop()

    def _create(self, namespace: str, path: str, value: bytes) -> str | None:
        made = secrets.token_bytes(_NUMBER_BYTES)
        if namespace not in self._namespaces:
            with self._telling():
                self._client.ensure_path(self._path(namespace))
            self._namespaces.add(namespace)
        results = self._commit(
            lambda steps: (
                steps.create(path, made + value),
                steps.create(f"{path}/{made.hex()}", b""),
            )
        )
        return None if results is None else f"{made.hex()}.0"

    def _commit(self, add: Callable[[Any], object]) -> list[Any] | None:
        """Do steps, all or none; None if the record has another version."""
        with self._telling():
            steps = self._client.transaction()
            add(steps)
            results: list[Any] = steps.commit()
            failed = [each for each in results if isinstance(each, Exception)]
            if any(isinstance(each, _CHANGED) for each in failed):
                return None
            for error in failed:
                if not isinstance(
                    error, (exceptions.RolledBackError, exceptions.RuntimeInconsistency)
                ):
                    raise error
        return results

    def _path(self, namespace: str, key: str | None = None) -> str:
        self._handle.check(namespace, key)
        return f"{self._root}/{namespace}" + ("" if key is None else f"/{_name(key)}")

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except _LOST as error:
            message = (
                f"{self._handle.store} cannot be reached now ({type(error).__name__}); what was "
                "asked may or may not have been done."
            )
            raise StoreDown(message) from error
        except _REFUSED as error:
            raise StoreDown(self._refusal(error)) from error

    def _refusal(self, error: Exception) -> str:
        return (
            f"{self._handle.store} refuses this user ({type(error).__name__}): give a user that "
            f"may read and write there as user:password in the environment variable {AUTH}, or "
            "name another path."
        )

    def _stop(self) -> None:
        self._client.stop()
        self._client.close()


def _user(environ: Mapping[str, str]) -> str:
    """``user:password``; empty if none is given.

    Raises:
        BadSetup: the variable holds something else.
    """
    auth = environ.get(AUTH, "")
    user, colon, password = auth.partition(":")
    redaction.remember(password if colon else auth, "password")
    if auth and not (user and password):
        message = f"{AUTH} does not hold user:password. What it holds is not shown here."
        raise BadSetup(message)
    return auth


def _name(key: str) -> str:
    """The name of a node; the names of keys with the same prefix have the same prefix."""
    return f"@{quote(key, safe='')}"


def _versioned(data: bytes, about: Any) -> Versioned:
    made = data[:_NUMBER_BYTES].hex()
    return Versioned(data[_NUMBER_BYTES:], f"{made}.{about.version}")
