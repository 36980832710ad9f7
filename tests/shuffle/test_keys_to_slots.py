"""Which slot owns a key."""

from __future__ import annotations

import pytest
from apache_beam import coders
from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.shuffle.keys import Owners, key_codec
from timers_state import key_group


@given(st.lists(st.binary(max_size=40)), st.integers(1, 300))
def test_the_slot_of_a_key_follows_from_its_key_group(keys, slots) -> None:
    assert Owners(range(slots)).of(keys) == [key_group(key) * slots // 1024 for key in keys]


def test_the_slot_of_a_key_never_changes_between_releases() -> None:
    assert Owners(range(7)).of([b"", b"a", b"flight", b"\x00\x01"]) == [0, 6, 6, 0]


@pytest.mark.parametrize(
    ("coder", "values"),
    [
        (coders.StrUtf8Coder(), st.text()),
        (coders.BytesCoder(), st.binary()),
        (coders.VarIntCoder(), st.integers(-(2**63), 2**63 - 1)),
        (
            coders.TupleCoder([coders.StrUtf8Coder(), coders.VarIntCoder()]),
            st.tuples(st.text(), st.integers(0, 100)),
        ),
    ],
)
def test_a_key_comes_back_as_it_was(coder, values) -> None:
    encode, decode = key_codec(coder)

    @given(values)
    def law(value) -> None:
        assert decode(encode(value)) == value

    law()
