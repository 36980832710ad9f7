"""Errors of harnesses go from a worker to the driver as they are."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
from apache_beam.portability.api import beam_fn_api_pb2

from sparkdrain.fnapi.errors import HarnessFailed, failed, garbled, lost
from sparkdrain.fnapi.harness import _finalize
from sparkdrain.jobs.failures import describe
from sparkdrain.stages.telling.failure import failure_of
from sparkdrain.stages.telling.spark_error import of_failure

GO = (
    "process bundle failed for instruction bundle-3 using plan p-1 : while executing Process for "
    "Plan[p-1]:\n"
    "1: DataSource[S[a@127.0.0.1:1], i0] Out:2 Coder:W;bytes!GWC \n"
    "2: ParDo[main.f] Out:[]\n"
    "\tcaused by:\nsource failed processing data\n"
    "\tcaused by:\nDoFn[UID:2, PID:Check/main.f, Name: main.f] failed:\n"
    "want 1\n\ngot 2"
)
JAVA = (
    "org.apache.beam.sdk.util.UserCodeException: java.lang.AssertionError: \nwant 1\ngot 2\n"
    "\tat org.apache.beam.sdk.util.UserCodeException.wrap(UserCodeException.java:39)\n"
    "Caused by: java.lang.AssertionError: \nwant 1\ngot 2\n\tat Main$1.run(Main.java:7)\n"
)
PYTHON = (
    "Traceback (most recent call last):\n"
    '  File "mine.py", line 3, in parse\n    int(text)\n'
    "ValueError: invalid literal [while running 'Parse']\n"
)
PANIC = (
    "panic: at the disco\nFull error:\nprocess bundle failed\n"
    "\tcaused by:\npanic: at the disco goroutine 1"
)


@pytest.mark.parametrize("error", [lost("it was killed"), garbled("no such coder")])
def test_an_error_says_the_same_on_the_driver(error: Exception) -> None:
    there = pickle.loads(pickle.dumps(error))
    assert (type(there), str(there)) == (type(error), str(error))


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (GO, "RuntimeError: want 1\n\ngot 2 [while running 'Check/main.f']"),
        (PANIC, "panic: at the disco"),
        (JAVA, "java.lang.AssertionError: \nwant 1\ngot 2"),
        (PYTHON, "ValueError: invalid literal [while running 'Parse']"),
        ("", "RuntimeError: no words"),
    ],
    ids=["go", "go's panic", "java", "python", "nothing"],
)
def test_what_user_code_has_raised_comes_first_and_what_the_harness_says_last(told, said):
    def run() -> None:
        raise failed(told)

    with pytest.raises(HarnessFailed) as caught:
        run()
    failure = failure_of(caught.value, 1, 0, "here")
    assert failure.by_user
    text = describe(of_failure(failure), "'mine'")
    assert text.startswith(f"{said}\n\nJob 'mine' failed: the pipeline's own code raised this.")
    assert text.endswith(f"\n\nThe SDK harness says:\n\n{told.strip()}".rstrip())
    assert "in slot 0 of level 1 on here." in text
    assert text.count("Traceback") == told.count("Traceback"), "the runner's own frames"


def test_what_a_harness_says_of_a_finalizer_that_failed_is_in_its_notes():
    """Such an error is logged, with its notes, and told nowhere else."""
    answer = beam_fn_api_pb2.InstructionResponse(error=JAVA)
    with pytest.raises(HarnessFailed) as caught:
        _finalize(SimpleNamespace(ask=lambda *_: answer), "bundle-1")
    assert caught.value.__notes__ == [JAVA.strip()]
