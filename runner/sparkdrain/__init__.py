"""SparkDrainRunner: an Apache Beam runner, in Python, on PySpark.

Importing this package makes the short name ``--runner=SparkDrainRunner`` known to Beam; everything
else is imported on first use. Start reading at ``runner.SparkDrainRunner``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import sparkdrain_hook
from sparkdrain import redaction

if TYPE_CHECKING:
    from sparkdrain.concurrency.completion import Completion
    from sparkdrain.concurrency.concurrently import Concurrently
    from sparkdrain.options import SparkDrainOptions
    from sparkdrain.runner import SparkDrainRunner

__all__ = ["Completion", "Concurrently", "SparkDrainOptions", "SparkDrainRunner"]
_OF_STEPS = {
    "Completion": "sparkdrain.concurrency.completion",
    "Concurrently": "sparkdrain.concurrency.concurrently",
}

sparkdrain_hook.install()  # again: the hook may have been switched off
redaction.install()


def __getattr__(name: str) -> object:
    if name in _OF_STEPS:
        return getattr(importlib.import_module(_OF_STEPS[name]), name)
    if name in __all__:
        from sparkdrain import runner  # noqa: PLC0415 (imports Beam)

        return getattr(runner, name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
