"""What ends the waiting of a job that has nothing to do."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkdrain.drain.signal import DrainSignal
    from sparkdrain.types import CancelToken


def attention(cancel: CancelToken, drain: DrainSignal) -> threading.Event:
    """Set while the driver waits: by a cancellation, a drain, a question, or who loses a host.

    To miss nothing, clear it, then look for what is wanted, then wait again.
    """
    wanted = threading.Event()
    cancel.on_cancel(wanted.set)
    drain.on_request(wanted.set)
    drain.inquiry.on_ask(wanted.set)
    return wanted
