"""All slots start harnesses for later levels at one time, also slots without elements."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.transforms import environments

from sparkdrain.fnapi.harness import Outside
from sparkdrain.fnapi.harnesses import HarnessJob
from tests.support.in_memory import run_in_memory
from tests.support.scripted_harness import Scripted, ends_of


class Counted(Scripted):
    """Notes what is lent and given back."""

    def __init__(self):
        super().__init__(lambda descriptor, _: ends_of(descriptor))
        self.lent, self.back = [], []

    def lend(self, job, id_, environment, *, ahead=True):
        self.lent.append(ahead)
        return self.worker

    def give_back(self, worker, *, keep=True):
        self.back.append(keep)


def test_each_slot_starts_its_own_once():
    harnesses = Counted()
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Impulse() | beam.Map(lambda _: (1, 2)) | beam.GroupByKey() | beam.Map(print)
    try:
        run_in_memory(
            pipeline,
            3,
            environment=environments.ExternalEnvironment("nowhere"),
            outside=Outside(HarnessJob("job", {}), harnesses),
        )
    finally:
        harnesses.worker.close()
    # In the first level each slot starts its own, and one uses it. Nothing comes to the second.
    assert harnesses.lent == [True] * 4
    assert harnesses.back == [True] * 4
