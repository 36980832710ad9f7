"""What the benchmarks of checkpoints and recovery conclude from what jobs write down."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks.durability.arm import Segment
from benchmarks.durability.cost import options_of, tell, ways
from benchmarks.durability.gated import counted
from benchmarks.durability.recovery import KEYS, Told


def told(tmp_path, lines):
    path = tmp_path / "told"
    written = Told(path)
    path.write_text(
        "".join(f"{time} {pid} {number} {count}\n" for time, pid, number, count in lines)
    )
    return written


def once(numbers, pid=1):
    return [(float(number), pid, number, number // KEYS + 1) for number in numbers]


def test_a_job_that_counted_again_from_its_checkpoint_is_right(tmp_path):
    lines = once(range(30)) + once(range(20, 50), pid=2)
    assert told(tmp_path, lines).wrong() == ""


def test_an_element_that_was_counted_twice_or_not_at_all_is_wrong(tmp_path):
    lines = once(range(30))
    twice = [*lines, (30.0, 2, 29, 7)]
    lost = [(*line[:3], line[3] - 1) if line[2] % KEYS == 3 else line for line in lines]
    assert "instead of" in told(tmp_path, twice).wrong()
    assert "instead of" in told(tmp_path, lost).wrong()


def test_output_has_come_back_when_a_new_process_speaks(tmp_path):
    written = told(tmp_path, [*once(range(3)), (9.5, 2, 3, 1)])
    assert written.wait_for_others({1}, 1) == 9.5
    assert written.processes() == {1, 2}


def test_a_line_that_is_being_written_is_not_there_yet(tmp_path):
    written = told(tmp_path, once(range(3)))
    with (tmp_path / "told").open("a") as file:
        file.write("12.0 5")
    assert len(written.lines()) == 3


def test_elements_are_those_of_all_processes(tmp_path):
    for name, count in (("a", "12"), ("b", ""), ("c", "30")):
        (tmp_path / name).write_text(count)
    assert counted(tmp_path) == 42


@pytest.mark.parametrize(
    ("of", "differ"),
    [
        ("checkpoints", {"--checkpoint_dir", "--checkpoint_ms"}),
        ("standby", {"--standby", "--metadata_store"}),
    ],
)
def test_jobs_differ_in_what_is_measured_alone(tmp_path, of, differ):
    without, with_ = (
        {option.split("=")[0] for option in way}
        for way in ways(options_of([f"--of={of}"]), tmp_path).values()
    )
    assert with_ - without == differ
    assert without <= with_


def test_turns_are_compared_with_their_neighbours(capsys):
    """A machine that slows down says nothing about checkpoints."""
    arms = [
        SimpleNamespace(
            name=name,
            segments=[Segment(speed * rate, cpu / speed, 0, 0, 1.0) for speed in (1, 0.5, 0.1)],
        )
        for name, rate, cpu in (("without", 1000, 20), ("with", 950, 21))
    ]
    tell(arms, 0.1)
    assert "cost: 5.0% of elements/s (below 10%: met), +5.0% of CPU time" in capsys.readouterr().out
