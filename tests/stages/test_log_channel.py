"""Log records on their way from a worker to the driver."""

from __future__ import annotations

import threading

from sparkdrain.lines.server import TcpBind
from sparkdrain.stages.telling import log_channel
from sparkdrain.stages.telling.log_channel import LogLimit, LogSender, log_server
from tests.support.waiting import wait_until

HERE = TcpBind("127.0.0.1", "127.0.0.1")


def test_records_arrive_in_order_with_their_levels():
    heard: list[tuple[int, str]] = []
    server = log_server(HERE, lambda *record: heard.append(record))
    sender = LogSender(server.endpoint)
    sent = [(20, "one"), (30, "zwei \N{EURO SIGN}"), (40, "half \udcff")]
    for record in sent:
        sender(*record)
    sender.flush()
    wait_until(lambda: len(heard) == 3)
    assert heard == [*sent[:2], (40, "half \\udcff")]
    server.close()


def test_samples_arrive_with_the_step_that_has_made_them():
    heard: list[tuple[str, str]] = []
    server = log_server(HERE, lambda *record: None, lambda *sample: heard.append(sample))
    sender = LogSender(server.endpoint)
    sender.sample("Parse", "one\ntwo")
    sender.flush()
    wait_until(lambda: heard)
    assert heard == [("Parse", "one\ntwo")]
    server.close()


def test_a_worker_that_logs_too_fast_drops_records_and_says_how_many(monkeypatch):
    monkeypatch.setattr(log_channel, "_WAITING", 2)
    heard: list[str] = []

    def tell(_level: int, text: str) -> None:
        heard.append(text)

    server = log_server(HERE, tell)
    sender = LogSender(server.endpoint)
    sender._is_sending = True  # the thread has not come to it yet
    for number in range(5):
        sender(20, str(number))
    sender._is_sending = False
    sender(20, "last")
    wait_until(lambda: len(heard) == 3)
    assert heard == ["4 log records were left out: too many came.", "0", "1"]
    server.close()


def test_a_worker_with_a_limit_sends_no_more_records_and_still_all_samples():
    heard: list[str] = []
    server = log_server(HERE, lambda _, text: heard.append(text), lambda *of: heard.append(of[1]))
    sender = LogSender(server.endpoint, LogLimit(2, lambda: 7.0))
    for number in range(100_000):
        sender(20, str(number))
    for number in range(3):
        sender.sample("Parse", f"sample {number}")
    wait_until(lambda: "sample 2" in heard)
    note = next(text for text in heard if "more than 2 log records" in text)
    assert heard == ["0", "1", note, "sample 0", "sample 1", "sample 2"]
    server.close()


def test_a_worker_that_logs_nothing_has_no_thread_and_no_connection():
    server = log_server(HERE, lambda *_: None)
    sender = LogSender(server.endpoint)
    before = set(threading.enumerate())
    sender.flush()
    assert not set(threading.enumerate()) - before
    sender(20, "one")
    assert "sparkdrain-logs" in {one.name for one in set(threading.enumerate()) - before}
    server.close()


def test_a_worker_whose_driver_is_gone_goes_on():
    server = log_server(HERE, lambda *_: None)
    server.close()
    sender = LogSender(server.endpoint)
    sender(20, "lost")
    sender.flush()
    wait_until(lambda: not sender._is_sending)
