"""DoFns that pages show do what the pages say."""

from __future__ import annotations

import re

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.transforms import userstate
from apache_beam.transforms.window import TimestampedValue

from tests.docs.pages import ROOT
from tests.support.recorded import emitted_in_batch

NAMES = {
    "beam": beam,
    "userstate": userstate,
    "StrUtf8Coder": StrUtf8Coder,
    "VarIntCoder": VarIntCoder,
}


def shown(page, name):
    """The class of that name in the first block of code that has it."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    (block,) = (block for block in blocks if f"class {name}(" in block)
    program, _, _ = block.partition("\n\n\npipeline |")
    names = dict(NAMES)
    exec(program, names)
    return names[name]


def test_the_maps_of_the_streaming_page_count_words():
    said = [("ana", "hello"), ("ana", "you"), ("ana", "hello"), ("bo", "hello")]
    found = emitted_in_batch(
        lambda p: p | beam.Create(said) | beam.ParDo(shown("streaming.md", "CountWords")())
    )
    assert sorted(found) == [
        ("ana", "hello", 1),
        ("ana", "hello", 2),
        ("ana", "you", 1),
        ("bo", "hello", 1),
    ]


def test_the_job_of_the_streaming_tour_adds_up_what_users_pay():
    paid = [("ana", 30, 0), ("ana", 5, 180), ("bo", 7, 60)]
    found = emitted_in_batch(
        lambda p: (
            p
            | beam.Create(paid)
            | beam.Map(lambda each: TimestampedValue(each[:2], each[2]))
            | beam.ParDo(shown("architecture_streaming.md", "Quiet")())
        )
    )
    assert sorted(found) == [("ana", 35), ("bo", 7)]
