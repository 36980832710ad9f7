from __future__ import annotations

import sys
from types import ModuleType

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain.environment import default_environment
from sparkdrain.main_classes import FILE_NAME, install, main_classes, pickled

PROGRAM = """
import enum
from dataclasses import dataclass
from typing import NamedTuple
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

class Colour(enum.Enum):
    RED = 1

@dataclass
class Event:
    user: str
    colour: Colour

class Pair(NamedTuple):
    left: int

class Bound:
    def left(self):
        return LEFT

LEFT = (number for number in range(3))

class Step(beam.DoFn):
    pass

class Mine(PipelineOptions):
    pass

Alias = Event
"""


@pytest.fixture
def main(monkeypatch):
    """A program, as ``__main__``."""
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(PROGRAM, vars(main))
    return main


def test_classes_of_elements_are_found_and_those_of_steps_are_not(main):
    assert main_classes().keys() == {"Colour", "Event", "Pair", "Bound"}


def test_who_unpickles_them_can_read_elements_that_were_pickled_by_name(main, python, tmp_path):
    file = tmp_path / FILE_NAME
    file.write_bytes(pickled(main_classes()))
    coder = beam.coders.FastPrimitivesCoder()
    element = coder.encode([main.Event("ann", main.Colour.RED), main.Pair(7)])
    read = f"""
import pathlib
import apache_beam as beam
from sparkdrain.main_classes import install
install(pathlib.Path({str(file)!r}))
coder = beam.coders.FastPrimitivesCoder()
event, pair = coder.decode({element!r})
print(event.user, event.colour.name, pair.left)
assert coder.decode(coder.encode(event)) == event
"""
    done = python("-c", read)
    assert done.stdout.split() == ["ann", "RED", "7"], done.stderr


def test_one_that_cannot_be_pickled_does_not_keep_others_from_it(main, tmp_path):
    file = tmp_path / FILE_NAME
    file.write_bytes(pickled(main_classes()))
    install(file)
    installed = vars(sys.modules["__main__"])
    assert installed["Event"] is main.Event
    assert "Bound" not in installed


def test_a_program_with_classes_stages_them(main):
    (artifact,) = default_environment(PipelineOptions([])).artifacts()
    assert FILE_NAME in str(artifact)


def test_a_program_without_classes_stages_no_file(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    assert not default_environment(PipelineOptions([])).artifacts()
