"""What user code gets of a state that is too large to be read at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from apache_beam.coders import coder_impl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")


class Again(Generic[T]):
    """An iterable that can be iterated again: each time it asks anew."""

    __slots__ = ("__weakref__", "_items", "_source")

    def __init__(self, source: Callable[[], Iterator[T]]) -> None:
        self._source = source
        self._items: list[T] | None = None

    def __iter__(self) -> Iterator[T]:
        return self._source() if self._items is None else iter(self._items)

    def load(self) -> None:
        """Hold all items from now on: the source is about to lose them."""
        if self._items is None:
            self._items = list(self._source())

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


coder_impl.FastPrimitivesCoderImpl.register_iterable_like_type(Again)
