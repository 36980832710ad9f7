"""Rounds: a round is kept or taken back as a whole, and timers are found across keys."""

from __future__ import annotations

import pytest

from timers_state import Domain, MemoryStore, Overlay, RoundStore, key_group, open_store
from timers_state.errors import RoundPrepared, StaleScope


@pytest.fixture(params=["memory", "round", "rocks"])
def store(request, tmp_path):
    match request.param:
        case "memory":
            made = MemoryStore()
        case "round":
            made = RoundStore(tmp_path / "s")
        case "rocks":
            made = open_store(tmp_path / "s")
    yield made
    made.close()


@pytest.fixture(params=[0, 1 << 20], ids=["spilling", "roomy"])
def overlay(request, store):
    return Overlay(store, request.param)


def value(overlay, key=b"k"):
    return overlay.scope(1, key).value(b"v").get()


def put(overlay, content, key=b"k"):
    overlay.scope(1, key).value(b"v").set(content)


def fire(overlay, up_to, domain=Domain.EVENT, state_id=1):
    fired = []
    while (key := overlay.next_due(state_id, domain, up_to)) is not None:
        timer = overlay.scope(state_id, key).timers(domain).pop_due(up_to)
        fired.append((timer.time, key))
    return fired


def test_a_committed_round_stays_and_an_uncommitted_one_goes(overlay):
    put(overlay, b"1")
    assert overlay.prepare() > 0
    overlay.commit()
    put(overlay, b"2")
    overlay.scope(1, b"k").bag(b"b").append(b"x")
    overlay.prepare()
    overlay.rollback()
    assert value(overlay) == b"1"
    assert list(overlay.scope(1, b"k").bag(b"b").read()) == []
    put(overlay, b"3")
    overlay.rollback()
    assert value(overlay) == b"1"


def test_the_first_round_can_be_taken_back(overlay):
    put(overlay, b"1")
    overlay.flush()
    overlay.rollback()
    assert value(overlay) is None
    assert overlay.store.sequence == 0


def test_a_forgotten_key_is_back_after_a_rollback(overlay):
    put(overlay, b"1")
    overlay.scope(1, b"k").timers(Domain.EVENT).set(5, b"t")
    overlay.prepare()
    overlay.commit()
    for prepared in (False, True):
        overlay.scope(1, b"k").forget()
        assert overlay.first_time(1, Domain.EVENT) is None
        if prepared:
            overlay.prepare()
        overlay.rollback()
        assert value(overlay) == b"1"
        assert overlay.first_time(1, Domain.EVENT) == 5


def test_nothing_can_be_done_between_prepare_and_its_end(overlay):
    scope = overlay.scope(1, b"k")
    cell = scope.value(b"v")
    bag = scope.bag(b"b")
    cell.set(b"1")
    overlay.prepare()
    for use in (
        lambda: cell.set(b"2"),
        lambda: bag.append(b"2"),
        lambda: overlay.scope(1, b"other"),
        lambda: scope.timers(Domain.EVENT),
        scope.forget,
        overlay.flush,
        overlay.prepare,
        lambda: overlay.first_time(1, Domain.EVENT),
        lambda: overlay.next_due(1, Domain.EVENT, 5),
        lambda: overlay.time_of(1, Domain.EVENT, b"other", b"", (b"t", b"")),
    ):
        with pytest.raises(RoundPrepared, match="commit it or roll it back"):
            use()


def test_cells_stay_usable_after_a_commit_and_are_stale_after_a_rollback(overlay):
    cell = overlay.scope(1, b"k").value(b"v")
    for content in (b"1", b"2"):
        cell.set(content)
        overlay.prepare()
        overlay.commit()
        assert cell.get() == content
    overlay.rollback()
    with pytest.raises(StaleScope):
        cell.set(b"3")
    assert value(overlay) == b"2"


def test_only_a_prepared_round_can_be_committed():
    with pytest.raises(ValueError, match=r"call prepare\(\) first"):
        Overlay(MemoryStore(), 1).commit()


def test_timers_of_many_keys_fire_in_order_of_time_then_key(overlay):
    overlay = Overlay(overlay.store, 5000)
    for number in range(40):
        timers = overlay.scope(1, b"%03d" % number).timers(Domain.EVENT)
        timers.set(number % 7, b"a")
        timers.set(number % 5 + 10, b"b")
        if number % 10 == 9:
            overlay.prepare()
            overlay.commit()
    expected = [(n % 7, b"%03d" % n) for n in range(40)]
    expected += [(n % 5 + 10, b"%03d" % n) for n in range(40)]
    expected.sort(key=lambda entry: (entry[0], key_group(entry[1]), entry[1]))
    assert fire(overlay, 100) == expected
    overlay.prepare()
    overlay.rollback()
    assert fire(overlay, 11) == [entry for entry in expected if entry[0] <= 11]
    overlay.prepare()
    overlay.commit()
    assert fire(overlay, 100) == [entry for entry in expected if entry[0] > 11]


def test_replaced_and_cleared_timers_do_not_fire(overlay):
    for key in (b"moved", b"cleared", b"forgotten", b"window", b"kept"):
        overlay.scope(1, key).timers(Domain.HOLD).set(5, b"t", window=b"w")
    for round_over in (False, True):
        if round_over:
            overlay.prepare()
            overlay.commit()
        assert overlay.first_time(1, Domain.HOLD) == 5
    overlay.scope(1, b"moved").timers(Domain.HOLD).set(9, b"t", window=b"w")
    overlay.scope(1, b"cleared").timers(Domain.HOLD).clear(b"t", window=b"w")
    overlay.scope(1, b"forgotten").forget()
    overlay.scope(1, b"window").forget_window(b"w")
    assert fire(overlay, 100, Domain.HOLD) == [(5, b"kept"), (9, b"moved")]
    assert overlay.first_time(1, Domain.HOLD) is None


def test_states_and_domains_do_not_see_each_others_timers(overlay):
    for state_id in (1, 2):
        for domain in Domain:
            overlay.scope(state_id, b"k").timers(domain).set(10 * state_id + domain, b"t")
    for state_id in (1, 2):
        for domain in Domain:
            assert overlay.first_time(state_id, domain) == 10 * state_id + domain
            assert overlay.next_due(state_id, domain, 10 * state_id + domain - 1) is None
            assert overlay.next_due(state_id, domain, 10 * state_id + domain) == b"k"


def test_timers_that_are_set_while_timers_fire_take_part(overlay):
    overlay.scope(1, b"a").timers(Domain.EVENT).set(1, b"t")
    overlay.prepare()
    overlay.commit()
    fired = []
    while (key := overlay.next_due(1, Domain.EVENT, 5)) is not None:
        timer = overlay.scope(1, key).timers(Domain.EVENT).pop_due(5)
        fired.append((timer.time, key))
        overlay.scope(1, key + b"a").timers(Domain.EVENT).set(timer.time + 1, b"t")
    assert fired == [(n, b"a" * n) for n in range(1, 6)]
    assert overlay.first_time(1, Domain.EVENT) == 6


def next_round(overlay):
    overlay.prepare()
    overlay.commit()


def test_a_timer_before_those_that_were_looked_at_is_found_after_a_commit(overlay):
    overlay.scope(1, b"late").timers(Domain.EVENT).set(10, b"t")
    next_round(overlay)
    assert overlay.first_time(1, Domain.EVENT) == 10
    overlay.scope(1, b"early").timers(Domain.EVENT).set(5, b"t")
    next_round(overlay)
    assert overlay.first_time(1, Domain.EVENT) == 5
    assert overlay.next_due(1, Domain.EVENT, 7) == b"early"


def test_a_timer_that_is_moved_in_every_round_leaves_no_rows_behind(overlay):
    for time in (5, 9, 9, 7):
        overlay.scope(1, b"k").timers(Domain.EVENT).set(time, b"t", payload=b"%d" % time)
        next_round(overlay)
        assert overlay.first_time(1, Domain.EVENT) == time
        overlay.flush()
    assert len(list(overlay.store.iterate_rows(b"\x02", b"\x04"))) == 2
    assert overlay.scope(1, b"k").timers(Domain.EVENT).pop_due(7) == (7, b"", b"t", b"", b"7")
    next_round(overlay)
    overlay.flush()
    assert not list(overlay.store.iterate_rows(b"\x02", b"\x04"))


def test_a_bag_is_read_appended_and_cleared_across_rounds(overlay):
    expected = []
    for turn in range(12):
        bag = overlay.scope(1, b"k").bag(b"b")
        assert list(bag.read()) == expected
        assert [item for segment in bag.segments() for item in segment] == expected
        if turn % 4 == 3:
            bag.clear()
            expected = []
            assert list(bag.read()) == []
        if turn % 3:
            bag.append(b"%d" % turn * (1 + turn * 1000))  # beyond what is kept, in the end
            expected.append(b"%d" % turn * (1 + turn * 1000))
        next_round(overlay)
    overlay.rollback()
    assert list(overlay.scope(1, b"k").bag(b"b").read()) == expected


def test_a_round_without_changes_writes_nothing(tmp_path):
    overlay = Overlay(RoundStore(tmp_path / "s"), 1 << 20)
    assert overlay.scope(1, b"k").value(b"v").get() is None
    assert overlay.prepare() == 0
    overlay.commit()
    assert not (tmp_path / "s").exists()


def test_a_process_that_ends_in_the_middle_of_a_round_leaves_the_last_committed_one(tmp_path):
    store = open_store(tmp_path / "s")
    overlay = Overlay(store, 1 << 20)
    put(overlay, b"1")
    overlay.prepare()
    overlay.commit()
    put(overlay, b"2")
    overlay.flush()
    store.flush()
    store.abandon()
    overlay = Overlay(open_store(tmp_path / "s"), 1 << 20)
    assert value(overlay) == b"1"
    overlay.close()
