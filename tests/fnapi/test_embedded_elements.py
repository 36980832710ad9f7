"""Elements and timers of small bundles go within requests and answers, if the SDK can do that."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2 as api
from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Timestamp

from sparkdrain.fnapi import outbound as outbound_module
from sparkdrain.fnapi.java import java_variables
from sparkdrain.fnapi.outbound import Outbound
from sparkdrain.fnapi.provision import provision_info
from tests.support.scripted_harness import AT_SEVEN, ELEMENT, TIMERS, ends_of, run_scripted

IN_ANSWERS = common_urns.runner_protocols.CONTROL_RESPONSE_ELEMENTS_EMBEDDING.urn
KEY = b"\x01k"


def _two_levels(pipeline):
    return pipeline | beam.Impulse() | beam.Reshuffle() | beam.Map(lambda _: None)


def _one_element(descriptor, _bundle):
    found = ends_of(descriptor)
    for sink in [part.transform_id for part in found.data]:
        found.data.add(transform_id=sink, data=ELEMENT + b"\x01x")
    return found


def test_a_small_bundle_is_one_request_and_one_answer():
    scripted = run_scripted(_two_levels, _one_element)
    assert not scripted.streamed
    assert len(scripted.bundles) > 1
    for bundle in scripted.bundles:
        assert [part.is_last for part in bundle.elements.data] == [False, True]
    assert scripted.bundles[-1].elements.data[0].data.endswith(b"\x01x")


class _Timed(beam.DoFn):
    LATER = userstate.TimerSpec("later", userstate.TimeDomain.WATERMARK)

    def process(self, pair, later=beam.DoFn.TimerParam(LATER)):
        later.set(Timestamp(7))
        yield pair

    @userstate.on_timer(LATER)
    def on_later(self):
        pass


def test_timers_are_set_by_an_answer_and_fire_by_a_request():
    def build(pipeline):
        pair = beam.Map(lambda _: ("k", 1)).with_output_types(tuple[str, int])
        _ = pipeline | beam.Impulse() | pair | beam.ParDo(_Timed())

    def answer(descriptor, bundle):
        found = ends_of(descriptor)
        for sink in [part.transform_id for part in found.data]:
            found.data.add(transform_id=sink, data=ELEMENT + KEY + b"\x01\x01")
        families = [(one.transform_id, one.timer_family_id) for one in bundle.elements.timers]
        for transform, family in set(families):
            if bundle.elements.data[0].data:
                found.timers.add(
                    transform_id=transform,
                    timer_family_id=family,
                    timers=TIMERS.encode_nested(AT_SEVEN),
                )
            found.timers.add(transform_id=transform, timer_family_id=family, is_last=True)
        return found

    scripted = run_scripted(build, answer)
    assert not scripted.streamed
    set_by = scripted.bundles[-2].elements
    assert [timers.timers for timers in set_by.timers] == [b""]
    fired = scripted.bundles[-1].elements
    assert fired.data[0].is_last
    assert TIMERS.decode_nested(fired.timers[0].timers) == AT_SEVEN


class _Line:
    """The line to a harness, which notes what goes where."""

    def __init__(self):
        self.sent = []

    def process(self, _, request):
        self.sent.append(("request", len(request.elements.data), request.elements.ByteSize() > 0))

    def send(self, elements, name):
        assert not name
        self.sent.append(("stream", len(elements.data), elements.data[-1].is_last))


@pytest.mark.parametrize(
    ("embedded", "size", "sent"),
    [
        (0, 10, [("request", 0, False), ("stream", 2, True)]),
        (100, 100, [("request", 2, True)]),
        (100, 101, [("request", 0, False), ("stream", 2, True)]),
        (100, 1001, [("request", 0, False), ("stream", 1, False), ("stream", 1, True)]),
        (5000, 1001, [("request", 2, True)]),
    ],
)
def test_a_bundle_that_is_not_small_goes_by_the_stream(monkeypatch, embedded, size, sent):
    monkeypatch.setattr(outbound_module, "_MESSAGE_BYTES", 1000)
    line = _Line()
    outbound = Outbound(line, "1", api.ProcessBundleRequest(), embedded=embedded)
    outbound.add("source", bytes(size))
    outbound.end(["source"], [])
    assert line.sent == sent


def test_harnesses_are_told_that_answers_may_have_elements(tmp_path):
    variables = java_variables({}, "id", "127.0.0.1:1", tmp_path)
    assert IN_ANSWERS in variables["RUNNER_CAPABILITIES"].split()
    assert IN_ANSWERS in provision_info("id", "here", {}, []).runner_capabilities
