"""Coders as the shuffle uses them: nested encoding, lists in one call, metadata apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apache_beam import coders

_IMMUTABLE_CODERS = (
    coders.BytesCoder,
    coders.StrUtf8Coder,
    coders.VarIntCoder,
    coders.FloatCoder,
    coders.BooleanCoder,
    coders.TimestampCoder,
    coders.SingletonCoder,
)
IMMUTABLE_TYPES = frozenset({int, str, bytes, float, bool, type(None)})


def metadata_coder(window: coders.Coder) -> coders.Coder:
    """The coder of timestamp, windows and pane alone: of windowed values without a value.

    Args:
        window: the coder of windows.
    """
    return coders.WindowedValueCoder(coders.SingletonCoder(None), window)


def immutable_values(coder: coders.Coder) -> bool:
    """Whether values of ``coder`` cannot change after they were handed over."""
    if isinstance(coder, coders.TupleCoder):
        return all(immutable_values(part) for part in coder.coders())
    return type(coder) in _IMMUTABLE_CODERS


@dataclass(frozen=True, slots=True)
class ElementCoding:
    """What it takes to encode the elements of a PCollection and their metadata."""

    coder: coders.Coder
    window: coders.Coder
    value: Any
    """Coder impl of an element."""
    values: Any
    """Coder impl of a list of elements: a 4-byte count, then each element nested."""
    windowed: Any
    """Coder impl of an element with timestamp, windows and pane."""
    windowed_values: Any
    """Coder impl of a list of those."""
    metadata: Any
    """Coder impl of timestamp, windows and pane alone (around an empty value)."""

    @staticmethod
    def of(coder: coders.Coder, window: coders.Coder) -> ElementCoding:
        """The codings of a PCollection with this element coder and this window coder."""
        windowed = coders.WindowedValueCoder(coder, window)
        return ElementCoding(
            coder,
            window,
            coder.get_impl(),
            coders.ListCoder(coder).get_impl(),
            windowed.get_impl(),
            coders.ListCoder(windowed).get_impl(),
            coders.WindowedValueCoder(coders.BytesCoder(), window).get_impl(),
        )
