"""Where the elements of an edge enter a stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparkdrain.graph.plan import TransformId
    from sparkdrain.stages.shards.shard import Shard

# Elements fed at one go; between two goes, deferred work is looked after.
_FEED = 4096


class Source:
    """Where the elements of an edge enter a shard."""

    def __init__(self, shard: Shard, transform: TransformId) -> None:
        self.shard = shard
        self.transform = transform

    def feed(self, values: list[Any], context: Any) -> None:
        """Process values that share the metadata of ``context``."""
        if not values:
            return
        inlet = self.shard.open().inlet(self.transform)
        for start in range(0, len(values), _FEED):
            inlet.feed(values[start : start + _FEED], context)
            self.shard.resume_due()

    def feed_windowed(self, elements: list[Any]) -> None:
        """Process windowed values."""
        if not elements:
            return
        inlet = self.shard.open().inlet(self.transform)
        for start in range(0, len(elements), _FEED):
            inlet.feed_windowed(elements[start : start + _FEED])
            self.shard.resume_due()

    def tell_more(self, transform: TransformId, *, more: bool) -> None:
        """Tell a DoFn, if it wants to know, whether further elements are safe."""
        harness = self.shard.opened
        if harness is not None:
            harness.tell_more(transform, more=more)

    def split(self, keep: float) -> list[Any]:
        """Give a part of the work away, see ``Inlet.split``; may be called from any thread."""
        harness = self.shard.opened
        return [] if harness is None else harness.inlet(self.transform).split(keep)
