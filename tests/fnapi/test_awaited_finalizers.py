"""Restrictions of a batch job that wait for a finalizer, in a harness of another process."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker

from tests.support.seen import see

FINALIZED: list[bool] = []


class _One(beam.transforms.core.RestrictionProvider):
    def initial_restriction(self, element):
        return OffsetRange(0, 2)

    def create_tracker(self, restriction):
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element, restriction):
        return restriction.size()


class _Waits(beam.DoFn):
    def process(
        self,
        element,
        finalizer=beam.DoFn.BundleFinalizerParam,
        tracker=beam.DoFn.RestrictionParam(_One()),
    ):
        position = tracker.current_restriction().start
        if FINALIZED or position:
            while tracker.try_claim(position):
                yield position
                position += 1
        elif tracker.try_claim(position):
            yield position
            finalizer.register(lambda: FINALIZED.append(True))
            tracker.defer_remainder()


def _note(position):
    return position, bool(FINALIZED)


def test_what_is_put_off_goes_on_after_the_bundle_is_finalized(run):
    FINALIZED.clear()

    def build(pipeline):
        made = pipeline | beam.Create(["a"]) | beam.ParDo(_Waits())
        return made | beam.Map(_note) | beam.Map(see)

    assert run(build)[1] == [(0, False), (1, True)]
