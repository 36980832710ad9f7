"""What a record has of a bag is replaced when something is added, and stays what it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timers_state.cells.cell import ITEM_BYTES
from timers_state.record_items import added_since, all_of, with_more

strings = st.lists(st.sampled_from([b"", b"1", b"22", b"3" * 40]), min_size=1, max_size=20)


@given(st.lists(strings, max_size=12), st.integers(0, 12))
def test_what_is_added_follows_what_was_there(additions, taken_up) -> None:
    versions, expected = [None], [()]
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
        assert added_since(with_more(None, [b"else"]), versions[-1]) is None


def test_to_add_to_many_strings_does_not_copy_them_all() -> None:
    items = with_more(None, [b"%d" % n for n in range(300)])
    items = with_more(with_more(items, [b"a"]), [b"b"])
    assert with_more(items, [b"c"])[1] is items[1]
