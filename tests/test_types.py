from __future__ import annotations

from sparkdrain.types import CancelToken


def test_a_callback_runs_once_when_the_token_is_cancelled():
    token, calls = CancelToken(), []
    token.on_cancel(lambda: calls.append("first"))
    token.on_cancel(lambda: calls.append("second"))
    assert not token.is_cancelled()
    token.cancel()
    token.cancel()
    assert token.is_cancelled()
    assert calls == ["first", "second"]


def test_a_callback_that_comes_too_late_runs_at_once():
    token, calls = CancelToken(), []
    token.cancel()
    token.on_cancel(lambda: calls.append("late"))
    assert calls == ["late"]


def test_a_callback_that_fails_does_not_keep_others_from_running(caplog):
    token, calls = CancelToken(), []
    token.on_cancel(lambda: 1 / 0)
    token.on_cancel(lambda: calls.append("ran"))
    token.cancel()
    assert calls == ["ran"]
    assert "ZeroDivisionError" in caplog.text


def test_waiting_for_a_token_says_whether_it_was_cancelled():
    token = CancelToken()
    assert not token.wait(0)
    token.cancel()
    assert token.wait(0)
