"""Where the elements of a KEYED edge enter a stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sparkdrain.graph.plan import TransformId
    from sparkdrain.harness.bundle import StageBundle
    from sparkdrain.harness.operations import SourceOperation


class Inlet(Protocol):
    """See ``stages.shard.Source``."""

    @property
    def transform(self) -> TransformId:
        """The source in the stage."""

    def bundle(self) -> StageBundle:
        """The stage's bundle, started."""

    def operation(self) -> SourceOperation:
        """The operation of the source, started."""
