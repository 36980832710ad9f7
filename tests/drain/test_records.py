from __future__ import annotations

import pytest

from sparkdrain.coordination.backends.file import FileStore
from sparkdrain.coordination.backends.memory import MemoryMetadataStore
from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.records import (
    EXPIRY,
    HEARD,
    NAMESPACE,
    clean_up,
    clean_up_all,
    expire,
    first_for,
    first_heard,
    read,
    write,
)

OLD, NEW, OTHER = (
    DrainNotification.create("mine", 1),
    DrainNotification.create("mine", 2),
    DrainNotification.create("other", 0),
)


@pytest.fixture
def store():
    return MemoryMetadataStore()


def refuse(error) -> None:
    raise error


def test_what_was_written_is_read_the_oldest_first(store):
    for notification in (NEW, OTHER, OLD):
        write(store, notification)
    assert read(store, refuse) == [OTHER, OLD, NEW]


def test_of_several_for_one_run_the_oldest_counts_and_those_of_others_do_not():
    assert first_for("mine", [NEW, OTHER, OLD]) == OLD
    assert first_for("nobody", [NEW, OTHER, OLD]) is None


def test_one_that_is_written_twice_is_there_once(store):
    write(store, OLD)
    write(store, OLD)
    assert read(store, refuse) == [OLD]


def test_cleaning_up_removes_those_of_the_run_and_of_no_other(store):
    for notification in (OLD, NEW, OTHER):
        write(store, notification)
    store.put(NAMESPACE, "junk", b"junk")
    assert clean_up(store, "mine") == 2
    assert clean_up(store, "mine") == 0
    assert set(store.all(NAMESPACE)) == {str(OTHER.id), "junk"}


def test_when_a_notification_was_heard_first_is_remembered_until_it_is_cleaned_up(store):
    mine, other = DrainNotification.create("mine", 1), DrainNotification.create("other", 2)
    for notification in (mine, other):
        write(store, notification)
        assert first_heard(store, notification, 10) == 10
    assert first_heard(store, mine, 25) == 10
    assert first_heard(store, mine, 5) == 5, "a clock that was set back"
    clean_up(store, "mine")
    assert first_heard(store, mine, 30) == 30
    assert first_heard(store, other, 30) == 10
    clean_up_all(store)
    assert first_heard(store, other, 40) == 40


def test_cleaning_up_all_removes_those_of_every_run_and_what_nobody_can_read(store):
    for notification in (OLD, OTHER):
        write(store, notification)
    store.put(NAMESPACE, "junk", b"junk")
    store.put("another-space", "k", b"1")
    assert clean_up_all(store) == 3
    assert store.all(NAMESPACE) == {}
    assert store.get("another-space", "k").value == b"1"


def test_records_that_are_no_notifications_are_told_of_and_hide_no_other(tmp_path):
    store = FileStore(tmp_path)
    write(store, OLD)
    (good,) = (tmp_path / NAMESPACE).iterdir()
    store.put(NAMESPACE, "junk", b"\xff")
    store.put(NAMESPACE, "a key of its own", NEW.encode())
    store.put(NAMESPACE, "damaged", b"1")
    (damaged,) = (tmp_path / NAMESPACE).glob("damaged*")
    damaged.write_bytes(b"cut")
    heard = []
    assert read(store, heard.append) == [OLD]
    told = "\n".join(map(str, heard))
    assert len(heard) == 3
    assert "is not a drain notification" in told
    assert f"The notification {NEW.id} lies under the key 'a key of its own'" in told
    assert str(damaged) in told
    assert str(good) not in told


def test_old_notifications_expire_with_what_was_noted_of_them_but_not_those_of_the_run(store):
    day = 24 * 3600 * 1_000_000
    now = 10_000 * day
    limit = EXPIRY.days * day
    old, young, own = (
        DrainNotification.create(run_id, now - age)
        for run_id, age in (("old", limit + 1), ("young", limit - 1), ("own", 2 * limit))
    )
    for notification in (old, young, own):
        write(store, notification)
        first_heard(store, notification, now)
    assert expire(store, "own", now) == [old]
    assert read(store, refuse) == [own, young]
    assert set(store.all(HEARD)) == {str(young.id), str(own.id)}
    assert expire(store, "own", now) == []
