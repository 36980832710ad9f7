"""Steps that may be done again, done until brokers have let them."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, TypeVar

from sparkdrain.in_time import InTime, NoAnswer
from sparkdrain.io.kafka.errors import KafkaUnreachable, KafkaWriteFailed
from sparkdrain.io.kafka.quiet_log import OncePerMinute

if TYPE_CHECKING:
    from collections.abc import Callable

_LOGGER = logging.getLogger(__name__)
_LOGGER.addFilter(OncePerMinute())
T = TypeVar("T")
_ATTEMPTS: Final = 5
_PAUSE: Final = 0.2  # seconds


def patiently(
    step: Callable[[], T],
    let_go: Callable[[], None] = lambda: None,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """What ``step`` returns: brokers that are away are waited for.

    Args:
        step: may be done again after it has failed, once ``let_go`` was called.
        let_go: lets go of what a step that failed has left.
        sleep: for so many seconds.

    Raises:
        KafkaRefused: at once.
        KafkaWriteFailed: a few times in a row, while brokers were there.
        Exception: whatever else. ``let_go`` was called in any case.
    """
    failures = 0
    while True:
        try:
            return step()
        except (KafkaUnreachable, KafkaWriteFailed) as error:
            let_go()
            failures = 0 if isinstance(error, KafkaUnreachable) else failures + 1
            if failures == _ATTEMPTS:
                raise
            _LOGGER.warning("it is tried again: %s", error)
        except BaseException:
            let_go()
            raise
        sleep(_PAUSE)


def in_time(step: Callable[[], T], seconds: float, what: str) -> T:
    """What ``step`` returns, if it does so in time; else it is left alone, in a thread.

    Raises:
        KafkaUnreachable: it does not; says ``what`` does not answer.
        Exception: what the step raises.
    """
    try:
        return InTime(seconds, "kafka-step").call(what, step)
    except NoAnswer as error:
        raise KafkaUnreachable(str(error)) from error
