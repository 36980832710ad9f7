from __future__ import annotations

import datetime as dt
import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.drain.notification import DrainMode, DrainNotification, UnreadableNotification
from sparkdrain.errors import BadOption

NOTIFICATION = DrainNotification(
    uuid.UUID("8f0f2a38-0d2c-4b6f-9b5e-6f5f9f3b7a11"),
    "wordcount-7",
    DrainMode.DEFAULT,
    dt.datetime(2026, 11, 21, 17, 30, 0, 5, tzinfo=dt.timezone.utc),
)
RUN_IDS = st.text(min_size=1).filter(lambda text: bool(text.strip()))
TIMES = st.integers(min_value=0, max_value=4_000_000_000_000_000)


@given(RUN_IDS, TIMES)
def test_what_is_written_is_read_back_unchanged(run_id, now):
    notification = DrainNotification.create(run_id, now)
    assert DrainNotification.decode(notification.encode()) == notification


def test_the_written_form_is_this_one():
    # Records of older releases lie in stores: this text may only change with the version.
    assert json.loads(NOTIFICATION.encode()) == {
        "version": 1,
        "uuid": "8f0f2a38-0d2c-4b6f-9b5e-6f5f9f3b7a11",
        "run_id": "wordcount-7",
        "mode": "DEFAULT",
        "time": "2026-11-21T17:30:00.000005+00:00",
    }


def test_two_requests_for_one_run_are_told_apart():
    first, second = DrainNotification.create("r", 1), DrainNotification.create("r", 1)
    assert first.id != second.id


@pytest.mark.parametrize("run_id", ["", " ", "\t\n"])
def test_a_blank_run_id_is_refused(run_id):
    with pytest.raises(BadOption, match="is blank: name the run"):
        DrainNotification.create(run_id, 1)


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(ValueError, match="in UTC"):
        DrainNotification(uuid.uuid4(), "r", DrainMode.DEFAULT, dt.datetime(2026, 1, 1))  # noqa: DTZ001


WITH = {
    "version": "9",
    "uuid": "8F0F2A38-0D2C-4B6F-9B5E-6F5F9F3B7A11",
    "run_id": "  ",
    "mode": "default",
    "time": "2026-11-21T17:30:00",
}


@pytest.mark.parametrize(("field", "value"), [*WITH.items(), *((name, 1.0) for name in WITH)])
def test_a_record_with_one_wrong_field_is_refused(field, value):
    record = json.loads(NOTIFICATION.encode()) | {field: value}
    with pytest.raises(UnreadableNotification):
        DrainNotification.decode(json.dumps(record).encode())


@pytest.mark.parametrize("field", list(WITH))
def test_a_record_that_lacks_a_field_is_refused(field):
    record = json.loads(NOTIFICATION.encode())
    del record[field]
    with pytest.raises(UnreadableNotification, match=field):
        DrainNotification.decode(json.dumps(record).encode())


def test_a_record_of_a_newer_release_with_a_field_more_is_read():
    record = json.loads(NOTIFICATION.encode())
    newer = json.dumps(record | {"colour": "red"}).encode()
    assert DrainNotification.decode(newer) == NOTIFICATION


def test_a_record_with_a_field_twice_is_refused():
    twice = NOTIFICATION.encode().replace(b"{", b'{"mode": "DEFAULT", ', 1)
    with pytest.raises(UnreadableNotification, match="twice"):
        DrainNotification.decode(twice)


def test_an_unknown_version_is_named_before_anything_else():
    with pytest.raises(UnreadableNotification, match="version is 2, and this release knows 1"):
        DrainNotification.decode(b'{"version": 2, "something": "else"}')


@given(
    st.binary()
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_no_other_bytes_do_more_than_be_refused(data):
    with pytest.raises(UnreadableNotification):
        DrainNotification.decode(data)


def test_json_that_is_nested_too_deeply_is_refused():
    with pytest.raises(UnreadableNotification):
        DrainNotification.decode(b"[" * 200_000)
