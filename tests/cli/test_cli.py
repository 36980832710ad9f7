from __future__ import annotations

import io

import pytest
from rich.console import Console

from sparkdrain.cli import doctor
from sparkdrain.cli.main import main
from sparkdrain.errors import BadSetup

# Prints which runner a pipeline got that names none, and what the program sees of its start.
SCRIPT = """
import sys
import apache_beam as beam
print(__name__, sys.argv, type(beam.Pipeline().runner).__name__)
if __name__ == "__main__":
    import neighbour
    sys.exit(5)
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "neighbour.py").write_text("print('neighbour found')\n")
    path = tmp_path / "my_script.py"
    path.write_text(SCRIPT)
    return path


def test_run_runs_a_script_on_our_runner_as_python_would(python, script):
    ended = python("-m", "sparkdrain.cli.main", "run", str(script), "--input", "x", "-q")
    printed = ended.stdout.split("\n")
    assert printed[0] == f"__main__ ['{script}', '--input', 'x', '-q'] SparkDrainRunner"
    assert printed[1] == "neighbour found"
    assert ended.returncode == 5, ended.stderr


def test_run_runs_a_module(python, script, monkeypatch):
    monkeypatch.chdir(script.parent)
    ended = python("-m", "sparkdrain.cli.main", "run", "-m", "my_script", "--input=x")
    assert f"__main__ ['{script}', '--input=x'] SparkDrainRunner" in ended.stdout
    assert ended.returncode == 5, ended.stderr


def test_run_without_a_program_says_what_is_missing(capsys):
    for arguments in (["run"], ["run", "-m"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
        assert "name a script, or -m and a module" in capsys.readouterr().err


def test_a_command_is_needed(capsys):
    with pytest.raises(SystemExit):
        main([])
    assert "command" in capsys.readouterr().err


def bad() -> str:
    message = "There is no Java. Install it."
    raise BadSetup(message)


@pytest.mark.parametrize(("check", "code"), [(lambda: "17.0.9", 0), (bad, 1)])
def test_doctor_prints_a_table_and_its_exit_code_says_whether_all_is_well(monkeypatch, check, code):
    monkeypatch.setattr(doctor, "checks", lambda: [("Java", check), ("Python", lambda: "3.11.4")])
    printed = io.StringIO()
    assert doctor.doctor(console=Console(file=printed, width=120)) == code
    table = printed.getvalue()
    assert ("There is no Java. Install it." if code else "17.0.9") in table
    assert "3.11.4" in table
    assert ("missing" in table) == bool(code)


def test_doctor_warns_of_what_may_fail_and_its_exit_code_does_not(monkeypatch):
    def doubt() -> str:
        message = "Python 3.13.0 may fail."
        raise doctor.setup_check.NotNamed(message)

    monkeypatch.setattr(doctor, "checks", lambda: [("Python", doubt)])
    printed = io.StringIO()
    assert doctor.doctor(console=Console(file=printed, width=120)) == 0
    assert "warning" in printed.getvalue()
    assert "Python 3.13.0 may fail." in printed.getvalue()


def test_doctor_looks_at_java_python_packages_and_temporary_files(monkeypatch):
    needed = doctor.setup_check.Requirement("pyspark>=4.3")
    monkeypatch.setattr(doctor.setup_check, "requirements", lambda: [needed])
    monkeypatch.setattr(doctor, "spark_version", lambda: None)
    names = [name for name, _ in doctor.checks()]
    assert names == ["Java 17 or later", "Python >= 3.10", "pyspark >=4.3", "temporary directory"]
    monkeypatch.setattr(doctor, "spark_version", lambda: "3.5.9")
    names = [name for name, _ in doctor.checks()]
    assert names[0] == "Java 8 to 23"
    assert names[2] == "Python 3.8 to 3.11 for Spark 3.5"


def test_doctor_asks_the_java_of_this_machine(python, tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    ended = python("-m", "sparkdrain.cli.main", "doctor", JAVA_HOME=str(tmp_path), COLUMNS="200")
    assert ended.returncode == 1, ended.stderr
    assert "too old" in ended.stdout
