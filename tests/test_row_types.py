"""The types of rows in a pipeline, and how a worker comes to know them."""

import dataclasses
import pickle
import subprocess
import sys
import typing

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

from sparkdrain.environment import add_row_types, default_environment
from sparkdrain.row_types import FILE_NAME, RowTypes, install, pickled_row_types


class Inner(typing.NamedTuple):
    number: int


@dataclasses.dataclass
class Outer:
    one: Inner
    some: typing.Sequence[Inner]


def pipeline_of(type_, **how):
    coders.registry.register_coder(type_, coders.RowCoder)
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([1]) | beam.Map(lambda _: None).with_output_types(type_)
    return pipeline.to_runner_api(**how)


def names(data: bytes) -> set[str]:
    return {name.rpartition(".")[2] for name, _, _ in RowTypes.decode(data).types}


def test_types_in_types_are_found():
    assert names(pickled_row_types(pipeline_of(Outer))) == {"Inner", "Outer"}


def test_types_that_beam_generates_are_not_sent():
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([1]) | beam.Select(a=int)
    proto = pipeline.to_runner_api()
    assert any(
        coder.spec.urn.startswith("beam:coder:row") for coder in proto.components.coders.values()
    )
    assert pickled_row_types(proto) == b""


def test_another_process_decodes_rows_as_the_types_that_they_were(tmp_path):
    class Told(typing.NamedTuple):
        word: str

        def loud(self) -> str:
            return self.word.upper()

    (tmp_path / FILE_NAME).write_bytes(pickled_row_types(pipeline_of(Told)))
    coder = coders.registry.get_coder(Told)
    given = (tmp_path / FILE_NAME, pickle.dumps(coder), coder.encode(Told("a")))
    code = (
        "import pickle, sys; from sparkdrain.row_types import install\n"
        "path, coder, data = pickle.load(sys.stdin.buffer)\n"
        "install(path); print(pickle.loads(coder).decode(data).loud())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(given), capture_output=True, check=False
    )
    assert (ended.stdout, ended.returncode) == (b"A\n", 0), ended.stderr


def test_a_type_that_a_worker_cannot_load_is_named_and_the_others_are_known(tmp_path, caplog):
    rows = RowTypes.decode(pickled_row_types(pipeline_of(Outer))).types
    (name, schema, _), other = sorted(rows)
    data = RowTypes(((name, schema, b"nothing"), other)).encode()
    (tmp_path / FILE_NAME).write_bytes(data)
    SCHEMA_REGISTRY.by_id.pop(Outer._beam_schema_id)
    install(tmp_path / FILE_NAME)
    assert SCHEMA_REGISTRY.get_typing_by_id(Outer._beam_schema_id) is Outer
    assert f"row type {name} is not known to this worker: " in caplog.text
    assert "Install its module on the workers" in caplog.text


def test_a_type_that_cannot_be_sent_is_named(caplog):
    class Locked(typing.NamedTuple):
        number: int

    Locked.endless = (each for each in ())
    assert pickled_row_types(pipeline_of(Locked)) == b""
    assert "Locked cannot be sent to workers: TypeError" in caplog.text


@pytest.mark.parametrize(("library", "staged"), [("default", 1), ("cloudpickle", 1), ("dill", 0)])
def test_the_types_are_staged_if_user_code_is_pickled_by_value_in_the_same_way(
    tmp_path, library, staged
):
    options = PipelineOptions()
    environment = default_environment(options, str(tmp_path))
    options.view_as(SetupOptions).pickle_library = library  # dill need not be installed
    proto = pipeline_of(Inner, default_environment=environment)
    add_row_types(proto, options, str(tmp_path))
    dependencies = [
        str(artifact)
        for each in proto.components.environments.values()
        for artifact in each.dependencies
    ]
    assert sum(FILE_NAME in artifact for artifact in dependencies) == staged
