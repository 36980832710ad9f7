"""Work that a splittable DoFn has put off: done right away, in a bounded job."""

from __future__ import annotations

import time
from typing import Any

from sparkdrain.harness.bundle import StageBundle


def process_residuals(bundle: StageBundle, sleep: Any = time.sleep) -> None:
    """Process every deferred restriction of ``bundle`` until none is left.

    A restriction asks to be resumed after a delay; with nothing else to do, that is waited for.
    """
    while residuals := bundle.take_residuals():
        for operation, residual in residuals:
            element, _watermark, delay = residual
            if delay:
                sleep(max(0.0, delay.micros / 1e6))
            operation.process(element)
