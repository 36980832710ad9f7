"""What a user sees when something goes wrong in a pipeline; on a real Spark."""

from __future__ import annotations

import os
import signal
import sys

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.io import fileio
from apache_beam.transforms.util import Reshuffle

from sparkdrain.errors import UserCodeError, WorkerLost

pytestmark = pytest.mark.spark


def three_is_bad(number: int) -> int:
    if number == 3:
        msg = "three is bad"
        raise ValueError(msg)
    return number


def chained(number: int) -> int:
    try:
        return three_is_bad(number)
    except ValueError as error:
        msg = "while looking"
        raise LookupError(msg) from error


def leave(code: int) -> None:
    os._exit(code)


def die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang_up(_: int) -> None:
    os.closerange(3, 256)


class Refusing(beam.DoFn):
    def __init__(self, method: str) -> None:
        self.method = method

    def setup(self):
        self._called("setup")

    def start_bundle(self):
        self._called("start_bundle")

    def process(self, element):
        self._called("process")

    def finish_bundle(self):
        self._called("finish_bundle")

    def _called(self, method: str) -> None:
        if method == self.method:
            msg = f"no {method} today"
            raise RuntimeError(msg)


class BrokenCombine(beam.CombineFn):
    def create_accumulator(self):
        return 0

    def add_input(self, accumulator, element):
        return accumulator + element

    def merge_accumulators(self, accumulators):
        msg = "cannot merge"
        raise ArithmeticError(msg)

    def extract_output(self, accumulator):
        return accumulator


class Unordered:
    """A key whose encoding says nothing about equality."""


class UnorderedCoder(coders.Coder):
    def encode(self, value):
        return os.urandom(8)

    def decode(self, encoded):
        return Unordered()

    def is_deterministic(self):
        return False


def test_the_users_exception_comes_first_then_where_it_was_raised(pipeline):
    with pytest.raises(UserCodeError) as failed, pipeline() as p:
        _ = p | beam.Create([1, 2, 3, 4]) | "Boom" >> beam.Map(three_is_bad)
    text = str(failed.value)
    assert text.startswith("ValueError: three is bad [while running 'Boom']\n")
    assert "in three_is_bad" in text
    assert os.path.basename(__file__) in text
    assert "/sparkdrain/" not in text
    assert "org.apache.spark" not in text


def test_the_cause_that_the_user_gave_is_shown(pipeline):
    with pytest.raises(UserCodeError) as failed, pipeline() as p:
        _ = p | beam.Create([3]) | "Look" >> beam.Map(chained)
    text = str(failed.value)
    assert text.startswith("LookupError: while looking [while running 'Look']\n")
    assert "ValueError: three is bad\n\nThe above exception was the direct cause" in text


@pytest.mark.parametrize("method", ["setup", "start_bundle", "process", "finish_bundle"])
def test_every_method_of_a_dofn_may_raise_and_is_named_with_its_step(pipeline, method):
    with pytest.raises(UserCodeError) as failed, pipeline() as p:
        _ = p | beam.Create([1]) | "Refuse" >> beam.ParDo(Refusing(method))
    text = str(failed.value)
    assert text.startswith(f"RuntimeError: no {method} today [while running 'Refuse']")


def test_a_combine_that_raises_behind_the_shuffle_is_named_with_its_step(pipeline):
    with pytest.raises(UserCodeError) as failed, pipeline() as p:
        _ = p | beam.Create([("a", 1)] * 9) | "Sum" >> beam.CombinePerKey(BrokenCombine())
    text = str(failed.value)
    assert text.startswith("ArithmeticError: cannot merge [while running 'Sum")
    assert "in merge_accumulators" in text


def test_sys_exit_in_user_code_is_a_failure_of_the_job(pipeline):
    with pytest.raises(UserCodeError, match="SystemExit: 3"), pipeline() as p:
        _ = p | beam.Create([3]) | "Exit" >> beam.Map(sys.exit)


@pytest.mark.parametrize("end", [leave, die, hang_up])
def test_a_worker_that_ends_without_an_answer_fails_the_job_and_the_next_job_runs(pipeline, end):
    with pytest.raises(WorkerLost, match=r"ended without an answer"), pipeline() as p:
        _ = p | beam.Create([7]) | Reshuffle() | "End" >> beam.Map(end)
    with pipeline() as p:
        _ = p | beam.Create([1, 2]) | beam.Map(three_is_bad)


def test_a_key_without_a_deterministic_coder_is_refused_before_anything_runs(pipeline):
    coders.registry.register_coder(Unordered, UnorderedCoder)
    p = pipeline()
    key = beam.Map(lambda x: (Unordered(), x)).with_output_types(tuple[Unordered, int])
    _ = p | beam.Create([1]) | key | "Group" >> beam.GroupByKey()
    with pytest.raises(ValueError, match="deterministic"):
        p.run()


def test_a_key_that_turns_out_to_have_no_deterministic_encoding_names_the_step(pipeline):
    key = beam.Map(lambda x: (1j * x, x))
    with pytest.raises(UserCodeError) as failed, pipeline() as p:
        _ = p | beam.Create([1]) | key | "Group" >> beam.GroupByKey() | beam.Map(print)
    text = str(failed.value)
    assert text.startswith("TypeError: Unable to deterministically encode")
    assert "for the input of 'Group'" in text.splitlines()[0]


def test_a_module_that_the_workers_lack_is_named_with_the_options_that_send_it(pipeline):
    def use(_):
        import nowhere_to_be_found  # noqa: F401, PLC0415

    with pytest.raises(UserCodeError) as failed, pipeline() as p:
        _ = p | beam.Create([1]) | "Import" >> beam.Map(use)
    text = str(failed.value)
    assert text.startswith("ModuleNotFoundError: No module named 'nowhere_to_be_found'")
    assert "--extra_package" in text


def test_an_input_file_that_is_missing_is_named(pipeline, tmp_path):
    missing = str(tmp_path / "missing.txt")
    disallow = fileio.EmptyMatchTreatment.DISALLOW
    with pytest.raises(OSError, match=r"missing\.txt"):
        beam.io.ReadFromText(missing)
    with pytest.raises(UserCodeError, match=r"missing\.txt"), pipeline() as p:
        _ = p | fileio.MatchFiles(missing, disallow) | fileio.ReadMatches()


def test_an_output_that_cannot_be_written_names_the_place_and_the_step(pipeline, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserCodeError) as failed, pipeline() as p:
        _ = p | beam.Create(["x"]) | "Save" >> beam.io.WriteToText(str(tmp_path / "file" / "out"))
    text = str(failed.value)
    assert "file" in text.splitlines()[0]
    assert "Save/" in text.splitlines()[0]


def test_a_job_that_fails_while_it_writes_leaves_nothing_that_looks_complete(pipeline, tmp_path):
    numbers = range(1000)
    with pytest.raises(UserCodeError, match="three is bad"), pipeline() as p:
        _ = (
            p
            | beam.Create(numbers)
            | Reshuffle()
            | beam.Map(three_is_bad)
            | beam.Map(str)
            | beam.io.WriteToText(str(tmp_path / "out"), num_shards=2)
        )
    assert list(tmp_path.glob("out*")) == []


def test_an_unpicklable_text_in_an_exception_does_not_hide_it(pipeline):
    class Odd(Exception):
        def __str__(self) -> str:
            msg = "no text"
            raise RuntimeError(msg)

    def odd(_):
        raise Odd

    with pytest.raises(UserCodeError, match=r"Odd"), pipeline() as p:
        _ = p | beam.Create([1]) | "Odd" >> beam.Map(odd)


def test_a_very_long_text_is_shortened(pipeline):
    def long(_):
        raise ValueError("x" * 3_000_000 + "end")

    with pytest.raises(UserCodeError) as failed, pipeline() as p:
        _ = p | beam.Create([1]) | beam.Map(long)
    assert len(str(failed.value)) < 500_000
    assert "end [while running" in str(failed.value)
