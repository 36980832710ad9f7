"""The harness in another process: a stage, run by an SDK harness that speaks the Fn API."""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from apache_beam.coders import VarIntCoder
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from typing_extensions import override

from sparkdrain.fnapi.aside import EMBEDDING
from sparkdrain.fnapi.descriptor import descriptor_for
from sparkdrain.fnapi.elements import Metadata, Output
from sparkdrain.fnapi.errors import failed, garbled
from sparkdrain.fnapi.inlet import FnInlet, FnKeyedInlet, GroupInlet, LentInlet
from sparkdrain.fnapi.large_groups import LargeGroups
from sparkdrain.fnapi.lives import WindowLives
from sparkdrain.fnapi.outbound import Outbound
from sparkdrain.fnapi.public_name import thread_group
from sparkdrain.fnapi.restrictions import FnRestrictions
from sparkdrain.fnapi.samples import Samples
from sparkdrain.fnapi.sight import busiest, stack_in, times
from sparkdrain.fnapi.stage_metrics import StageMetrics
from sparkdrain.fnapi.state_requests import SideRequests, StateAnswers, UserState, ValueCounts
from sparkdrain.fnapi.timers import TimerFamilies
from sparkdrain.fnapi.truncation import Truncated, truncating
from sparkdrain.fnapi.worker import Listener
from sparkdrain.graph import urns
from sparkdrain.graph.beam import proto_utils
from sparkdrain.graph.environments import can_sample, is_go, is_java, reads_groups_in_state
from sparkdrain.graph.plan import EdgeKind
from sparkdrain.graph.readers import processed_by
from sparkdrain.graph.wire import has_pairs
from sparkdrain.harness.harness import Harness
from sparkdrain.notes import add_note

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence

    from apache_beam.portability.api import metrics_pb2

    from sparkdrain.fnapi.harness_job import HarnessJob
    from sparkdrain.fnapi.harnesses import Harnesses
    from sparkdrain.fnapi.worker import SdkWorker
    from sparkdrain.graph.plan import Edge, EdgeId, Stage, TransformId
    from sparkdrain.harness.harness import (
        KeyedEdge,
        KeyedInlet,
        Remainder,
        RestrictionInlet,
        StateTerms,
        Writer,
    )
    from sparkdrain.harness.limits import UpTo
    from sparkdrain.harness.step_book import Frame

_LOGGER = logging.getLogger(__name__)
_FINALIZE_SECONDS: Final = 60.0
# Bytes of elements that go in the request for a bundle. Other requests wait behind them.
_EMBEDDED_BYTES: Final = 64 << 10
# A look at what a harness is at takes at most thrice the one and once the other.
_TELL_SECONDS: Final = 1.0
_MOMENT_SECONDS: Final = 0.5
_ELEMENT_COUNT: Final = "beam:metric:element_count:v1"
_COUNT: Final = VarIntCoder()


@dataclass(frozen=True, slots=True)
class Outside:
    """What stages outside of a slot's process are made with."""

    job: HarnessJob
    harnesses: Harnesses


@dataclass(frozen=True, slots=True)
class Wiring:
    """What a stage outside of a slot's process is connected with.

    Attributes:
        windowings: Beam's map of windowing strategies, by id.
        writers: what writes each edge out of the stage, by the edge's id.
        open_side_input: the content of a side input's edge; None if it is empty.
        state_terms: where and how long a stateful DoFn has its state, by its transform id.
        keep: whether the job needs the harness again when the stage has ended.
        script: tells the processing time of a script, microseconds; None if time is real.
    """

    edges: Mapping[EdgeId, Edge]
    components: beam_runner_api_pb2.Components
    windowings: Any
    writers: Mapping[EdgeId, Writer]
    open_side_input: Callable[[int], Any]
    state_terms: Callable[[str], StateTerms]
    outside: Outside
    keep: bool
    script: Callable[[], int] | None = None

    def windowing(self, pcollection: str) -> Any:
        """Beam's windowing strategy of a PCollection."""
        proto = self.components.pcollections[pcollection]
        return self.windowings.get_by_id(proto.windowing_strategy_id)

    def metadata(self, pcollection: str) -> Metadata:
        """What reads and writes timestamp, windows and pane of elements of a PCollection."""
        return Metadata(self.windowing(pcollection).windowfn.get_window_coder())


class OutsideHarness(Harness):
    """What is the same for all stages outside of a slot's process."""

    @override
    def start(self) -> None:
        """See ``Harness``. An SDK's harness is told with the first element."""

    @override
    def enter(self) -> None:
        pass

    @override
    def land(self) -> None:
        """Elements in flight are the affair of the SDK's harness: ``finish`` waits for them."""

    @override
    def take_deferred(self) -> list[Remainder]:
        """Nothing: ``finish`` goes on with all that was put off."""
        return []

    @override
    def resume(self, rest: Remainder) -> None:
        raise AssertionError(rest)

    @override
    def acknowledgement(self, transform: str, data: str) -> Callable[[], object]:
        raise NotImplementedError

    @override
    def tell_more(self, transform: TransformId, *, more: bool) -> None:
        pass


class FnHarness(OutsideHarness, Listener):
    """Runs a stage in an SDK harness, one bundle after the other."""

    # Whether it was told that bundles cannot be split.
    _tells_no_split = False

    def __init__(self, stage: Stage, wiring: Wiring) -> None:
        edges, outside, components = wiring.edges, wiring.outside, wiring.components
        environment = components.environments[stage.environment]
        self._stage, self._wiring = stage, wiring
        self._capabilities = frozenset(environment.capabilities)
        self._truncating: dict[TransformId, tuple[FnHarness, Truncated]] = {}
        self._harnesses = outside.harnesses
        self._outputs = {
            str(transform): Output(
                wiring.writers[edge],
                wiring.metadata(edges[edge].pcollection),
                pairs=has_pairs(edges[edge], components),
            )
            for transform, edge in stage.sinks
        }
        self._lives: dict[str, WindowLives] = {}
        self._counts: dict[tuple[str, str], ValueCounts] = {}
        # A sample of a group has all of its values, and is encoded when no bundle may read them.
        is_sampled = outside.job.samples is not None and can_sample(environment)
        self._groups = LargeGroups(
            are_in_state=reads_groups_in_state(environment) and not is_sampled
        )
        self._state = StateAnswers(
            SideRequests(
                {(side.transform, side.tag): side.edge for side in stage.side_inputs},
                wiring.open_side_input,
            ),
            UserState(self._lives, self._count),
            self._groups,
        )
        self._open_outputs: set[Any] = set()
        self._response: beam_fn_api_pb2.InstructionResponse | None = None
        self._instruction = ""
        self.ending = ""
        """Names the bundle that the harness has all the input of; "" if there is none."""
        self._to_finalize: list[str] = []
        self._residuals: list[beam_fn_api_pb2.DelayedBundleApplication] = []
        self._outbound: Outbound | None = None
        # Without a further level, a slot that gets no elements needs no harness.
        self._worker = outside.harnesses.lend(
            outside.job, stage.environment, environment, ahead=wiring.keep
        )
        self._metrics = StageMetrics(self._worker, self._capabilities)
        self._tokens = _side_tokens(stage, self._worker, environment)
        try:
            self._descriptor = descriptor_for(
                stage,
                edges,
                components,
                self._worker.life.endpoint,
                f"{stage.name}-{uuid.uuid4().hex}",
                groups_in_state=self._groups.are_in_state,
            )
            self._worker.register(self._descriptor)
            self._samples = _samples_of(self._worker, self._descriptor, environment, wiring)
            self._timers: dict[str, TimerFamilies] = {}
            self._families: list[tuple[str, str]] = []
            self._caches_state = True
            # Java's timers of processing time are so long after what its own clock tells.
            script = wiring.script if is_java(environment) else None
            for transform, proto in self._descriptor.transforms.items():
                if proto.spec.urn == urns.PAR_DO:
                    self._add_keyed(transform, proto, script)
            self._closing = set(self._families)
            if is_go(environment):
                # It waits for one end of timers for each transform, and for ever if more come.
                self._closing = set(dict(self._families).items())
            if self._caches_state:
                # State of a key changes only by this harness, as long as there is no other one.
                self._tokens.append(
                    beam_fn_api_pb2.ProcessBundleRequest.CacheToken(
                        user_state=beam_fn_api_pb2.ProcessBundleRequest.CacheToken.UserState(),
                        token=uuid.uuid4().bytes,
                    )
                )
            self._inlets: dict[TransformId, FnInlet] = {}
            for source, edge in stage.sources:
                kind = None if edge is None else edges[edge].kind
                self._inlets[source] = self._inlet_of(source, kind)
        except BaseException:
            outside.harnesses.give_back(self._worker)
            raise

    def _inlet_of(self, source: TransformId, kind: EdgeKind | None) -> FnInlet:
        (pcollection,) = self._descriptor.transforms[source].outputs.values()
        metadata = self._wiring.metadata(pcollection)

        def add(data: bytes) -> None:
            self._check()
            self._begin().add(source, data)

        if kind is EdgeKind.GROUP:
            return GroupInlet(add, metadata, self._groups, self.end_bundle)
        if kind is not None and processed_by(self._stage, source) is not None:
            return LentInlet(add, metadata, kind, source, self)
        return FnInlet(add, metadata, kind)

    def _add_keyed(
        self,
        transform: str,
        proto: beam_runner_api_pb2.PTransform,
        script: Callable[[], int] | None,
    ) -> None:
        """Know the state and the timers of a DoFn, if it has some."""
        payload = proto_utils.parse_Bytes(proto.spec.payload, beam_runner_api_pb2.ParDoPayload)
        specs = payload.timer_family_specs
        if not (payload.state_specs or specs):
            return
        if any(spec.HasField("ordered_list_spec") for spec in payload.state_specs.values()):
            # Python's cache takes each range for a state of its own, which nothing else changes.
            self._caches_state = False
        main = next(name for tag, name in proto.inputs.items() if tag not in payload.side_inputs)
        windowing = self._wiring.windowing(main)
        window = windowing.windowfn.get_window_coder()
        terms = self._wiring.state_terms(transform)
        lives = self._lives[transform] = WindowLives(terms, window.get_impl())
        if specs:
            self._timers[transform] = TimerFamilies(
                terms,
                lives,
                {family: spec.time_domain for family, spec in specs.items()},
                window,
                payload.on_window_expiration_timer_family_spec,
                windowing.allowed_lateness.micros,
                script,
            )
            self._families += [(transform, family) for family in specs]

    def _count(self, transform: str, name: str, several: Sequence[bytes]) -> list[int]:
        """How many values several parts of a multimap have. Only the harness knows their coder."""
        counts = self._counts.get((transform, name))
        if counts is None:
            payload = proto_utils.parse_Bytes(
                self._descriptor.transforms[transform].spec.payload,
                beam_runner_api_pb2.ParDoPayload,
            )
            coder = payload.state_specs[name].multimap_spec.value_coder_id
            counts = self._counts[transform, name] = ValueCounts(
                self._worker, self._descriptor, coder, capabilities=self._capabilities
            )
        return counts.count(several)

    # --- bundles ------------------------------------------------------------------------------

    def _begin(self) -> Outbound:
        """What takes what a bundle has. The harness starts one, unless it has one."""
        if self._outbound is not None:
            return self._outbound
        self._harnesses.await_connection(self._worker)
        self._response = None
        self._open_outputs = {*self._outputs, *self._families}
        request = beam_fn_api_pb2.ProcessBundleRequest(
            process_bundle_descriptor_id=self._descriptor.id, cache_tokens=self._tokens
        )
        if self._samples is not None:
            self._samples.begin()
        self._instruction = self._worker.expect(self)
        embedded = _EMBEDDED_BYTES if EMBEDDING in self._capabilities else 0
        self._outbound = Outbound(self._worker, self._instruction, request, embedded=embedded)
        return self._outbound

    def _check(self) -> None:
        """Raise what user code has raised, before more is sent in vain."""
        if self._response is not None and self._response.error:
            response = self._response
            bundle = self._ended()
            error = failed(response.error)
            for element in [] if self._samples is None else self._samples.failed(bundle):
                add_note(error, f"It was at an element of {element}")
            raise error

    @override
    def finish(self, *, drained: bool = False) -> None:
        self.end_bundle()
        while self._residuals:
            # A restriction may wait for it; and nothing of a bounded job is durable before its end.
            self.finalize()
            residuals, self._residuals = self._residuals, []
            time.sleep(max(0.0, min(rest.requested_time_delay.ToSeconds() for rest in residuals)))
            for rest in residuals:
                self._source_of(rest.application).add(rest.application.element)
            self.end_bundle()

    def end_bundle(self) -> None:
        """Process all that was fed, but for what the DoFn puts off."""
        for inlet in self._inlets.values():
            inlet.flush()
        if self._instruction:
            self._end_input()
            self._residuals += self.end_alone()

    def _end_input(self) -> None:
        """Tell the harness that nothing more comes in the bundle."""
        families = [(*family, family in self._closing) for family in self._families]
        self._begin().end(self._inlets, families)
        self.ending = self._instruction

    def _has_ended(self) -> bool:
        response = self._response
        return response is not None and not (self._open_outputs and not response.error)

    def _take_end(self) -> list[beam_fn_api_pb2.DelayedBundleApplication]:
        """The bundle has ended: what it leaves over."""
        self._check()
        assert self._response is not None
        response = self._response.process_bundle
        self._metrics.count(response)
        instruction = self._ended()
        if response.requires_finalization:
            self._to_finalize.append(instruction)
        if self._samples is not None:
            self._samples.look()
        return list(response.residual_roots)

    def _ended(self) -> str:
        instruction, self._instruction, self.ending = self._instruction, "", ""
        self._metrics.forget()
        self._outbound = None
        for inlet in self._inlets.values():
            inlet.ended()
        self._worker.forget(instruction)
        self._state.forget()
        return instruction

    def _source_of(self, application: beam_fn_api_pb2.BundleApplication) -> FnInlet:
        """Where a transform's main input comes in."""
        transforms, named = self._descriptor.transforms, application.transform_id
        wanted = transforms[named].inputs.get(application.input_id) if named in transforms else None
        for source, inlet in self._inlets.items():
            if wanted in transforms[source].outputs.values():
                return inlet
        why = f"nothing enters the stage at the input {application.input_id!r} of {named!r}"
        raise garbled(why, "a rest of a restriction")

    @override
    def teardown(self) -> None:
        if self._instruction:
            # The slot does not need what the bundle still does.
            self._worker.is_lost = True
            self._ended()
        elif self._samples is not None and not self._worker.is_lost:
            # The harness is given back whatever becomes of its samples.
            with contextlib.suppress(Exception):
                self._samples.end()
        for harness, _ in self._truncating.values():
            harness.teardown()
        self._harnesses.give_back(self._worker, keep=self._wiring.keep)

    # --- what comes from the harness ----------------------------------------------------------

    @override
    def progressed(self, answer: beam_fn_api_pb2.ProcessBundleProgressResponse) -> None:
        self._metrics.progressed(answer)

    @override
    def responded(self, response: beam_fn_api_pb2.InstructionResponse) -> None:
        self._response = response
        for data in response.process_bundle.elements.data:
            self.output(data)
        for timers in response.process_bundle.elements.timers:
            self.timers(timers)

    @override
    def output(self, data: beam_fn_api_pb2.Elements.Data) -> None:
        if data.data:
            output = self._outputs.get(data.transform_id)
            if output is None:
                why = f"they are of {data.transform_id!r}, where nothing leaves the stage"
                raise garbled(why)
            output.take(data.data)
        if data.is_last:
            self._open_outputs.discard(data.transform_id)

    @override
    def timers(self, timers: beam_fn_api_pb2.Elements.Timers) -> None:
        if timers.timers:
            families = self._timers.get(timers.transform_id)
            if families is None:
                why = f"the stage has none of {timers.transform_id!r}"
                raise garbled(why, "timers")
            families.take(timers.timer_family_id, timers.timers)
        if timers.is_last:
            self._open_outputs.discard((timers.transform_id, timers.timer_family_id))

    @override
    def state(self, request: beam_fn_api_pb2.StateRequest) -> beam_fn_api_pb2.StateResponse:
        return self._state.answer(request)

    # --- work ---------------------------------------------------------------------------------

    @override
    def inlet(self, source: TransformId) -> FnInlet:
        return self._inlets[source]

    @override
    def keyed(self, edge: KeyedEdge) -> KeyedInlet:
        return FnKeyedInlet(self._inlets[edge.source], self, edge.stateful)

    def has_come(self, transform: str, key: bytes, elements: list[Any]) -> None:
        """A DoFn gets elements of a key."""
        if transform in self._timers:
            self._timers[transform].has_come(key, elements)

    def expire(self, transform: str, up_to: UpTo) -> bool:
        """Forget windows that are over; whether the budget was enough."""
        return self._lives[transform].expire(up_to)

    def fire_due(self, transform: str, up_to: UpTo) -> bool:
        """Fire timers that are due in a bundle of their own; whether there were any."""
        if transform not in self._timers:
            return False
        due = self._timers[transform].due(up_to)
        if not due:
            return False
        outbound = self._begin()
        for family in sorted({family for family, _ in due}):
            encoded = b"".join(data for name, data in due if name == family)
            outbound.add_timers(transform, family, encoded)
        self.finish()
        self._timers[transform].fired()
        return True

    # --- restrictions -------------------------------------------------------------------------

    @override
    def restrictions(self, source: TransformId, transform: TransformId) -> RestrictionInlet:
        step = self._descriptor.transforms[transform].unique_name
        return FnRestrictions(self, source, transform, step, self._inlets[source].metadata)

    def begin_alone(self, source: TransformId, data: bytes) -> None:
        """Process an encoded element, with nothing beside it."""
        self.finish()
        self._inlets[source].handled += 1
        self._inlets[source].add(data)
        self._inlets[source].flush()
        self._end_input()

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the bundle, and not longer; whether it has come."""
        until = time.monotonic() + seconds
        while not self._has_ended() and (left := until - time.monotonic()) > 0:
            self._worker.wait(left)
        return self._has_ended()

    def made(self, transform: TransformId) -> int:
        """How many elements a transform has made in the bundle, as far as the harness tells."""
        if self._response is None:
            self._worker.ask_amid_bundle(_progress_of(self._instruction))
        ended = self._response or beam_fn_api_pb2.InstructionResponse()
        outputs = set(self._descriptor.transforms[transform].outputs.values())
        return sum(
            _COUNT.decode(info.payload)
            for info in self._metrics.so_far(ended.process_bundle)
            if info.urn == _ELEMENT_COUNT and info.labels.get("PCOLLECTION") in outputs
        )

    def split(self, source: TransformId, step: str) -> beam_fn_api_pb2.ProcessBundleSplitResponse:
        """Have the harness keep what it has begun, and give back the rest, if it can.

        Args:
            step: the name of the DoFn, for messages.

        Raises:
            HarnessFailed: user code could not split its work.
        """
        request = _split_of(self._instruction, source, 0.0, 1)
        answer = self._worker.ask_amid_bundle(request)
        if answer.error:
            self._check()  # of a bundle that has failed, its own error counts
            error = failed(answer.error)
            add_note(error, f"A restriction of {step!r} was to be split.")
            raise error
        return answer.process_bundle_split

    def split_ending(
        self, bundle: str, source: TransformId, keep: float, elements: int
    ) -> beam_fn_api_pb2.ProcessBundleSplitResponse:
        """Split the bundle ``ending``; empty if it has ended, or cannot be split now.

        From any thread.

        Args:
            bundle: its name.
            source: whose elements are to be split.
            keep: the part of what is left that it is to keep.
            elements: how many it has had.
        """
        answer = self._worker.ask(_split_of(bundle, source, keep, elements))
        if answer is None:
            return beam_fn_api_pb2.ProcessBundleSplitResponse()
        if answer.error and bundle == self.ending and not self._tells_no_split:
            self._tells_no_split = True
            _LOGGER.warning(
                "The work of one slot cannot be shared with idle ones: to split it failed. The job "
                "goes on. Correct the splitting of the DoFn: %s",
                answer.error,
            )
        return answer.process_bundle_split

    def end_alone(self) -> list[beam_fn_api_pb2.DelayedBundleApplication]:
        """Wait for the end of the bundle; what the DoFn has put off."""
        while not self._has_ended():
            self._worker.wait()
        return self._take_end()

    def truncate(self, source: TransformId, transform: TransformId, element: Any) -> Any | None:
        """What is left of a restriction, by the DoFn; Beam's default if its SDK cannot be asked."""
        if urns.TRUNCATE_RESTRICTIONS not in self._capabilities:
            outputs = self._descriptor.transforms[transform].outputs.values()
            bounded = beam_runner_api_pb2.IsBounded.BOUNDED
            kept = all(self._descriptor.pcollections[o].is_bounded == bounded for o in outputs)
            return element if kept else None
        if transform not in self._truncating:
            left = Truncated()
            stage, own = truncating(self._stage, source, transform, self._wiring.components)
            writers = {edge: left for _, edge in stage.sinks}
            wiring = replace(self._wiring, components=own, writers=writers)
            self._truncating[transform] = FnHarness(stage, wiring), left
        harness, left = self._truncating[transform]
        harness.inlet(source).feed_windowed([element])
        harness.finish()
        found = left.take()
        return found[0] if found else None

    @override
    def forget_side_inputs(self) -> None:
        for token in self._tokens:
            token.token = uuid.uuid4().bytes

    # --- what bundles leave behind ------------------------------------------------------------

    @property
    @override
    def needs_finalization(self) -> bool:
        return bool(self._to_finalize)

    @override
    def finalize(self) -> None:
        for _, callback in self.take_finalizers():
            callback()

    @override
    def take_finalizers(self) -> list[tuple[str, Callable[[], object]]]:
        taken, self._to_finalize = self._to_finalize, []
        return [("", partial(_finalize, self._worker, instruction)) for instruction in taken]

    @override
    def take_refused(self) -> list[tuple[str, str, int]]:
        return [
            (transform, family, count)
            for transform, timers in self._timers.items()
            for family, count in timers.take_refused()
        ]

    # --- looking on ---------------------------------------------------------------------------

    @override
    def infos(self) -> list[metrics_pb2.MonitoringInfo]:
        return self._metrics.infos()

    @override
    def handled(self) -> int:
        return max((inlet.handled for inlet in self._inlets.values()), default=0)

    @override
    def at_work(self) -> tuple[str, bytes | None]:
        """The step whose code takes time now. It is watched for a moment, which is waited for."""
        before = self._times()
        time.sleep(_MOMENT_SECONDS)
        found = busiest(before, self._times())
        return (self._descriptor.transforms[found].unique_name if found else ""), None

    def _times(self) -> Counter[str]:
        bundle = self._instruction
        asked = self._worker.ask(_progress_of(bundle), _TELL_SECONDS) if bundle else None
        if asked is None:
            return times(())
        return times(self._metrics.beside(asked.process_bundle_progress, _TELL_SECONDS))

    @override
    def stack(self) -> tuple[Frame, ...]:
        if not self._instruction:
            return ()
        worker = self._worker
        status = worker.status(_TELL_SECONDS)
        return stack_in(status, thread_group(worker.id), is_shared=worker.life.is_shared)


def _side_tokens(
    stage: Stage, worker: SdkWorker, environment: beam_runner_api_pb2.Environment
) -> list[beam_fn_api_pb2.ProcessBundleRequest.CacheToken]:
    """What lets a harness keep side inputs between bundles."""
    if worker.life.is_shared and is_go(environment):
        # It knows one token for each side input: that of the slot which was last to tell it.
        return []
    return [
        beam_fn_api_pb2.ProcessBundleRequest.CacheToken(
            side_input=beam_fn_api_pb2.ProcessBundleRequest.CacheToken.SideInput(
                transform_id=side.transform, side_input_id=side.tag
            ),
            token=uuid.uuid4().bytes,
        )
        for side in stage.side_inputs
    ]


def _samples_of(
    worker: SdkWorker,
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor,
    environment: beam_runner_api_pb2.Environment,
    wiring: Wiring,
) -> Samples | None:
    """What asks a harness for samples of a stage; None if the job or the SDK has none."""
    job = wiring.outside.job
    if job.samples is None or not can_sample(environment):
        return None
    by_time = job.samples_all
    return Samples(worker, descriptor, environment, job.samples, wiring.metadata, by_time=by_time)


def _progress_of(bundle: str) -> beam_fn_api_pb2.InstructionRequest:
    """Asks a harness how far a bundle is."""
    return beam_fn_api_pb2.InstructionRequest(
        process_bundle_progress=beam_fn_api_pb2.ProcessBundleProgressRequest(instruction_id=bundle)
    )


def _split_of(
    bundle: str, source: TransformId, keep: float, elements: int
) -> beam_fn_api_pb2.InstructionRequest:
    """Asks a harness to keep a part of what is left of a bundle, and to give back the rest."""
    desired = beam_fn_api_pb2.ProcessBundleSplitRequest.DesiredSplit(
        fraction_of_remainder=keep, estimated_input_elements=elements
    )
    return beam_fn_api_pb2.InstructionRequest(
        process_bundle_split=beam_fn_api_pb2.ProcessBundleSplitRequest(
            instruction_id=bundle, desired_splits={source: desired}
        )
    )


def _finalize(worker: SdkWorker, instruction: str) -> None:
    """Have a harness run what a bundle has registered for the time when it counts."""
    request = beam_fn_api_pb2.InstructionRequest(
        finalize_bundle=beam_fn_api_pb2.FinalizeBundleRequest(instruction_id=instruction)
    )
    answer = worker.ask(request, _FINALIZE_SECONDS)
    if answer is not None and answer.error:
        error = failed(answer.error)
        add_note(error, error.told)  # who calls finalizers logs their errors with their notes
        raise error
