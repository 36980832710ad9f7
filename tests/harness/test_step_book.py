"""Which step a stack stands in, from what was noted down before."""

from __future__ import annotations

import functools
import json
import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain.harness.step_book import StepBook, step_in
from tests.support.in_memory_rounds import run_in_rounds

BOOKS: list = []
SEEN: list = []


def shout(function):
    @functools.wraps(function)
    def shouting(*args):
        return function(*args)

    return shouting


class Bad(beam.DoFn):
    @shout
    def process(self, element):
        yield frames()


def frames():
    """The calls that this one is in, the innermost first."""
    frame, found = sys._getframe(1), []
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found


def book_of(tmp_path, *dofns) -> str:
    book = StepBook(tmp_path / "book")
    for dofn, step in dofns:
        book.dofn(dofn, step)
    return (tmp_path / "book").read_text() if (tmp_path / "book").exists() else ""


def of_map(function):
    return beam.Map(function).dofn


def test_a_book_that_cannot_be_written_fails_no_step_and_is_written_later(tmp_path):
    book = StepBook(tmp_path / "full" / "book")
    book.dofn(Bad(), "Bad")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "book").write_text('["half of a li')
    book.dofn(Bad(), "Bad")
    written = (tmp_path / "full" / "book").read_text()
    assert step_in(written, next(iter(Bad().process(1)))) == "Bad"


def test_methods_also_decorated_ones_and_functions_are_of_their_step(tmp_path):
    told = lambda x: frames()
    book = book_of(tmp_path, (Bad(), "Bad"), (of_map(told), "Told"))
    assert step_in(book, next(iter(Bad().process(1)))) == "Bad"
    assert step_in(book, told(1)) == "Told"
    assert step_in(book, frames()) == ""


def test_what_two_steps_share_is_said_to_be_of_either_unless_its_caller_tells(tmp_path):
    stack = next(iter(Bad().process(1)))
    book = book_of(tmp_path, (Bad(), "One"), (Bad(), "Two"))
    assert step_in(book, stack) == "One or Two"
    chain = json.dumps(["<compiled chain 5 from x>", 4, 4, "Two"])
    outside = [*stack, ("<compiled chain 5 from x>", 4, "run")]
    assert step_in(f"{book}{chain}\n", outside) == "Two"


def test_what_is_known_is_noted_down_once_and_names_are_kept_as_a_dump_shows_them(tmp_path):
    book = StepBook(tmp_path / "book")
    for _ in range(2):
        book.dofn(Bad(), "Bad")
    # One for what the decorator makes, and one for what it is given.
    assert len((tmp_path / "book").read_text().splitlines()) == 2
    code = compile("1", "/tmp/größe/" + 600 * "x", "eval")
    book = StepBook(tmp_path / "names")
    book.chain(code, [(1, "Größe")])
    shown = code.co_filename.encode("ascii", "backslashreplace").decode()[:500]
    assert step_in((tmp_path / "names").read_text(), [(shown, 1, "f")]) == "Größe"


def look(_) -> None:
    # Functions in C have no call on the stack: that of the chain is enough.
    chain = [frame for frame in frames() if frame[0].startswith("<compiled chain")]
    SEEN.extend(step_in(path.read_text(), chain) for path in BOOKS if path.exists())


def test_a_slot_notes_down_the_lines_of_its_chains(monkeypatch):
    def make(path):
        BOOKS.append(path)
        return StepBook(path)

    monkeypatch.setattr("sparkdrain.rounds.slots.slot.StepBook", make)
    pipeline = beam.Pipeline(options=PipelineOptions([]))
    _ = pipeline | beam.Create([1]) | "Good" >> beam.Map(str) | "Looks" >> beam.Map(look)
    run_in_rounds(pipeline, slots=1)
    assert "Looks" in SEEN
    assert set(SEEN) <= {"Looks", ""}
