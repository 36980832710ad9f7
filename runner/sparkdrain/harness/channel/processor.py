"""Runs bundles in an SDK harness of Beam's: by generated code, as far as that can be."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from sparkdrain.harness.beam import BundleProcessor, DataInputOperation, bundle_processor
from sparkdrain.harness.channel.factory import ChannelFactory
from sparkdrain.harness.channel.source import ChannelSource
from sparkdrain.harness.compiled.operation import CompiledOperation
from sparkdrain.harness.compiled.times import StepTimes
from sparkdrain.harness.compiled.tracker import StepTracker
from sparkdrain.harness.tree import made_operations

if TYPE_CHECKING:
    from apache_beam.portability.api import beam_fn_api_pb2, metrics_pb2

    from sparkdrain.harness.dofn import DoFnHandle


def compile_bundles() -> None:
    """Have Beam's harness in this process run bundles by ``ChannelProcessor``."""
    bundle_processor.BundleProcessor = ChannelProcessor


class ChannelProcessor(BundleProcessor):
    """Beam's, whose chains of simple steps are compiled.

    Nothing is compiled if samples are taken of elements, as only Beam's operations take them, or
    if the channel sends what it has after some time, for it may then be amid an element.
    """

    state_sampler: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._dofns: dict[str, DoFnHandle] = {}
        self._times: StepTimes | None = None
        self.ops: collections.OrderedDict[str, Any] = collections.OrderedDict()
        try:
            super().__init__(*args, **kwargs)
        except BaseException:
            self._close()
            raise
        for op in self.ops.values():
            if isinstance(op, DataInputOperation) and len(op.consumer) == 1:
                (chain,) = op.consumer
                if isinstance(chain, CompiledOperation):
                    ChannelSource(op, chain)

    def create_execution_tree(
        self, descriptor: beam_fn_api_pb2.ProcessBundleDescriptor
    ) -> collections.OrderedDict[str, Any]:
        """Operations by transform id, producers before consumers."""
        limit = getattr(self.data_channel_factory, "_data_buffer_time_limit_ms", 0)
        if self.data_sampler is not None or limit > 0:
            return super().create_execution_tree(descriptor)
        sampler = self.state_sampler
        factory = ChannelFactory(
            self.runner_capabilities,
            descriptor,
            self.data_channel_factory,
            self.counter_factory,
            sampler,
            self.state_handler,
            None,
        )
        self.timers_info = factory.extract_timers_info()
        factory.dofns = self._dofns
        # It is the sampler from now on: of Beam's bundles, and of what tells of them.
        self.state_sampler = factory.tracker = StepTracker(sampler)
        self._times = StepTimes(factory.tracker.look)
        return made_operations(descriptor, factory, compiled=True)

    def process_bundle(self, *args: Any, **kwargs: Any) -> Any:
        """Run a bundle."""
        if self._times is not None:
            self._times.start()
        return super().process_bundle(*args, **kwargs)

    def monitoring_infos(self) -> list[metrics_pb2.MonitoringInfo]:
        """What was counted in this bundle until now."""
        infos = super().monitoring_infos()
        return infos if self._times is None else self._times.shared_out(infos)

    def reset(self) -> None:
        """Forget what was counted."""
        super().reset()
        if self._times is not None:
            self._times.forget()

    def shutdown(self) -> None:
        """Tear the DoFns down."""
        self._close()
        super().shutdown()

    def _close(self) -> None:
        if self._times is not None:
            self._times.stop()
        for handle in self._dofns.values():
            handle.close()
