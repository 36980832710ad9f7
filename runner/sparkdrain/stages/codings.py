"""The coders and windowings of PCollections, as their edges need them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkdrain.shuffle.coding import ElementCoding

if TYPE_CHECKING:
    from apache_beam import coders
    from apache_beam.portability.api import beam_runner_api_pb2

    from sparkdrain.graph.plan import Edge


class Codings:
    """The coders of PCollections, as the shuffle needs them."""

    def __init__(self, context: Any, components: beam_runner_api_pb2.Components) -> None:
        self._context = context
        self._components = components

    def coder(self, edge: Edge) -> coders.Coder:
        """The element coder of the PCollection that the edge carries."""
        return self._context.coders.get_by_id(
            self._components.pcollections[edge.pcollection].coder_id
        )

    def coder_of(self, id_: str) -> coders.Coder:
        """The coder of that id."""
        return self._context.coders.get_by_id(id_)

    def producer(self, edge: Edge) -> str:
        """The name of the transform whose output it carries, as people know it."""
        name = self._components.pcollections[edge.pcollection].unique_name
        # Python's own are the length of the transform's name, that name, and the output's.
        for digits in range(1, len(name)):
            if not name[:digits].isdecimal():
                break
            start, end = digits, digits + int(name[:digits])
            if name[end : end + 1] == ".":
                return name[start:end]
        return name

    def windowing(self, edge: Edge) -> Any:
        """The windowing of that PCollection."""
        return self._context.windowing_strategies.get_by_id(
            self._components.pcollections[edge.pcollection].windowing_strategy_id
        )

    def window_coder(self, edge: Edge) -> coders.Coder:
        """The coder of its windows."""
        return self.windowing(edge).windowfn.get_window_coder()

    def elements(self, edge: Edge, coder: coders.Coder | None = None) -> ElementCoding:
        """How its elements are encoded (or only a part of them, that ``coder`` is for)."""
        return ElementCoding.of(coder or self.coder(edge), self.window_coder(edge))
