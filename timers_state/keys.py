"""Every key layout, encode and decode side by side; no other module formats or takes apart a key.

The order of the encoded bytes is the order of the values (as tuples, strings of bytes compared byte
by byte, times and sort keys as signed numbers), so a range of values is a range of rows::

    meta   [0][name]
    cells  [1][state id u32][key group u16][key][window][tag][kind u8][suffix of the kind]
    times  [2][state id u32][domain u8][time i64][key group u16][key][window][family][dynamic tag]
    tags   [3][state id u32][key group u16][key][window][domain u8][family][dynamic tag]

Numbers are big-endian, signed ones with the sign bit flipped. ``[key]``, ``[window]``, ``[tag]``
and ``[family]`` are escaped: 00 becomes 00 FF, and 00 01 ends the string. What comes last is raw.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, Final
from zlib import crc32

from timers_state.errors import MalformedRow

if TYPE_CHECKING:
    from collections.abc import Iterable

KEY_GROUPS: Final = 1024
"""How many key groups there are; part of the format."""

I64_MIN: Final = -(1 << 63)
I64_MAX: Final = (1 << 63) - 1

_SIGN: Final = 1 << 63
_END: Final = b"\x00\x01"
_ESCAPED_ZERO: Final = b"\x00\xff"
_GOLDEN: Final = 0x9E3779B1
_GROUP_SHIFT: Final = 32 - 10  # as there are 2**10 of them
_OWNER: Final = Struct(">BIH")
_TIME: Final = Struct(">BIBQ")
_STATE: Final = Struct(">BI")
_GROUP: Final = Struct(">H")
_SEGMENT: Final = Struct(">QI")
_SORTED: Final = Struct(">QQI")

OWNER_OFFSET_IN_TIME: Final = _TIME.size
"""Where ``[key group][key]`` starts in a row of the time index."""


class Family(IntEnum):
    """First byte of every row: what the row is."""

    META = 0
    CELLS = 1
    TIMES = 2
    TAGS = 3


_TAGS_BYTE: Final = bytes((Family.TAGS,))


class Kind(IntEnum):
    """What a cell is; part of its key, so cells of two kinds never read each other's rows."""

    VALUE = 1
    COMBINING = 2
    BAG = 3
    SET = 4
    MAP = 5
    MULTIMAP = 6
    ORDERED_LIST = 7


class Domain(IntEnum):
    """The clock that a timer follows; the domains are independent of each other.

    ``EVENT`` and ``PROCESSING`` are timers of users. ``HOLD`` and ``EXPIRY`` are for an engine that
    keeps what holds a watermark back, and when state is no longer needed; they are kept alike.
    """

    EVENT = 0
    PROCESSING = 1
    HOLD = 2
    EXPIRY = 3


# CPython 3.11 finds a constant ten times faster than a member of an enum, and a tuple's items.
EVENT: Final = Domain.EVENT
PROCESSING: Final = Domain.PROCESSING
HOLD: Final = Domain.HOLD
EXPIRY: Final = Domain.EXPIRY
DOMAINS: Final = (EVENT, PROCESSING, HOLD, EXPIRY)
_TIMES: Final = Family.TIMES

TimerIdent = tuple[bytes, bytes]
"""Which timer of a window and domain: family and dynamic tag."""

TimerName = tuple[Domain, bytes, bytes]
"""Which timer of a window: domain, family and dynamic tag."""

SEQUENCE_ROW: Final = bytes([Family.META]) + b"sequence"
"""Row that holds the number of the last batch that was written, as u64."""


def key_group(key: bytes) -> int:
    """The key group, in ``range(KEY_GROUPS)``, of an encoded user key.

    Part of the format: the same in every release, process and machine. CRC-32, spread by a golden
    ratio product, whose high bits are the group.
    """
    return (crc32(key) * _GOLDEN & 0xFFFFFFFF) >> _GROUP_SHIFT


# --- parts ------------------------------------------------------------------------------------


def escape(data: bytes) -> bytes:
    """``data`` so that it can be followed by something else and still sorts like ``data``."""
    return data.replace(b"\x00", _ESCAPED_ZERO) + _END


escape_again = lru_cache(maxsize=512)(escape)
"""As ``escape``, faster for strings that are escaped over and over: windows and names."""


def unescape(row: bytes, start: int) -> tuple[bytes, int]:
    """The string that was escaped at ``start``, and where what follows it starts."""
    end = row.find(_END, start)
    if end < 0:
        message = f"a string that starts at byte {start} of row {row.hex()} does not end"
        raise MalformedRow(message)
    return row[start:end].replace(b"\x00\xff", b"\x00"), end + 2


def encode_i64(number: int) -> bytes:
    """Eight bytes that sort like the signed number; ValueError if it does not fit."""
    if not I64_MIN <= number <= I64_MAX:
        message = f"{number} does not fit into a signed 64-bit number"
        raise ValueError(message)
    return (number + _SIGN).to_bytes(8, "big")


def decode_i64(data: bytes) -> int:
    """The number in eight bytes of ``encode_i64``."""
    if len(data) != 8:
        message = f"a signed 64-bit number has 8 bytes, not {len(data)}: {data.hex()}"
        raise MalformedRow(message)
    return int.from_bytes(data, "big") - _SIGN


def encode_sequence(sequence: int) -> bytes:
    """The value of the sequence row."""
    return sequence.to_bytes(8, "big")


def decode_sequence(data: bytes) -> int:
    """The number in the value of the sequence row."""
    if len(data) != 8:
        message = f"the sequence row holds {data.hex()}, not 8 bytes"
        raise MalformedRow(message)
    return int.from_bytes(data, "big")


def prefix_end(prefix: bytes) -> bytes:
    """The smallest string above every string that starts with ``prefix``.

    Raises:
        ValueError: there is none, because every byte is FF; no prefix of this module is like that.
    """
    stem = prefix.rstrip(b"\xff")
    if not stem:
        message = f"no string is above all that start with {prefix.hex()!r}"
        raise ValueError(message)
    return stem[:-1] + bytes([stem[-1] + 1])


# --- cells ------------------------------------------------------------------------------------


def owner_prefix(family: Family, state_id: int, group: int, key: bytes) -> bytes:
    """What all rows of one user key in one state start with; ``family`` is CELLS or TAGS."""
    try:
        return _OWNER.pack(family, state_id, group) + escape(key)
    except struct_error as error:
        message = f"state id {state_id} must be in [0, 2^32) and key group {group} in [0, 2^16)"
        raise ValueError(message) from error


def owner_of_row(row: bytes) -> tuple[tuple[int, int, bytes], int]:
    """State id, key group and key of a row of CELLS or TAGS, and how long its ``owner_prefix`` is.

    Raises:
        MalformedRow: the row has no such prefix.
    """
    try:
        _, state_id, group = _OWNER.unpack_from(row)
    except struct_error as error:
        message = f"row {row.hex()} follows no layout of this format"
        raise MalformedRow(message) from error
    key, at = unescape(row, _OWNER.size)
    return (state_id, group, key), at


def group_prefix(family: Family, state_id: int, group: int) -> bytes:
    """What all rows of one key group in one state start with; ``family`` is CELLS or TAGS."""
    return _OWNER.pack(family, state_id, group)


def state_prefix(family: Family, state_id: int) -> bytes:
    """What all rows of one state start with, in any family but META."""
    return _STATE.pack(family, state_id)


def window_prefix(owner: bytes, window: bytes) -> bytes:
    """What all rows of one window of a key start with; ``owner`` is its ``owner_prefix``."""
    return owner + escape(window)


def cell_prefix(owner: bytes, window: bytes, tag: bytes, kind: Kind) -> bytes:
    """What all rows of one cell start with, or its only row; ``owner`` is of the CELLS family."""
    return owner + cell_name(window, tag, kind)


def cell_of_row(row: bytes, owner_length: int) -> tuple[bytes, bytes, Kind, bytes]:
    """Window, tag and kind of the cell that a row belongs to, and the suffix.

    ``owner_length`` is the length of the row's ``owner_prefix``.
    """
    try:
        window, at = unescape(row, owner_length)
        tag, at = unescape(row, at)
        return window, tag, Kind(row[at]), row[at + 1 :]
    except (IndexError, ValueError) as error:
        message = f"row {row.hex()} follows no layout of this format"
        raise MalformedRow(message) from error


@lru_cache(maxsize=512)  # many keys have cells of the same few windows and tags
def cell_name(window: bytes, tag: bytes, kind: Kind) -> bytes:
    """What follows the ``owner_prefix`` in what all rows of one cell start with."""
    return escape(window) + escape(tag) + bytes((kind,))


def segment_suffix(sequence: int, index: int) -> bytes:
    """Suffix of segment ``index`` that batch ``sequence`` appends to a bag or a multimap's key."""
    return _SEGMENT.pack(sequence, index)


def sorted_suffix(sort_key: int, sequence: int, index: int) -> bytes:
    """Suffix of an element of an ordered list; equal sort keys keep the order of appending."""
    return _SORTED.pack(sort_key + _SIGN, sequence, index)


def sort_key_bound(prefix: bytes, sort_key: int) -> bytes:
    """Smallest row of the ordered list ``prefix`` at or above a sort key, which may be any int."""
    if sort_key > I64_MAX:
        return prefix_end(prefix)
    return prefix + encode_i64(max(sort_key, I64_MIN))


def sort_key_of(row: bytes) -> int:
    """The sort key in a row of an ordered list."""
    return int.from_bytes(row[-_SORTED.size : 8 - _SORTED.size], "big") - _SIGN


def entry_prefix(prefix: bytes, map_key: bytes) -> bytes:
    """What the rows of one key of the multimap ``prefix`` start with."""
    return prefix + escape(map_key)


def entry_of(row: bytes, prefix_length: int) -> bytes:
    """The key of the multimap in one of its rows."""
    return unescape(row, prefix_length)[0]


# --- timers -----------------------------------------------------------------------------------


def time_bound(state_id: int, domain: Domain, time: int) -> bytes:
    """A string at or below the rows of ``time`` and later, above those of earlier times."""
    return _TIME.pack(_TIMES, state_id, domain, time + _SIGN)


def row_after(state_id: int, domain: Domain, time: int) -> bytes:
    """Above all rows of ``time`` in the time index, below those of later times."""
    if time >= I64_MAX:
        return time_domain_end(state_id, domain)
    return time_bound(state_id, domain, max(time, I64_MIN) + 1)


def time_domain_end(state_id: int, domain: Domain) -> bytes:
    """A string above every row of the time index of one state and domain."""
    return prefix_end(time_domain_prefix(state_id, domain))


def time_domain_prefix(state_id: int, domain: Domain) -> bytes:
    """What every row of the time index of one state and domain starts with; the time follows."""
    return _STATE.pack(_TIMES, state_id) + bytes((domain,))


def tag_owner(owner: bytes) -> bytes:
    """The ``owner_prefix`` of the TAGS family of a key; that of the CELLS family is given."""
    return _TAGS_BYTE + owner[1:]


def place_of_owner(owner: bytes) -> bytes:
    """The ``owner_in_time`` of a key whose ``owner_prefix`` of the CELLS family is given."""
    return owner[_STATE.size :]


def owner_in_time(group: int, key: bytes) -> bytes:
    """``[key group][key]`` as it stands in a row of the time index."""
    return _GROUP.pack(group) + escape(key)


def owners_in_time(keys: Iterable[bytes]) -> list[bytes]:
    """As ``owner_in_time`` of many keys, whose groups are those of ``key_group``."""
    pack, escaped = _GROUP.pack, _ESCAPED_ZERO
    return [
        pack((crc32(key) * _GOLDEN & 0xFFFFFFFF) >> _GROUP_SHIFT)
        + key.replace(b"\x00", escaped)
        + _END
        for key in keys
    ]


def timer_name(family: bytes, tag: bytes) -> bytes:
    """``[family][dynamic tag]``, with which the rows of a timer end in both indexes."""
    return escape(family) + tag


def time_row(state_id: int, domain: Domain, time: int, place_and_name: bytes) -> bytes:
    """A row of the time index, which ends like all of the same timer.

    ``place_and_name`` is the ``window_prefix`` of an ``owner_in_time``, then a ``timer_name``.
    """
    return _TIME.pack(_TIMES, state_id, domain, time + _SIGN) + place_and_name


def tag_prefix(owner: bytes, window: bytes, domain: Domain) -> bytes:
    """What the tag rows of a window and domain of a key start with; their ``timer_name`` follows.

    ``owner`` is an ``owner_prefix`` of the TAGS family.
    """
    return owner + escape(window) + bytes((domain,))


def timer_of_tag_row(row: bytes, prefix_length: int) -> tuple[bytes, bytes]:
    """Family and dynamic tag in a row of the tag index."""
    family, at = unescape(row, prefix_length)
    return family, row[at:]


def timer_of_owned_tag_row(row: bytes, owner_length: int) -> tuple[bytes, Domain, bytes, bytes]:
    """Window, domain, family and dynamic tag in a row of the tag index.

    ``owner_length`` is the length of the row's ``owner_prefix``.
    """
    try:
        window, at = unescape(row, owner_length)
        domain = Domain(row[at])
    except (IndexError, ValueError) as error:
        message = f"row {row.hex()} follows no layout of this format"
        raise MalformedRow(message) from error
    family, at = unescape(row, at + 1)
    return window, domain, family, row[at:]


def timer_of_time_row(row: bytes, owner_length: int) -> tuple[int, bytes, bytes, bytes]:
    """Time, window, family and dynamic tag in a row of the time index.

    ``owner_length`` is the length of the row's ``owner_in_time``.
    """
    try:
        window, family, tag = row[_TIME.size + owner_length :].split(_END, 2)
    except ValueError as error:
        message = f"row {row.hex()} follows no layout of this format"
        raise MalformedRow(message) from error
    if b"\x00" in window:
        window = window.replace(b"\x00\xff", b"\x00")
    if b"\x00" in family:
        family = family.replace(b"\x00\xff", b"\x00")
    return int.from_bytes(row[_TIME.size - 8 : _TIME.size], "big") - _SIGN, window, family, tag


def stored_timer(row: bytes) -> tuple[int, int, bytes, bytes, bytes, bytes, int]:
    """As ``key_of_time_row``, then where the name of the timer starts in the row."""
    start = _TIME.size + _GROUP.size
    try:
        key, window, family, tag = row[start:].split(_END, 3)
    except ValueError as error:
        message = f"row {row.hex()} follows no layout of this format"
        raise MalformedRow(message) from error
    name = start + len(key) + len(window) + 2 * len(_END)
    if b"\x00" in key or b"\x00" in window or b"\x00" in family:
        key = key.replace(b"\x00\xff", b"\x00")
        window = window.replace(b"\x00\xff", b"\x00")
        family = family.replace(b"\x00\xff", b"\x00")
    time = int.from_bytes(row[_TIME.size - 8 : _TIME.size], "big") - _SIGN
    group = int.from_bytes(row[_TIME.size : start], "big")
    return time, group, key, window, family, tag, name


def tag_row_of(row: bytes, name: int) -> bytes:
    """The row in the tag index of a timer whose row in the time index is given.

    ``name`` is where its name starts there.
    """
    place = row[_TIME.size : name]
    domain = row[_STATE.size : _STATE.size + 1]
    return _TAGS_BYTE + row[1 : _STATE.size] + place + domain + row[name:]


def owner_of_time_row(row: bytes) -> bytes:
    """The ``owner_in_time`` in a row of the time index."""
    return row[_TIME.size : row.index(_END, _TIME.size + _GROUP.size) + len(_END)]


def key_of_time_row(row: bytes) -> tuple[int, int, bytes, bytes, bytes, bytes]:
    """Time, key group, key, window, family and dynamic tag in a row of the time index."""
    return stored_timer(row)[:6]


def state_of(row: bytes) -> int:
    """The state id of a row in any family but META."""
    return int(_STATE.unpack_from(row)[1])


def group_of(row: bytes) -> int:
    """The key group of a row in any family but META."""
    at = _TIME.size if row[0] == Family.TIMES else _STATE.size
    return int.from_bytes(row[at : at + _GROUP.size], "big")
