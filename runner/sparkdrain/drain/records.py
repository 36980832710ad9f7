"""Notifications in a metadata store: write, read, and clean up after a drain."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from sparkdrain.coordination.metadata import CorruptRecord, pass_over
from sparkdrain.drain.notification import EPOCH, DrainNotification, UnreadableNotification

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from sparkdrain.coordination.metadata import MetadataStore

NAMESPACE: Final = "sparkdrain-drain-v1"
HEARD: Final = "sparkdrain-drain-heard-v1"
"""When the engine heard of a notification first, by its id: microseconds since 1970, as text."""

EXPIRY: Final = dt.timedelta(days=30)
"""How old a notification is when a run that begins removes it."""

Unreadable = CorruptRecord | UnreadableNotification


def write(store: MetadataStore, notification: DrainNotification) -> None:
    """Write a notification, and return when it survives a crash.

    The run need not have started yet: it looks for notifications before it reads anything. Whether
    there is such a run at all is not asked; ``runs.request`` does that.

    Raises:
        StoreDown: it may or may not have been written.
    """
    store.put(NAMESPACE, str(notification.id), notification.encode())


def read(
    store: MetadataStore,
    on_unreadable: Callable[[Unreadable], object],
    without: Collection[str] = frozenset(),
) -> list[DrainNotification]:
    """All notifications in the store, of whatever run, the oldest first.

    Args:
        on_unreadable: takes the error of each record that is none; others are read all the same.
        without: ids of notifications to leave out. A notification never changes.

    Raises:
        StoreDown: the store cannot be read now.
    """
    found = []
    for key, record in store.all(NAMESPACE, on_unreadable, without).items():
        try:
            notification = DrainNotification.decode(record.value)
            if str(notification.id) != key:
                message = f"The notification {notification.id} lies under the key {key!r}."
                raise UnreadableNotification(message)
        except UnreadableNotification as error:
            on_unreadable(error)
        else:
            found.append(notification)
    return sorted(found, key=_age)


def first_for(run_id: str, notifications: Iterable[DrainNotification]) -> DrainNotification | None:
    """The one that counts for a run: the oldest that names it."""
    return min((each for each in notifications if each.run_id == run_id), key=_age, default=None)


def first_heard(store: MetadataStore, notification: DrainNotification, now: int) -> int:
    """When a run heard of its notification first, in this life of it or another: now, if ever.

    Raises:
        StoreDown: the store cannot be used now.
    """
    key = str(notification.id)
    known = store.get(HEARD, key)
    if known is not None and known.value.isdigit():
        return min(int(known.value), now)
    store.put(HEARD, key, str(now).encode())
    return now


def clean_up(store: MetadataStore, run_id: str) -> int:
    """Remove the notifications of one run; those of others stay, and unreadable ones.

    Returns:
        How many there were.
    """
    own = [each for each in read(store, pass_over) if each.run_id == run_id]
    _remove(store, own)
    return len(own)


def expire(store: MetadataStore, run_id: str, now: int) -> list[DrainNotification]:
    """Remove notifications that are older than 30 days, of all runs but one.

    A run that never ends well leaves them: it failed, and was not taken up again, or a run of that
    id never began.

    Args:
        run_id: whose notifications stay.
        now: microseconds since 1970.

    Returns:
        Those that were removed.
    """
    oldest = EPOCH + dt.timedelta(microseconds=now) - EXPIRY
    gone = [each for each in read(store, pass_over) if each.time < oldest and each.run_id != run_id]
    _remove(store, gone)
    return gone


def clean_up_all(store: MetadataStore) -> int:
    """Remove the notifications of every run, and all records among them that can be read.

    Returns:
        How many there were.
    """
    keys = list(store.all(NAMESPACE, pass_over))
    for key in keys:
        store.remove(NAMESPACE, key)
    for key in store.all(HEARD, pass_over):
        store.remove(HEARD, key)
    return len(keys)


def _remove(store: MetadataStore, notifications: Iterable[DrainNotification]) -> None:
    for notification in notifications:
        store.remove(NAMESPACE, str(notification.id))
        store.remove(HEARD, str(notification.id))


def _age(notification: DrainNotification) -> tuple[object, str]:
    return notification.time, str(notification.id)
