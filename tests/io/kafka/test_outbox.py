"""What is published follows what the brokers have, or nothing is."""

from __future__ import annotations

from histories import grown
from hypothesis import example, given
from hypothesis import strategies as st

from sparkdrain.io.kafka.note import Note, OwnerStage, Recorded
from sparkdrain.io.kafka.outbox import (
    History,
    NumberedRecords,
    Refusal,
    decide,
    may_begin,
    read_stamp,
)
from sparkdrain.io.kafka.records import ProducerRecord

OWNER, OTHER = b"owner 1.", b"owner 2."
CONTENTS = st.lists(st.integers(0, 1), max_size=6)


def histories(contents, owner=OWNER, begun_at=0):
    """The histories before, between and after these records; and the stamps of the records."""
    found, stamps = [History.begun(begun_at, owner)], []
    for content in contents:
        history, stamp = grown(found[-1], ProducerRecord(None, b"%d" % content))
        found.append(history)
        stamps.append(read_stamp(stamp))
    return found, stamps


def recorded(history, stage=OwnerStage.OPEN):
    return Recorded(history.number, Note(history.owner, history.digest, stage).text())


@given(CONTENTS, CONTENTS, st.integers(0, 5), st.booleans(), st.booleans())
@example([0, 1], [0], 0, True, False)  # the brokers have more than an older checkpoint has
def test_published_and_batch_are_one_history_or_nothing_is_published(
    published, own, first, is_ours, more
):
    there = histories(published, OWNER if is_ours else OTHER)[0][-1]
    stamps = histories(own)[1][first:]
    if not stamps:
        return
    decision = decide(NumberedRecords(first, stamps, more), recorded(there))
    if isinstance(decision, Refusal):
        same = is_ours and own[: len(published)] == published[: len(own)]
        assert not same or len(published) < first or (len(published) > len(own) and not more)
        return
    if len(published) > len(own):
        assert more
        assert not decision
        return
    # All that is there then is what the job has made, once.
    assert published + own[decision.start :] == own
    assert decision.stop == len(own)


@given(CONTENTS, st.integers(0, 6), st.integers(0, 6))
def test_a_bare_number_is_gone_on_from(own, first, number):
    stamps = [None] * len(own[first:])
    if not stamps:
        return
    decision = decide(NumberedRecords(first, stamps), Recorded(number))
    if number < first:
        assert decision is Refusal.GAP
    elif number > len(own):
        assert decision is Refusal.OLDER
    else:
        assert decision == range(number, len(own))


def test_a_job_begins_where_nobody_is_or_who_is_has_published_nothing_or_everything():
    history = History.begun(3, OTHER)
    assert may_begin(None) is None
    assert may_begin(Recorded(3)) is None
    assert may_begin(recorded(history, OwnerStage.BEGUN)) is None
    assert may_begin(recorded(history, OwnerStage.OVER)) is None
    assert may_begin(recorded(history, OwnerStage.OPEN)) is Refusal.OPEN
    assert may_begin(Recorded(3, "x")) is Refusal.UNREADABLE
