"""One stage's part in one slot, and where its elements come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sparkdrain.stages.residuals import Residuals

if TYPE_CHECKING:
    from collections.abc import Callable

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.graph.plan import Stage, TransformId
    from sparkdrain.harness.bundle import StageBundle
    from sparkdrain.harness.operations import SourceOperation

# Elements fed at one go; between two goes, deferred work is looked after.
_FEED = 4096


class Shard:
    """Opens its bundle when the first element comes: what gets none costs nothing.

    A DoFn is therefore never set up, nor its ``finish_bundle`` called, where it has nothing to do.
    """

    def __init__(self, stage: Stage, make_bundle: Callable[[Stage], StageBundle]) -> None:
        self.stage = stage
        self._make_bundle = make_bundle
        self._bundle: StageBundle | None = None
        self._residuals: Residuals | None = None

    def open(self) -> StageBundle:
        """The bundle, started; what this thread does from now on belongs to it."""
        if self._bundle is None:
            self._bundle = self._make_bundle(self.stage)
            self._residuals = Residuals(self._bundle)
            self._bundle.start()
        self._bundle.enter()
        return self._bundle

    @property
    def opened(self) -> StageBundle | None:
        """The bundle, if there was an element; may be asked for from any thread."""
        return self._bundle

    def resume_due(self) -> None:
        """Process what the stage has put off, and need not wait."""
        if self._residuals is not None:
            self._residuals.resume_due()

    def finish(self) -> None:
        """All elements were fed: process what was put off, and end the bundle."""
        if self._bundle is not None and self._residuals is not None:
            self._bundle.enter()
            self._residuals.resume_all()
            self._bundle.finish()

    def finalize(self) -> None:
        """See ``StageBundle.finalize``."""
        if self._bundle is not None:
            self._bundle.finalize()

    def infos(self) -> list[metrics_pb2.MonitoringInfo]:
        """All metrics."""
        return [] if self._bundle is None else self._bundle.infos()

    def teardown(self) -> None:
        """See ``StageBundle.teardown``."""
        if self._bundle is not None:
            self._bundle.teardown()


class Openable(Protocol):
    """A part of a stage that can be fed; see ``Shard``."""

    def open(self) -> StageBundle:
        """The bundle, started."""

    def resume_due(self) -> None:
        """Called between elements."""

    @property
    def opened(self) -> StageBundle | None:
        """The bundle, if there ever was an element."""


class Source:
    """Where the elements of an edge enter a shard."""

    def __init__(self, shard: Openable, transform: TransformId) -> None:
        self.shard = shard
        self.transform = transform

    def feed(self, values: list[Any], context: Any) -> None:
        """Process values that share the metadata of ``context``."""
        if not values:
            return
        operation = self.shard.open().source(self.transform)
        for start in range(0, len(values), _FEED):
            operation.feed(values[start : start + _FEED], context)
            self.shard.resume_due()

    def feed_windowed(self, elements: list[Any]) -> None:
        """Process windowed values."""
        if not elements:
            return
        operation = self.shard.open().source(self.transform)
        for start in range(0, len(elements), _FEED):
            operation.feed_windowed(elements[start : start + _FEED])
            self.shard.resume_due()

    def bundle(self) -> StageBundle:
        """The stage's bundle, started."""
        return self.shard.open()

    def operation(self) -> SourceOperation:
        """The operation that takes in the elements, started."""
        return self.shard.open().source(self.transform)

    def tell_more(self, transform: TransformId, *, more: bool) -> None:
        """Tell a DoFn, if it wants to know, whether further elements are safe."""
        bundle = self.shard.opened
        if bundle is not None:
            bundle.tell_more(transform, more=more)

    def split(self, keep: float) -> list[Any]:
        """See ``SourceOperation.split``; may be called from any thread."""
        bundle = self.shard.opened
        return [] if bundle is None else bundle.source(self.transform).split(keep)
