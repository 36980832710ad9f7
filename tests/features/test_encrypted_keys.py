"""--gbek: neither keys nor values are readable on their way from worker to worker."""

from __future__ import annotations

import shutil
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import environments
from apache_beam.transforms.util import GroupByEncryptedKey, ReshufflePerKey, Secret
from support.in_memory import DEFAULTS, InMemoryRun
from support.in_memory_rounds import InMemoryRounds

from sparkdrain import SparkDrainRunner
from sparkdrain.graph.exchanges import as_written
from sparkdrain.graph.translate import translate

KEYS = ["plain-key-a", "plain-key-b"]
PAIRS = [(KEYS[n % 2], f"plain-value-{n}") for n in range(10)]
PLAIN = b"plain-"
GBEK = "--gbek=type:gcpsecret;version_name:projects/p/secrets/s/versions/1"


class Known(Secret):
    """A secret that needs no service."""

    def get_secret_bytes(self) -> bytes:
        return b"C" * 43 + b"="


@pytest.fixture(autouse=True)
def _known_secret(monkeypatch):
    monkeypatch.setattr(Secret, "parse_secret_option", staticmethod(lambda _: Known()))


def _longest(values):
    return max(values, default="")


def _joined(group):
    key, values = group
    return key, ",".join(sorted(values))


def _co_grouped(pairs):
    grouped = {"left": pairs, "right": pairs} | beam.CoGroupByKey()
    return grouped | "Join" >> beam.MapTuple(
        lambda key, sides: (key, ",".join(sorted(sides["left"] + sides["right"])))
    )


def _global(pairs):
    return pairs | beam.Values() | beam.CombineGlobally(_longest).without_defaults()


SHUFFLES = {
    "GroupByKey": lambda pairs: pairs | beam.GroupByKey() | "Join" >> beam.Map(_joined),
    "CombinePerKey": lambda pairs: pairs | beam.CombinePerKey(_longest),
    "CombineGlobally": _global,
    "Count": lambda pairs: pairs | beam.combiners.Count.PerElement(),
    "CoGroupByKey": _co_grouped,
    "Reshuffle": lambda pairs: pairs | beam.Reshuffle(),
    "ReshufflePerKey": lambda pairs: pairs | ReshufflePerKey(),
    "GroupIntoBatches by a fan-out": lambda pairs: (
        pairs | beam.CombinePerKey(_longest).with_hot_key_fanout(2)
    ),
}


class Kept(dict):
    """What levels send; rounds clear theirs."""

    def __init__(self) -> None:
        self.records: list[bytes] = []

    def __setitem__(self, level, sent) -> None:
        super().__setitem__(level, sent)
        self.keep(sent)

    def keep(self, sent) -> None:
        self.records += [record for records in sent.values() for record in records]


_SEEN: list = []


def _see(element) -> None:
    _SEEN.append(element)


def run(shuffle, *, streaming: bool, flags: list[str]) -> tuple[list, list[bytes]]:
    """What comes out, and every record that went from slot to slot."""
    _SEEN.clear()
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    pairs = (
        pipeline
        | beam.Create(range(len(PAIRS)), reshuffle=False)
        | beam.Map(PAIRS.__getitem__).with_output_types(tuple[str, str])
    )
    _ = shuffle(pairs) | "See" >> beam.Map(_see)
    proto = pipeline.to_runner_api(default_environment=environments.EmbeddedPythonEnvironment())
    written = as_written(proto, pipeline.options.get_all_options())
    plan = translate(written, streaming=streaming)
    kept = Kept()
    if streaming:
        rounds = InMemoryRounds(plan)
        rounds.partitions = kept
        try:
            rounds.run_to_end()
        finally:
            rounds.close()
        return sorted(_SEEN), kept.records
    batch = InMemoryRun(plan, 2, DEFAULTS)
    try:
        batch.run()
    finally:
        shutil.rmtree(batch.directory)
    for sent in batch.partitions.values():
        kept.keep(sent)
    return sorted(_SEEN), kept.records


@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "streaming"])
@pytest.mark.parametrize("name", SHUFFLES)
def test_nothing_readable_goes_between_slots(name, streaming):
    shown, in_clear = run(SHUFFLES[name], streaming=streaming, flags=[])
    encrypted, records = run(SHUFFLES[name], streaming=streaming, flags=[GBEK])
    assert encrypted == shown != []
    assert any(PLAIN in record for record in in_clear), "else this test would see nothing"
    assert records
    assert not any(PLAIN in record for record in records)


def _files_with(text: bytes, folder: str) -> int:
    found = 0
    for path in Path(folder).rglob("*"):
        try:
            found += path.is_file() and text in path.read_bytes()
        except OSError:  # Spark has removed it meanwhile
            continue
    return found


@pytest.mark.spark
@pytest.mark.parametrize("mode", [[], ["--streaming"]], ids=["batch", "streaming"])
@pytest.mark.parametrize("how", ["in the clear", "--gbek", "GroupByEncryptedKey"])
def test_nothing_readable_is_on_the_disks_of_spark(tmp_path_factory, mode, how):
    folder = str(_spark_folder(tmp_path_factory))
    flags = [
        "--spark_master_url=local[2]",
        "--progress=off",
        f"--spark_conf=spark.local.dir={folder}",
        "--spark_conf=spark.shuffle.compress=false",
        *mode,
        *([GBEK] if how == "--gbek" else []),
    ]
    group = GroupByEncryptedKey(Known()) if how == "GroupByEncryptedKey" else beam.GroupByKey()
    mark = f"plain-{how.strip('-').replace(' ', '-')}-{'-'.join(mode)}"
    with beam.Pipeline(SparkDrainRunner(), PipelineOptions(flags)) as pipeline:
        found = (
            pipeline
            | beam.Create(range(4), reshuffle=False)
            # Not in the pipeline in one piece, or the plan would be found.
            | beam.Map(lambda n, parts: ("-".join(parts), n), mark.split("-")).with_output_types(
                tuple[str, int]
            )
            | group
            | beam.MapTuple(
                lambda key, numbers: (sorted(numbers), _files_with(key.encode(), folder))
            )
            | beam.Map(lambda found: (found[0], found[1] > 0))
        )
        assert_that(found, equal_to([([0, 1, 2, 3], how == "in the clear")]))


_FOLDERS: list[Path] = []


def _spark_folder(tmp_path_factory) -> Path:
    if not _FOLDERS:  # the same for all, or each test would start a session
        _FOLDERS.append(tmp_path_factory.mktemp("spark"))
    return _FOLDERS[0]
