"""Answers Beam's state requests for side inputs from what is published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from apache_beam import coders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sparkdrain.graph.plan import Stage, TransformId


class SideContent(Protocol):
    """A side input: ``SideFile`` in batch, ``WindowedContent`` in streaming.

    Attributes:
        is_for_all_threads: whether it may be read outside of the slot's thread.
    """

    is_for_all_threads: bool

    def values(
        self, section: bytes, key: bytes, decode: Callable[[bytes], list[Any]]
    ) -> Iterator[Any]:
        """The values of an encoded window and key."""

    def keys(self, section: bytes) -> Iterator[tuple[bytes, Iterator[bytes]]]:
        """Each key of an encoded window, with its chunks."""


class SideInputState:
    """The state handler of a stage: finds the content of (transform, tag), reads what is asked."""

    def __init__(
        self,
        stage: Stage,
        open_file: Callable[[int], SideContent | None],
    ) -> None:
        self._edges = {(side.transform, side.tag): side.edge for side in stage.side_inputs}
        self._open = open_file

    def _content(self, transform_id: TransformId, tag: str) -> SideContent | None:
        return self._open(self._edges[transform_id, tag])

    def is_for_all_threads(self, transform_id: TransformId, tag: str) -> bool:
        """Whether a side input may be read outside of the slot's thread."""
        content = self._content(transform_id, tag)
        return content is None or content.is_for_all_threads

    def by_key(
        self, transform_id: TransformId, tag: str, window: bytes, coder: coders.Coder
    ) -> dict[bytes, list[Any]]:
        """All that an encoded window of a side input has: by encoded key, values of ``coder``."""
        content = self._content(transform_id, tag)
        if content is None:
            return {}
        decode = _list_decoder(coder.get_impl())
        return {
            key: [value for chunk in chunks for value in decode(chunk)]
            for key, chunks in content.keys(window)
        }

    def blocking_get(self, state_key: Any, coder: Any) -> Iterator[Any]:
        """The values under ``state_key``, decoded with ``coder``.

        Raises:
            NotImplementedError: the key is not one of a side input.
        """
        kind = state_key.WhichOneof("type")
        request = getattr(state_key, kind)
        if kind == "iterable_side_input":
            return self._values(request, b"", coder)
        if kind == "multimap_side_input":
            return self._values(request, request.key, coder)
        msg = f"state request {kind} is not one of a side input"
        raise NotImplementedError(msg)

    def _values(self, request: Any, key: bytes, coder: Any) -> Iterator[Any]:
        content = self._content(request.transform_id, request.side_input_id)
        if content is None:
            return iter(())
        impl = coder.get_impl() if isinstance(coder, coders.Coder) else coder
        decode = _list_decoder(impl)
        return content.values(request.window, key, decode)


def _list_decoder(impl: Any) -> Callable[[bytes], list[Any]]:
    return coders.coder_impl.ListCoderImpl(impl).decode
