"""Bundles of one stage, run by Beam's processor or by ours, over a data channel in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners.worker import data_plane
from apache_beam.transforms import environments

from sparkdrain.fnapi.descriptor import descriptor_for
from sparkdrain.graph import urns
from sparkdrain.graph.translate import translate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apache_beam.runners.worker.bundle_processor import BundleProcessor


class _NoState:
    """Answers nothing: no bundle here asks for state or side inputs."""


@dataclass
class Outcome:
    """What a bundle has made."""

    sent: dict[str, bytes] = field(default_factory=dict)
    """By PCollection, the bytes on the data channel."""
    counts: dict[str, int] = field(default_factory=dict)
    """By PCollection, its elements."""
    sized: set[str] = field(default_factory=set)
    """PCollections of which the size of an element is known."""
    infos: list[Any] = field(default_factory=list)


def stages_of(build: Callable[[beam.Pipeline], Any]) -> list[Any]:
    """The descriptors of a pipeline's stages, as a harness gets them."""
    pipeline = beam.Pipeline()
    build(pipeline)
    environment = environments.ExternalEnvironment("localhost:1")
    plan = translate(pipeline.to_runner_api(default_environment=environment))
    components = beam_runner_api_pb2.Components.FromString(plan.components)
    edges = {edge.id: edge for edge in plan.edges}
    stages = (stage for level in plan.levels for stage in level)
    return [descriptor_for(stage, edges, components, "here", "1") for stage in stages]


class Stage:
    """A stage in a processor of bundles.

    Args:
        descriptor: of the stage.
        kind: the class of the processor.
    """

    def __init__(
        self,
        descriptor: Any,
        kind: type[BundleProcessor],
        *,
        data_sampler: Any = None,
        limit: int = 0,
    ) -> None:
        copy = beam_fn_api_pb2.ProcessBundleDescriptor()
        copy.CopyFrom(descriptor)
        # No channel for timers.
        copy.ClearField("timer_api_service_descriptor")
        self._channel = data_plane.InMemoryDataChannel(data_buffer_time_limit_ms=limit)
        factory = data_plane.InMemoryDataChannelFactory(self._channel)
        factory._data_buffer_time_limit_ms = limit
        self.processor = kind(frozenset(), copy, _NoState(), factory, data_sampler)
        self.descriptor = copy
        by_urn = {urn: [] for urn in (urns.CHANNEL_SOURCE, urns.CHANNEL_SINK)}
        for id_, proto in copy.transforms.items():
            by_urn.get(proto.spec.urn, []).append(id_)
        (self.source,), self.sinks = by_urn[urns.CHANNEL_SOURCE], by_urn[urns.CHANNEL_SINK]
        self._number = 0

    @property
    def coder(self) -> Any:
        """Of the elements that the source reads."""
        return self.processor.ops[self.source].windowed_coder

    def encoded(self, elements: Iterable[Any]) -> bytes:
        """Windowed values as they are on the data channel."""
        impl = self.coder.get_impl()
        return b"".join(impl.encode_nested(element) for element in elements)

    def run(self, *messages: bytes) -> Outcome:
        """Run a bundle with these messages; what it has made."""
        self._number += 1
        instruction = str(self._number)
        for data in messages:
            self._channel._inputs.append(
                beam_fn_api_pb2.Elements.Data(
                    instruction_id=instruction, transform_id=self.source, data=data
                )
            )
        self.processor.process_bundle(instruction)
        outcome = Outcome(infos=self.processor.monitoring_infos())
        for data in self._channel.inverse().input_elements(instruction, None):
            (pcollection,) = self.descriptor.transforms[data.transform_id].inputs.values()
            outcome.sent[pcollection] = outcome.sent.get(pcollection, b"") + data.data
        for info in outcome.infos:
            count = beam.coders.VarIntCoder().decode(info.payload) if info.payload else 0
            if info.urn == "beam:metric:element_count:v1":
                outcome.counts[info.labels["PCOLLECTION"]] = count
            elif info.urn == "beam:metric:sampled_byte_size:v1" and count:
                outcome.sized.add(info.labels["PCOLLECTION"])
        self.processor.reset()
        return outcome

    def made(self, outcome: Outcome) -> list[Any]:
        """The windowed values that the only sink has sent."""
        (sink,) = self.sinks
        (pcollection,) = self.descriptor.transforms[sink].inputs.values()
        impl = self.processor.ops[sink].windowed_coder_impl
        stream = create_InputStream(outcome.sent.get(pcollection, b""))
        made = []
        while stream.size() > 0:
            made.append(impl.decode_from_stream(stream, True))
        return made
