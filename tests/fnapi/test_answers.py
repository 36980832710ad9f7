"""Answers of the state API that take several messages, of which any can be asked for again."""

from __future__ import annotations

import apache_beam as beam

from sparkdrain.fnapi.large_groups import LargeGroups
from sparkdrain.fnapi.state_requests import SideRequests, StateAnswers, UserState
from tests.support.seen import see


def test_a_part_can_be_read_again_in_this_bundle_and_in_later_ones(monkeypatch):
    monkeypatch.setattr("sparkdrain.fnapi.state_requests._ANSWER_BYTES", 4)
    pieces = [b"ab", b"cde", b"f", b"ghij", b"k"]
    sides, state = SideRequests({}, lambda _: None), UserState({}, lambda *_: [])
    answers = StateAnswers(sides, state, LargeGroups())

    def rest(token):
        found = b""
        while True:
            part = answers.part(token, lambda: iter(pieces)).get
            found += part.data
            token = part.continuation_token
            if not token:
                return found

    first = answers.part(b"", lambda: iter(pieces)).get
    assert first.data == b"abcde"
    assert rest(first.continuation_token) == b"fghijk"
    assert rest(first.continuation_token) == b"fghijk"
    answers.forget()
    assert rest(first.continuation_token) == b"fghijk"
    assert answers.part(b"nonsense", lambda: iter(pieces)).error


def test_a_large_side_input_is_read_for_each_element(run):
    def build(pipeline):
        large = pipeline | "Large" >> beam.Create(range(9)) | beam.Map(lambda n: bytes(1 << 20))
        return (
            pipeline
            | beam.Create([1, 2, 3])
            | "Use" >> beam.Map(lambda _, all_: sum(map(len, all_)), beam.pvalue.AsIter(large))
            | beam.Map(see)
        )

    _, seen = run(build, slots=1)
    assert seen == [9 << 20] * 3
