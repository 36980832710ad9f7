"""Whatever a round changes, and wherever that was kept: undone it never was, committed it stays.

The state machines find more, but by chance. Here each change meets each way of keeping, every time.
"""

from __future__ import annotations

import itertools
import shutil

import pytest

from tests.support.small_items import bag_with, set_with
from timers_state import Domain, Layout, MemoryStore, Overlay, RoundStore, open_store
from timers_state.cells.bag import Bag
from timers_state.cells.set import Set
from timers_state.cells.value import Value
from timers_state.store import snapshot

SCOPES, RECORDS = 1, 7
LAYOUT = Layout(((Value, b"v"), (Bag, b"b"), (Set, b"s")), (b"f", b"g"))
KEYS = (b"k", b"heavy", b"third")
# Its bag and set are written with each commit. Of the other keys that waits.
HEAVY = KEYS[1]
WINDOWS = (b"", b"w")
CLOCK, HOLD = (Domain.PROCESSING, b"c", b""), (Domain.HOLD, b"c", b"")
TAGGED = (Domain.EVENT, b"f", b"tag")


def scope(overlay, key=KEYS[0]):
    return overlay.scope(SCOPES, key)


def timers(overlay, key=KEYS[0], domain=Domain.EVENT):
    return scope(overlay, key).timers(domain)


def record(overlay, key=KEYS[0], window=b""):
    """A record, as whoever has its turn finds it; None if the key has a scope."""
    records = overlay.records(RECORDS, LAYOUT)
    found = records.begin(key)
    if found is None and not records.takes(key):
        return records, None
    found = records.heads.get(key)
    while found is not None and found.window != window:
        found = found.more
    return records, found or records.add(key, window)


def fill(overlay):
    """What every example begins with."""
    for key in KEYS[:2]:
        for window in WINDOWS:
            scope(overlay, key).value(b"v", window).set(b"1")
            if key == HEAVY:
                scope(overlay, key).bag(b"b", window).extend([b"1", b"2"])
                scope(overlay, key).set(b"s", window).add(b"1")
            timers(overlay, key).set(5, b"f", window=window, payload=b"p")
            timers(overlay, key, Domain.HOLD).set(6, b"h", window=window)
            records, made = record(overlay, key, window)
            if made is None:
                continue
            records.put_value(made, 0, b"1")
            records.replace_items(made, 1, bag_with(None, [b"1", b"2"]))
            records.replace_items(made, 2, set_with(None, [b"1"]))
            records.set_timer(made, 0, 5, b"p")
            records.set_other(made, CLOCK, 7, b"p")
            records.set_other(made, HOLD, 4)
            records.set_other(made, TAGGED, 6, b"t")
            records.expire_at(made, 9)
            records.end(made)


def changing(change):
    """A change of a record; of its scope, if it has one."""

    def act(overlay):
        records, found = record(overlay)
        assert found is not None
        change(records, found)
        records.end(found)

    return act


def forget_state(overlay):
    overlay.forget_all(SCOPES)


def more(number, add):
    return lambda records, it: records.replace_items(it, number, add(it.values[number], [b"new"]))


CHANGES = {
    "a value is replaced": lambda o: scope(o).value(b"v").set(b"2"),
    "a value is cleared": lambda o: scope(o).value(b"v").clear(),
    "a value is new": lambda o: scope(o).value(b"new").set(b"2"),
    "a bag grows": lambda o: scope(o, HEAVY).bag(b"b").append(b"3"),
    "a bag is cleared": lambda o: scope(o, HEAVY).bag(b"b").clear(),
    "a set grows": lambda o: scope(o, HEAVY).set(b"s").add(b"3"),
    "a set shrinks": lambda o: scope(o, HEAVY).set(b"s").remove(b"1"),
    "a timer is earlier": lambda o: timers(o).set(2, b"f", payload=b"q"),
    "a timer is later": lambda o: timers(o).set(8, b"f"),
    "a timer has another payload": lambda o: timers(o).set(5, b"f", payload=b"q"),
    "a timer is new": lambda o: timers(o).set(1, b"new"),
    "a timer is cleared": lambda o: timers(o).clear(b"f"),
    "a timer fires": lambda o: timers(o).pop_due(5),
    "a hold is cleared": lambda o: timers(o, domain=Domain.HOLD).clear(b"h"),
    "a window is forgotten": lambda o: scope(o).forget_window(b"w"),
    "a key is forgotten": lambda o: o.forget(SCOPES, KEYS[0]),
    "a key is forgotten and comes again": lambda o: (
        o.forget(SCOPES, KEYS[0]),
        scope(o).value(b"v").set(b"again"),
    ),
    "all keys are forgotten": forget_state,
    "all keys are forgotten and one comes again": lambda o: (
        forget_state(o),
        timers(o).set(7, b"f"),
    ),
    "a key is new": lambda o: scope(o, KEYS[2]).value(b"v").set(b"1"),
    "a record's value is replaced": changing(lambda rs, it: rs.put_value(it, 0, b"2")),
    "a record's value is cleared": changing(lambda rs, it: rs.put_value(it, 0, None)),
    "a record's bag grows": changing(more(1, bag_with)),
    "a record's bag is cleared": changing(lambda rs, it: rs.replace_items(it, 1, None)),
    "a record's set grows": changing(more(2, set_with)),
    "a record's timer is earlier": changing(lambda rs, it: rs.set_timer(it, 0, 2, b"q")),
    "a record's timer has another payload": changing(lambda rs, it: rs.set_timer(it, 0, 5, b"q")),
    "a record's timer has no payload anymore": changing(lambda rs, it: rs.set_timer(it, 0, 5)),
    "a record's timer is new": changing(lambda rs, it: rs.set_timer(it, 1, 1)),
    "a record's timer is cleared": changing(lambda rs, it: rs.clear_timer(it, 0)),
    "a record's timer fires": changing(lambda rs, it: rs.take_timer(it, 0)),
    "a record's timer of the clock is earlier": changing(
        lambda rs, it: (rs.set_other(it, CLOCK, 2, b"q"), rs.set_other(it, HOLD, 1))
    ),
    "a record's timer of the clock has another payload": changing(
        lambda rs, it: rs.set_other(it, CLOCK, 7, b"q")
    ),
    "a record's timer of the clock fires": changing(
        lambda rs, it: (rs.take_other(it, CLOCK), rs.clear_other(it, HOLD))
    ),
    "a record's timer with a tag is earlier": changing(lambda rs, it: rs.set_other(it, TAGGED, 1)),
    "a record's timer with a tag is new": changing(
        lambda rs, it: rs.set_other(it, (Domain.EVENT, b"g", b"new"), 3)
    ),
    "a record's timer with a tag is cleared": changing(lambda rs, it: rs.clear_other(it, TAGGED)),
    "a record expires earlier": changing(lambda rs, it: rs.expire_at(it, 3)),
    "a record is forgotten": changing(lambda rs, it: rs.forget(it)),
    "a record's key is forgotten": lambda o: o.forget(RECORDS, KEYS[0]),
    "a record becomes a scope": lambda o: o.scope(RECORDS, KEYS[0]).value(b"v").set(b"2"),
    "all records are forgotten": lambda o: o.forget_all(RECORDS),
    "a record is new": lambda o: (
        (got := record(o, KEYS[2])),
        got[0].put_value(got[1], 0, b"1"),
    ),
}


def commit(overlay):
    overlay.prepare()
    overlay.commit()


def write_out(overlay):
    overlay.records(RECORDS, LAYOUT).begin(b"nobody")  # whoever is in use would stay
    overlay.room.let_go(1 << 40)


BEFORE = {
    "kept in memory": lambda overlay: None,
    "written out": write_out,
    "read again": lambda overlay: (
        write_out(overlay),
        [overlay.prefetch(state, list(KEYS)) for state in (SCOPES, RECORDS)],
    ),
}


def all_timers(overlay):
    """When the first timer of each kind fires, and how many there are."""
    return [
        (overlay.first_time(state, domain), overlay.count_timers(state, domain))
        for state in (SCOPES, RECORDS)
        for domain in Domain
    ]


MEANWHILE = {
    "in memory": lambda overlay: None,
    "looked at": all_timers,
    "in the store": Overlay.flush,
}


def content(overlay):
    """All that there is."""
    found = all_timers(overlay)
    for state in (SCOPES, RECORDS):
        for key in KEYS:
            of_key = overlay.scope(state, key)
            for window in WINDOWS:
                event = of_key.timers(Domain.EVENT)
                found.append(
                    (
                        state,
                        key,
                        window,
                        of_key.value(b"v", window).get(),
                        of_key.value(b"new", window).get(),
                        list(of_key.bag(b"b", window).read()),
                        sorted(of_key.set(b"s", window).read()),
                        [event.time_of(family, b"", window) for family in (b"f", b"g", b"new")],
                        [event.time_of(b"f", b"tag", window)],
                        [of_key.timers(Domain.HOLD).time_of(f, b"", window) for f in (b"h", b"c")],
                        of_key.timers(Domain.EXPIRY).time_of(b"", b"", window),
                    )
                )
            for domain in (Domain.EVENT, Domain.PROCESSING):
                found += [(state, key, tuple(timer)) for timer in of_key.timers(domain).due(9)]
    return found


def opened(store, budget):
    overlay = Overlay(store, budget)
    overlay.records(RECORDS, LAYOUT)
    fill(overlay)
    return overlay


def expected(*changes):
    overlay = opened(MemoryStore(), 1 << 30)
    for change in changes:
        change(overlay)
    return content(overlay)


def shows(overlay, wanted):
    """Whether that is all there is, to whoever looks now, and when memory was given up."""
    assert content(overlay) == wanted
    overlay.rollback()
    write_out(overlay)
    assert content(overlay) == wanted
    overlay.rollback()


@pytest.fixture(params=[1 << 30, 12_000], ids=["roomy", "tight"])
def budget(request):
    return request.param


def changed(what, budget):
    """Overlays whose round has made a change, for each way to keep it before and after that.

    Tests loop over them, as a test for each would take most of its time to begin and to end.
    """
    for before, meanwhile in itertools.product(BEFORE, MEANWHILE):
        overlay = opened(MemoryStore(), budget)
        commit(overlay)
        BEFORE[before](overlay)
        CHANGES[what](overlay)
        MEANWHILE[meanwhile](overlay)
        yield f"{before}, then {meanwhile}", overlay


@pytest.mark.parametrize("what", CHANGES)
def test_what_a_round_has_changed_is_seen_in_it(what, budget):
    seen, undone = expected(CHANGES[what]), expected()
    for ways, overlay in changed(what, budget):
        assert content(overlay) == seen, ways
        overlay.rollback()
        shows(overlay, undone)


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_undone_never_was(what, budget):
    wanted = expected()
    for prepared in (False, True):
        for _, overlay in changed(what, budget):
            if prepared:
                overlay.prepare()
            overlay.rollback()
            shows(overlay, wanted)


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_committed_stays_when_the_next_round_is_undone(what, budget):
    wanted = expected(CHANGES[what])
    for then in ([], ["a value is replaced", "a timer is later", "a key is forgotten"]):
        for _, overlay in changed(what, budget):
            commit(overlay)
            for change in then:
                CHANGES[change](overlay)
                overlay.rollback()
            overlay.rollback()
            write_out(overlay)
            shows(overlay, wanted)


@pytest.mark.parametrize("what", [what for what in CHANGES if what.startswith("a record's")])
def test_what_records_have_committed_and_not_written_is_seen_where_a_scope_takes_over(what):
    wanted = expected(CHANGES[what])
    overlay = opened(MemoryStore(), 1 << 30)
    commit(overlay)
    write_out(overlay)
    CHANGES[what](overlay)
    commit(overlay)
    assert content(overlay) == wanted
    overlay.rollback()
    shows(overlay, wanted)


def test_a_window_that_was_forgotten_and_not_written_stays_so(budget):
    """The scope is unwritten after the commit, and its image is all that the next round leaves."""
    overlay = Overlay(MemoryStore(), budget)
    for window in WINDOWS:
        scope(overlay).value(b"v", window).set(b"1")
    commit(overlay)
    write_out(overlay)
    scope(overlay).forget_window(b"w")
    commit(overlay)
    scope(overlay).value(b"v").set(b"2")
    overlay.rollback()
    for _ in range(2):
        assert [scope(overlay).value(b"v", window).get() for window in WINDOWS] == [b"1", None]
        overlay.rollback()
        write_out(overlay)


def test_records_that_come_again_after_all_were_forgotten_are_written():
    overlay = opened(MemoryStore(), 1 << 30)
    commit(overlay)
    overlay._small.write_all()

    def again(overlay):
        overlay.forget_all(RECORDS)
        records, found = record(overlay)
        records.put_value(found, 0, b"1")
        records.replace_items(found, 1, bag_with(None, [b"1", b"2"]))
        records.replace_items(found, 2, set_with(None, [b"1"]))
        records.set_timer(found, 0, 5, b"p")
        records.expire_at(found, 9)
        records.end(found)

    again(overlay)
    commit(overlay)
    shows(overlay, expected(again))


def test_what_a_round_has_written_is_not_read_as_a_committed_record():
    overlay = opened(MemoryStore(), 1 << 30)
    commit(overlay)
    CHANGES["a record's value is replaced"](overlay)
    record(overlay, KEYS[1])  # another one is in use now
    overlay.flush()
    records = overlay.records(RECORDS, LAYOUT)
    records.begin(KEYS[0])
    records.takes(KEYS[0])
    overlay.rollback()
    _, found = record(overlay)
    assert found is not None
    assert found.values[0] == b"1"
    records.end(found)
    shows(overlay, expected())


# --- on disk ----------------------------------------------------------------------------------


def put(overlay, value):
    scope(overlay).value(b"v").set(value)


def left_by(directory):
    with Overlay(open_store(directory), 1 << 20) as overlay:
        return scope(overlay).value(b"v").get()


@pytest.fixture
def on_disk(tmp_path):
    """An overlay whose first round was committed, and the second reached the store."""
    overlay = Overlay(open_store(tmp_path / "s"), 1 << 20)
    put(overlay, b"1")
    commit(overlay)
    put(overlay, b"2")
    overlay.flush()
    yield overlay
    overlay.close()


def end_process(overlay):
    overlay.store.flush()
    overlay.store.abandon()


def test_a_process_that_ends_after_a_commit_leaves_what_it_has_committed(on_disk, tmp_path):
    commit(on_disk)
    end_process(on_disk)
    assert left_by(tmp_path / "s") == b"2"


def test_a_round_that_is_only_in_the_store_is_not_in_a_snapshot(on_disk, tmp_path):
    assert not on_disk.running.changed
    with pytest.raises(ValueError, match="a round is running"):
        on_disk.snapshot(tmp_path / "copy")


def test_an_undo_point_that_was_not_finished_is_none(on_disk, tmp_path):
    commit(on_disk)
    end_process(on_disk)
    shutil.copytree(tmp_path / "s" / "rocks", tmp_path / "s" / "undo" / "rocks")
    (first, *_) = sorted((tmp_path / "s" / "undo" / "rocks").glob("*.sst"))
    first.unlink()
    assert left_by(tmp_path / "s") == b"2"
    assert not (tmp_path / "s" / "undo").exists()


def test_an_undo_point_that_was_half_let_go_is_none(on_disk, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(snapshot.shutil, "rmtree", lambda *_, **__: None)  # it was interrupted before
        commit(on_disk)
    end_process(on_disk)
    assert (tmp_path / "s" / "undo" / "rocks").exists()
    assert left_by(tmp_path / "s") == b"2"


def test_going_back_that_was_interrupted_is_begun_anew(on_disk, tmp_path, monkeypatch):
    class Interrupted(Exception):
        pass

    end_process(on_disk)
    for step in ("rename", "replace"):
        copy = tmp_path / step
        shutil.copytree(tmp_path / "s", copy)
        with monkeypatch.context() as patch:

            def interrupt(*_):
                raise Interrupted

            patch.setattr(snapshot.shutil.os, step, interrupt)
            patch.setattr(type(copy), step, interrupt)
            with pytest.raises(Interrupted):
                snapshot.go_back(copy)
        assert left_by(copy) == b"1"


def test_once_a_round_is_undone_that_left_nothing_all_keys_may_be_records_again(tmp_path):
    with Overlay(RoundStore(tmp_path / "store"), 1 << 20) as overlay:
        records, made = record(overlay)
        records.put_value(made, 0, b"1")
        overlay.flush()
        scope(overlay, b"other").value(b"v").set(b"1")
        overlay.scope(RECORDS, b"other").value(b"v").set(b"1")
        assert not records.is_complete
        overlay.rollback()
        assert records.is_complete
        assert record(overlay)[1].content() == LAYOUT.empty


def test_timers_of_the_clock_and_with_tags_that_are_read_again_have_their_payloads():
    overlay = opened(MemoryStore(), 1 << 30)
    commit(overlay)
    write_out(overlay)
    records, found = record(overlay)
    assert found.base is not None
    taken = [records.take_other(found, name) for name in (CLOCK, HOLD, TAGGED)]
    assert taken == [(7, b"p"), (4, b""), (6, b"t")]
