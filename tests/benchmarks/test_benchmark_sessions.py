from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from benchmarks.child import Session, SessionFailed
from benchmarks.jobs.work import Work

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")

REPLIES = "import argparse, json, os, subprocess, sys, time\n" \
    "a = argparse.ArgumentParser()\n" \
    "a.add_argument('--directory'); a.add_argument('--reply', type=int)\n" \
    "reply = os.fdopen(a.parse_args().reply, 'w', buffering=1)\n" \
    "say = lambda **m: reply.write(json.dumps(m) + '\\n')\n"  # fmt: skip
WORK = Work(7, 0, Path(), Path())


def session(tmp_path: Path, body: str) -> Session:
    script = tmp_path / "script.py"
    script.write_text(REPLIES + body)
    return Session([sys.executable, str(script)], {})


def test_an_order_reaches_the_session_and_its_answer_comes_back(tmp_path: Path) -> None:
    child = session(
        tmp_path,
        "say(ready=True)\nfor line in sys.stdin:\n"
        "  say(seconds=2.5, result=[json.loads(line)['n']])\n",
    )
    child.wait_ready(30)
    measured = child.run(WORK, 30)
    child.close()
    assert (measured.seconds, measured.result) == (2.5, [7])
    assert measured.peak_rss > 1_000_000
    assert not child.directory.exists()


def test_a_session_that_does_not_answer_is_killed_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    child = session(
        tmp_path,
        f"c = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        f"open({str(pid_file)!r}, 'w').write(str(c.pid))\nsay(ready=True)\ntime.sleep(600)\n",
    )
    child.wait_ready(30)
    grandchild = int(pid_file.read_text())
    with pytest.raises(SessionFailed, match="no end after 1 s"):
        child.run(WORK, 1)
    deadline = time.monotonic() + 30
    while _runs(grandchild):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_session_that_ends_early_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    child = session(tmp_path, "print('out of luck', flush=True)\nos._exit(3)\n")
    with pytest.raises(SessionFailed, match="the process has ended; log: out of luck"):
        child.wait_ready(30)


def test_a_process_that_left_the_session_is_counted_and_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    work = "n = 0\nwhile True: n += 1"
    child = session(
        tmp_path,
        f"c = subprocess.Popen([sys.executable, '-c', {work!r}], start_new_session=True)\n"
        f"open({str(pid_file)!r}, 'w').write(str(c.pid))\nsay(ready=True)\n"
        "for line in sys.stdin:\n"
        "  while sum(os.times()[2:4]) == 0 and float(open(f'/proc/{c.pid}/stat').read()"
        ".split()[13]) < 30: time.sleep(0.01)\n"
        "  say(seconds=1, result=[], figures={'a (ms)': 3})\n",
    )
    child.wait_ready(30)
    measured = child.run(WORK, 30)
    assert measured.cpu > 0.1
    assert measured.figures == {"a (ms)": 3}
    child.close()
    deadline = time.monotonic() + 30
    while _runs(int(pid_file.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_error_that_the_session_reports_is_the_reason(tmp_path: Path) -> None:
    child = session(tmp_path, "say(error='ValueError: bad')\n")
    with pytest.raises(SessionFailed, match=r"^ValueError: bad$"):
        child.wait_ready(30)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
