"""Why a call of one of Beam's file systems fails, or takes so long.

Beam tries calls again for minutes, and says so in the log only. Some of its errors are about other
errors, and do not say what these say.
"""

from __future__ import annotations

import logging
import sys
import threading
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRIES_AGAIN: Final = "apache_beam.utils.retry"
_MOST: Final = 20


def why(error: BaseException) -> str:
    """What an error says, and why this thread has tried its call again before, if it has."""
    return _told(error, _LISTENER.heard.get(threading.current_thread(), ""))


def _told(error: BaseException, *more: str) -> str:
    found = list(_origins(error))[:_MOST]
    # What Beam says of a server that has not answered is an error of its own.
    telling = [str(each) for each in found if not isinstance(each, AttributeError)]
    texts: list[str] = []
    for text in [*telling, *more]:
        if text and not any(text in said for said in texts):
            texts.append(text)
    return ", because: ".join(texts) or str(error) or type(error).__name__


def _origins(error: BaseException) -> Iterator[BaseException]:
    # An error of Beam's file systems is about those of all paths.
    details = getattr(error, "exception_details", None)
    below = list(details.values()) if isinstance(details, dict) else []
    if not below:
        yield error
    for each in [*below, error.__cause__ or error.__context__]:
        if isinstance(each, Exception) and not isinstance(each, StopIteration):
            yield from _origins(each)


class _Listener(logging.Handler):
    """Hears why Beam tries a call again, by the thread that waits."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: WeakKeyDictionary[threading.Thread, str] = WeakKeyDictionary()

    def emit(self, record: logging.LogRecord) -> None:
        """Called in the thread that waits, where the error is still handled."""
        error = sys.exc_info()[1]
        if error is not None:
            self.heard[threading.current_thread()] = _told(error)


_LISTENER: Final = _Listener()


def listen() -> None:
    """Hear from now on why calls are tried again; a second call does nothing."""
    logging.getLogger(_TRIES_AGAIN).addHandler(_LISTENER)


def forget() -> None:
    """Forget what was heard in this thread, which makes another call."""
    _LISTENER.heard.pop(threading.current_thread(), None)


def tried_again(thread: threading.Thread | None) -> str:
    """Why a thread has tried its call again, to be put behind a text; empty if that is unknown."""
    reason = None if thread is None else _LISTENER.heard.get(thread)
    return "" if reason is None else f": it was tried again, because: {reason}"
