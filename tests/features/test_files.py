"""Every file format that Beam ships, written and read again."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import apache_beam as beam
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.io import fileio
from apache_beam.transforms import window
from engines import ENGINES, gives

RECORDS = [{"name": f"n{n}", "number": n} for n in range(25)]
SCHEMA = pa.schema([("name", pa.string()), ("number", pa.int64())])
AVRO = {
    "type": "record",
    "name": "Record",
    "fields": [{"name": "name", "type": "string"}, {"name": "number", "type": "long"}],
}


def _rows(records):
    return records | beam.Map(lambda r: beam.Row(name=str(r["name"]), number=int(r["number"])))


def _record(row):
    return {"name": row.name, "number": row.number}


FORMATS = {
    "text": (
        lambda path: beam.Map(json.dumps) | beam.io.WriteToText(path, ".txt"),
        lambda path: beam.io.ReadFromText(f"{path}*.txt") | "load" >> beam.Map(json.loads),
    ),
    "compressed text": (
        lambda path: beam.Map(json.dumps) | beam.io.WriteToText(path, ".txt.gz", num_shards=3),
        lambda path: beam.io.ReadFromText(f"{path}*.txt.gz") | "load" >> beam.Map(json.loads),
    ),
    "avro": (
        lambda path: beam.io.WriteToAvro(path, AVRO, file_name_suffix=".avro"),
        lambda path: beam.io.ReadFromAvro(f"{path}*.avro"),
    ),
    "parquet": (
        lambda path: beam.io.WriteToParquet(path, SCHEMA, file_name_suffix=".parquet"),
        lambda path: beam.io.ReadFromParquet(f"{path}*.parquet"),
    ),
    "tfrecord": (
        lambda path: beam.Map(lambda r: json.dumps(r).encode()) | beam.io.WriteToTFRecord(path),
        lambda path: beam.io.ReadFromTFRecord(f"{path}*") | "load" >> beam.Map(json.loads),
    ),
    "csv": (
        lambda path: beam.ptransform_fn(_rows)() | beam.io.WriteToCsv(path),
        lambda path: beam.io.ReadFromCsv(f"{path}*") | "record" >> beam.Map(_record),
    ),
    "json": (
        lambda path: beam.ptransform_fn(_rows)() | beam.io.WriteToJson(path),
        lambda path: beam.io.ReadFromJson(f"{path}*") | "record" >> beam.Map(_record),
    ),
}


@pytest.fixture(
    params=["compiled", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])]
)
def new_pipeline(request):
    return ENGINES[request.param]


@pytest.mark.parametrize(("write", "read"), FORMATS.values(), ids=FORMATS)
def test_what_is_written_can_be_read(new_pipeline, tmp_path, write, read):
    path = str(tmp_path / "records")
    with new_pipeline() as p:
        _ = p | beam.Create(RECORDS) | write(path)
    gives(new_pipeline(), lambda p: p | read(path), RECORDS)


def test_the_number_of_files_is_what_was_asked_for(new_pipeline, tmp_path):
    with new_pipeline() as p:
        _ = (
            p
            | beam.Create(map(str, range(20)))
            | beam.io.WriteToText(str(tmp_path / "out"), num_shards=4, header="numbers")
        )
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == [f"out-{n:05d}-of-00004" for n in range(4)]
    lines = [line for file in files for line in (tmp_path / file).read_text().split()]
    assert sorted(line for line in lines if line != "numbers") == sorted(map(str, range(20)))


def test_nothing_written_is_one_empty_file(new_pipeline, tmp_path):
    with new_pipeline() as p:
        nothing = p | beam.Create(["x"]) | beam.Filter(lambda _: False)
        _ = nothing | beam.io.WriteToText(str(tmp_path / "out"))
    assert [path.read_text() for path in tmp_path.iterdir()] == [""]


def test_a_failing_write_leaves_no_file_that_looks_complete(new_pipeline, tmp_path):
    with pytest.raises(Exception, match="division"), new_pipeline() as p:
        numbers = p | beam.Create([1, 0]) | beam.Map(lambda n: str(1 / n))
        _ = numbers | beam.io.WriteToText(str(tmp_path / "out"))
    assert not list(tmp_path.glob("out-*"))


def test_files_are_matched_and_read_whole(new_pipeline, tmp_path):
    (tmp_path / "a.txt").write_text("first")
    with gzip.open(tmp_path / "b.txt.gz", "wt") as file:
        file.write("second")

    def build(p):
        files = p | fileio.MatchFiles(str(tmp_path / "*")) | fileio.ReadMatches()
        return files | beam.Map(lambda f: (Path(f.metadata.path).name, f.read_utf8()))

    gives(new_pipeline(), build, [("a.txt", "first"), ("b.txt.gz", "second")])


def test_all_of_many_patterns_are_read(new_pipeline, tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(f"{name}1\n{name}2\n")

    def build(p):
        patterns = [str(tmp_path / "[ab].txt"), str(tmp_path / "c.txt")]
        return p | beam.Create(patterns) | beam.io.ReadAllFromText()

    gives(new_pipeline(), build, ["a1", "a2", "b1", "b2", "c1", "c2"])


def test_a_file_that_is_missing_is_named(new_pipeline, tmp_path):
    with pytest.raises(Exception, match=r"nobody\.txt"), new_pipeline() as p:
        _ = p | beam.io.ReadFromText(str(tmp_path / "nobody.txt"))


def test_a_large_file_is_read_in_parts_once(new_pipeline, tmp_path):
    path = tmp_path / "large.txt"
    path.write_text("".join(f"line {n}\n" for n in range(50_000)))

    def build(p):
        lines = p | beam.io.ReadFromText(str(path), min_bundle_size=10_000)
        return lines | beam.Distinct() | beam.combiners.Count.Globally()

    gives(new_pipeline(), build, [50_000])


def test_files_by_window_and_destination(new_pipeline, tmp_path):
    with new_pipeline() as p:
        timed = p | beam.Create([1, 2, 11]) | beam.Map(lambda t: window.TimestampedValue(t, t))
        texts = timed | beam.WindowInto(window.FixedWindows(10)) | beam.Map(str)
        _ = texts | fileio.WriteToFiles(
            str(tmp_path),
            destination=lambda text: f"odd{int(text) % 2}",
            sink=lambda _: fileio.TextSink(),
            file_naming=fileio.destination_prefix_naming(),
            shards=1,
        )
    written = sorted(
        (path.name.split("-")[0], sorted(path.read_text().split())) for path in tmp_path.glob("o*")
    )
    assert written == [("odd0", ["2"]), ("odd1", ["1"]), ("odd1", ["11"])]


def test_data_frames(new_pipeline, tmp_path):
    source = tmp_path / "in.csv"
    with source.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["key", "value"])
        writer.writerows([("a", 1), ("b", 2), ("a", 3)])
    with new_pipeline() as p:
        frame = p | beam.dataframe.io.read_csv(str(source))
        frame["double"] = frame.value * 2
        frame.groupby("key").sum().to_csv(str(tmp_path / "out.csv"))
    written = pd.concat(map(pd.read_csv, tmp_path.glob("out.csv*")))
    assert sorted(map(tuple, written.to_numpy())) == [("a", 4, 8), ("b", 2, 4)]


def test_data_frames_between_collections(new_pipeline):
    def build(p):
        rows = (
            p
            | beam.Create([("a", 1), ("b", 2), ("a", 3)])
            | beam.MapTuple(lambda k, v: beam.Row(key=str(k), value=int(v)))
        )
        frame = beam.dataframe.convert.to_dataframe(rows)
        means = frame.groupby("key").value.mean()
        joined = frame.set_index("key").join(means.rename("mean"))
        result = beam.dataframe.convert.to_pcollection(joined, include_indexes=True)
        return result | beam.Map(tuple)

    gives(new_pipeline(), build, [("a", 1, 2.0), ("a", 3, 2.0), ("b", 2, 2.0)])
