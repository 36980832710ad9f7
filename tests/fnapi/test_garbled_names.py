"""Names that a stage has not, in what a harness sends; and timers that no coder has written."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_fn_api_pb2 as api
from apache_beam.transforms import userstate

from sparkdrain.fnapi.errors import HarnessGarbled
from sparkdrain.graph import urns
from tests.support.scripted_harness import AT_SEVEN, ELEMENT, TIMERS, ends_of, run_scripted

TIMER = TIMERS.encode_nested(AT_SEVEN)


class Timed(beam.DoFn):
    LATER = userstate.TimerSpec("later", userstate.TimeDomain.WATERMARK)

    def process(self, pair, later=beam.DoFn.TimerParam(LATER)):
        yield pair

    @userstate.on_timer(LATER)
    def on_later(self):
        pass


def plain(pipeline):
    return pipeline | beam.Impulse() | beam.Reshuffle() | beam.Map(lambda _: None)


def timed(pipeline):
    pair = beam.Map(lambda _: ("k", 1)).with_output_types(tuple[str, int])
    return pipeline | beam.Impulse() | pair | "Timed" >> beam.ParDo(Timed())


def ends(descriptor, _bundle):
    return ends_of(descriptor)


def with_element_of_nobody(descriptor, _bundle):
    found = ends_of(descriptor)
    found.data.add(transform_id="nobody", data=ELEMENT + b"\x01x")
    return found


def with_timers(transform="", family="", data=b"\x01k"):
    def answer(descriptor, bundle):
        found = ends_of(descriptor)
        timers = {(each.transform_id, each.timer_family_id) for each in bundle.elements.timers}
        for own, known in timers:
            found.timers.add(
                transform_id=transform or own, timer_family_id=family or known, timers=data
            )
            found.timers.add(transform_id=own, timer_family_id=known, is_last=True)
        if not timers:
            for id_, proto in descriptor.transforms.items():
                if proto.spec.urn == urns.CHANNEL_SINK:
                    found.data.add(transform_id=id_, data=ELEMENT + b"\x01k\x01\x01")
        return found

    return answer


@pytest.mark.parametrize(
    ("build", "answer", "told"),
    [
        (plain, with_element_of_nobody, "elements .*'nobody', where nothing leaves the stage"),
        (timed, with_timers("nobody"), "timers .*the stage has none of 'nobody'"),
        (timed, with_timers(family="never"), "timers .*has no family 'never'"),
        (timed, with_timers(data=b"\x80" * 20), "timers that cannot be read: IndexError"),
        (timed, with_timers(data=TIMER[:-1]), "1 bytes are missing at the end"),
    ],
)
def test_what_is_of_nobody_or_cannot_be_read_ends_the_job_with_what_to_look_at(build, answer, told):
    with pytest.raises(HarnessGarbled, match=f"{told}.*a harness of the SDK"):
        run_scripted(build, answer)


def test_a_rest_that_enters_nowhere_ends_the_job_with_what_to_look_at():
    rest = api.DelayedBundleApplication(application={"transform_id": "nobody", "input_id": "in"})
    with pytest.raises(HarnessGarbled, match="nothing enters the stage at the input 'in'"):
        run_scripted(plain, ends, rests=[rest])


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("iterable_side_input", "has no side input"),
        ("multimap_side_input", "has no side input"),
        ("bag_user_state", "keeps no state"),
    ],
)
def test_a_state_of_nobody_is_answered_with_an_error(kind, told):
    asked = api.StateKey(**{kind: {"transform_id": "nobody"}})
    found = run_scripted(plain, ends, asks=[asked]).states
    assert found
    assert all(told in each.error for each in found)
