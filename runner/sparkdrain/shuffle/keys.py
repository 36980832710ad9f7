"""How keys are encoded for grouping, and which slot owns them."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from typing import Any, Generic, NoReturn, TypeVar
from zlib import crc32

from apache_beam import coders
from apache_beam.coders.coders import LengthPrefixCoder

KEY_GROUPS = 1024
_SHIFT = 32 - 10  # as there are 2**10 of them

T = TypeVar("T")

KeyEncode = Callable[[Any], bytes]
KeyDecode = Callable[[bytes], Any]


def refuse_pair(value: Any) -> NoReturn:
    """What goes to a reader by key could not be taken apart: a GroupByKey, for example.

    Raises:
        TypeError: always.
    """
    message = f"{reprlib.repr(value)} is not a pair of a key and a value"
    raise TypeError(message) from None


def key_codec(coder: coders.Coder) -> tuple[KeyEncode, KeyDecode]:
    """Encoding and decoding of a key on its own (not nested), by the fastest way there is."""
    if type(coder) is LengthPrefixCoder:
        # The length is for harnesses in other processes, which read keys among other bytes.
        coder = coder.value_coder()
    if type(coder) is coders.StrUtf8Coder:
        return str.encode, bytes.decode
    impl = coder.get_impl()
    return impl.encode, impl.decode


class Owners(Generic[T]):
    """The owners of keys, one for each slot; for many calls."""

    def __init__(self, owners: Sequence[T]) -> None:
        self._of_group = [owners[group * len(owners) // KEY_GROUPS] for group in range(KEY_GROUPS)]

    def of(self, keys: list[bytes]) -> list[T]:
        """The owner of each key."""
        # The same arithmetic as key_group, without a call per key; a test holds them together.
        of_group = self._of_group
        return [of_group[(crc32(key) * 0x9E3779B1 & 0xFFFFFFFF) >> _SHIFT] for key in keys]
