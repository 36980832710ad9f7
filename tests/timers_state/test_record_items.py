"""What a record has of a bag or set is replaced when something is added, and stays what it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timers_state.cells.cell import ITEM_BYTES
from timers_state.small.items import NO_BAG, NO_SET, added_since, all_of, is_among, with_more

ITEMS = [b"", *(b"%d" % n for n in range(40)), b"3" * 40]
strings = st.lists(st.sampled_from(ITEMS), min_size=1, max_size=20)


@given(st.lists(strings, max_size=12), st.integers(0, 12))
def test_what_is_added_follows_what_was_there(additions, taken_up) -> None:
    versions, expected = [NO_BAG], [()]
    for added in additions:
        versions.append(with_more(versions[-1], added))
        expected.append((*expected[-1], *added))
    assert [all_of(items) for items in versions] == expected
    for items, strings in zip(versions[1:], expected[1:], strict=True):
        assert items[0] == sum(map(len, strings)) + ITEM_BYTES * len(strings)
    before = min(taken_up, len(additions))
    added = expected[-1][len(expected[before]) :]
    assert added_since(versions[before], versions[-1]) == added
    if added:
        assert added_since(versions[-1], versions[before]) is None
        assert added_since(with_more(NO_BAG, [b"else"]), versions[-1]) is None


@given(st.lists(strings, max_size=12))
def test_a_set_has_what_was_added_and_its_versions_stay_what_they_were(additions) -> None:
    versions, expected = [NO_SET], [{}]
    for added in additions:
        new = dict.fromkeys(item for item in added if not is_among(item, versions[-1]))
        versions.append(with_more(versions[-1], new))
        expected.append({**expected[-1], **new})
    assert [all_of(items) for items in versions] == [tuple(strings) for strings in expected]
    for items, known in zip(versions, expected, strict=True):
        for item in ITEMS:
            assert is_among(item, items) == (item in known)
    assert NO_SET == (0, {}, ())


@pytest.mark.parametrize("nothing", [NO_BAG, NO_SET])
def test_to_add_to_many_strings_does_not_copy_them_all(nothing) -> None:
    items = with_more(nothing, [b"%d" % n for n in range(300)])
    items = with_more(with_more(items, [b"a"]), [b"b"])
    assert with_more(items, [b"c"])[1] is items[1]
