"""Nexmark: Beam's queries give the same results in batch and in streaming mode."""

from __future__ import annotations

import random

import apache_beam as beam
import pytest
from apache_beam.metrics import monitoring_infos
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import metrics_pb2
from auction_site import events

from tests.nexmark.queries import FLAGS, QUERIES, answers, ask, created, streamed
from tests.support.in_memory import run_in_memory
from tests.support.in_memory_rounds import run_in_rounds
from tests.support.undoing import ATTEMPTS, undoing


def counters(reports):
    for report in reports:
        for serialized in report.metrics:
            info = metrics_pb2.MonitoringInfo.FromString(serialized)
            if info.urn == monitoring_infos.USER_COUNTER_URN:
                value = monitoring_infos.extract_counter_value(info)
                yield info.labels["NAMESPACE"], info.labels["NAME"], value


@pytest.mark.parametrize("number", QUERIES)
def test_a_query_gives_the_same_in_batch_and_in_rounds(number) -> None:
    made, chance = events(1_500), random.Random(number)
    batch = beam.Pipeline(options=PipelineOptions(FLAGS))
    ask(batch, created(made), number)
    expected = answers(counters(run_in_memory(batch, 2)), number)

    streaming = beam.Pipeline(options=PipelineOptions(FLAGS))
    ask(streaming, streamed(made, chance), number)
    rounds = run_in_rounds(streaming, slots=2, fail=undoing(number, 0.05), attempts=ATTEMPTS)
    assert expected
    assert answers(counters(rounds.schedule.reports()), number) == expected
