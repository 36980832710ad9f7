"""The bare `--runner=SparkDrainRunner`, in programs that never import the package."""

from __future__ import annotations

import compileall
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import types
import venv
import zipfile
from pathlib import Path

import pytest

import sparkdrain_hook

ROOT = Path(__file__).parents[1]

BUILD = "import sys, hatchling.build as b; print(b.build_{kind}(sys.argv[1]))"
PIPELINE = """
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
options = PipelineOptions(["--runner={name}", "--slots=3"])
print(type(beam.Pipeline(options=options).runner).__name__)
from sparkdrain.options import SparkDrainOptions
print(options.view_as(SparkDrainOptions).slots)
"""


def build(kind: str, directory: Path) -> Path:
    project = directory / "project"
    shutil.copytree(ROOT / "runner", project / "runner", ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(ROOT / "pyproject.toml", project)
    (project / "timers_state").mkdir()
    (project / "timers_state" / "__init__.py").touch()
    (project / "README.md").write_text("# sparkdrain\n")
    code = BUILD.format(kind=kind)
    built = subprocess.run(
        [sys.executable, "-c", code, str(directory)],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return directory / built.stdout.split()[-1]


class Installed:
    """A virtual environment with the built package and, by a path, everything else."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.wheel = build(kind, directory)
        home = directory / "venv"
        venv.create(home, symlinks=True, with_pip=False)
        scheme = {"base": str(home), "platbase": str(home)}
        site = Path(sysconfig.get_path("purelib", "venv", scheme))
        with zipfile.ZipFile(self.wheel) as archive:
            archive.extractall(site)
        compileall.compile_dir(site, quiet=2)  # as installers do
        # Only path entries of a .pth file count: nothing that is installed there is started.
        (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.interpreter = Path(sysconfig.get_path("scripts", "venv", scheme)) / "python"

    def python(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        inherited = {key: text for key, text in os.environ.items() if key != "PYTHONPATH"}
        return subprocess.run(
            [self.interpreter, *arguments],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            env={**inherited, **environ},
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Installed:
    return Installed("wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_has_the_hook_the_package_and_the_command(installed):
    names = zipfile.ZipFile(installed.wheel).namelist()
    assert "sparkdrain_hook.pth" in names
    assert "sparkdrain_hook.py" in names
    assert "timers_state/__init__.py" in names
    (entry_points,) = [name for name in names if name.endswith("entry_points.txt")]
    text = zipfile.ZipFile(installed.wheel).read(entry_points).decode()
    assert "sparkdrain = sparkdrain.cli.main:main" in text


def test_a_program_that_never_imports_us_can_name_the_runner(installed):
    names = ("sparkdrain", "sparkdrain.SparkDrainRunner")
    named = "".join(PIPELINE.format(name=name).partition("from sparkdrain.")[0] for name in names)
    ended = installed.python("-c", named + PIPELINE.format(name=names[0]))
    assert ended.stdout.split() == [*["SparkDrainRunner"] * 3, "3"], ended.stderr


def test_beams_own_word_count_reaches_our_check_of_options(installed, tmp_path):
    (tmp_path / "in").write_text("to be\n")
    files = (f"--input={tmp_path}/in", f"--output={tmp_path}/out")
    wordcount = ("-m", "apache_beam.examples.wordcount")
    ended = installed.python(*wordcount, "--runner=SparkDrainRunner", "--slotz=3", *files)
    assert ended.returncode == 1
    assert "Unknown pipeline option --slotz. Did you mean --slots?" in ended.stderr
    assert not list(tmp_path.glob("out*"))


def test_the_hook_can_be_switched_off_and_importing_us_still_works(installed):
    off = installed.python("-c", PIPELINE.format(name="SparkDrainRunner"), SPARKDRAIN_NO_HOOK="1")
    assert off.returncode == 1
    assert "Unexpected pipeline runner: SparkDrainRunner" in off.stderr
    code = "import sys; print('sparkdrain_hook' in sys.modules)"
    assert installed.python("-c", code, SPARKDRAIN_NO_HOOK="1").stdout == "False\n"
    code = "import sparkdrain\n" + PIPELINE.format(name="SPARKDRAINRUNNER")
    on = installed.python("-c", code, SPARKDRAIN_NO_HOOK="1")
    assert on.stdout.split() == ["SparkDrainRunner", "3"], on.stderr


def test_at_every_start_only_one_small_module_is_loaded(installed):
    code = "import sys; print(*sys.modules)"
    on = set(installed.python("-c", code).stdout.split())
    off = set(installed.python("-c", code, SPARKDRAIN_NO_HOOK="1").stdout.split())
    assert on - off == {"sparkdrain_hook"}


def test_the_hook_costs_a_few_hundred_calls(installed):
    """Most of them import the module."""
    line = zipfile.ZipFile(installed.wheel).read("sparkdrain_hook.pth").decode()
    code = (
        "import os, sys; del os.environ['SPARKDRAIN_NO_HOOK']; seen = []\n"
        "sys.setprofile(lambda frame, event, _: seen.append(event))\n"
        f"exec({line!r})\n"  # as `site` does it
        "sys.setprofile(None); print(len(seen))\n"
    )
    ended = installed.python("-c", code, SPARKDRAIN_NO_HOOK="1")
    assert int(ended.stdout) < 2000, ended.stderr


def test_an_editable_install_has_the_hook_too(tmp_path):
    editable = Installed("editable", tmp_path)
    where = "import sparkdrain; print(sparkdrain.__file__)"
    ended = editable.python("-c", PIPELINE.format(name="SparkDrainRunner") + where)
    *named, where = ended.stdout.split()
    assert named == ["SparkDrainRunner", "3"], ended.stderr
    assert where.startswith(str(tmp_path / "project" / "runner"))


def test_importing_the_package_imports_neither_beam_nor_spark(python):
    ended = python("-c", "import sparkdrain, sys; print(*sys.modules)")
    loaded = {name.split(".")[0] for name in ended.stdout.split()}
    assert "sparkdrain" in loaded
    assert not loaded & {"apache_beam", "pyspark", "grpc", "google"}


class TestFinder:
    """The one-shot import hook on a stand-in for Beam's module."""

    @pytest.fixture
    def beam(self, tmp_path, monkeypatch):
        package = tmp_path / "stand_in"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "runner.py").write_text(
            "_RUNNER_MAP = {}\nclass StandardOptions:\n    KNOWN_RUNNER_NAMES = []\n"
        )
        (package / "other.py").touch()
        monkeypatch.setattr(sparkdrain_hook, "_MODULE", "stand_in.runner")
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        yield tmp_path
        for name in ("stand_in", "stand_in.runner", "stand_in.other"):
            sys.modules.pop(name, None)

    def finders(self):
        return [finder for finder in sys.meta_path if isinstance(finder, sparkdrain_hook._Finder)]

    def test_registers_when_beam_is_imported_and_then_goes_away(self, beam):
        sparkdrain_hook.install()
        sparkdrain_hook.install()
        assert len(self.finders()) == 1
        module = importlib.import_module("stand_in.runner")
        assert module._RUNNER_MAP == {"sparkdrainrunner": "sparkdrain.runner.SparkDrainRunner"}
        assert module.StandardOptions.KNOWN_RUNNER_NAMES == ["SparkDrainRunner"]
        assert self.finders() == []
        assert "exec_module" not in vars(module.__loader__)

    def test_registers_at_once_when_beam_is_there_already(self, beam):
        module = importlib.import_module("stand_in.runner")
        sparkdrain_hook.install()
        sparkdrain_hook.install()
        assert module._RUNNER_MAP == {"sparkdrainrunner": "sparkdrain.runner.SparkDrainRunner"}
        assert module.StandardOptions.KNOWN_RUNNER_NAMES == ["SparkDrainRunner"]
        assert self.finders() == []

    def test_works_from_a_zip_file_where_all_modules_share_one_loader(self, beam, monkeypatch):
        archive = shutil.make_archive(str(beam / "packed"), "zip", beam, "stand_in")
        monkeypatch.setattr(sys, "path", [archive, *sys.path[1:]])
        sparkdrain_hook.install()
        module = importlib.import_module("stand_in.runner")
        assert "zip" in module.__file__
        assert module._RUNNER_MAP
        assert importlib.import_module("stand_in.other")

    def test_lets_a_missing_beam_be_missing(self, beam):
        (beam / "stand_in" / "runner.py").unlink()
        sparkdrain_hook.install()
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("stand_in.runner")

    def test_is_used_only_for_beams_module(self, beam):
        sparkdrain_hook.install()
        importlib.import_module("stand_in.other")
        assert len(self.finders()) == 1

    def test_never_breaks_a_beam_that_has_changed(self):
        changed = types.SimpleNamespace(_RUNNER_MAP=(), StandardOptions=None)
        sparkdrain_hook.add_to(changed)
        sparkdrain_hook.add_to(types.SimpleNamespace())

    def test_leaves_a_runner_alone_that_is_registered_under_the_name(self):
        runners = {"sparkdrainrunner": "mine.Runner"}
        sparkdrain_hook.add_to(types.SimpleNamespace(_RUNNER_MAP=runners))
        assert runners == {"sparkdrainrunner": "mine.Runner"}
