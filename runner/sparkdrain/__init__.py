"""SparkDrainRunner: an Apache Beam runner, in Python, on PySpark.

Importing this package makes the short name ``--runner=SparkDrainRunner`` known to Beam; everything
else is imported on first use. Start reading at ``runner.SparkDrainRunner``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sparkdrain_hook
from sparkdrain import redaction

if TYPE_CHECKING:
    from sparkdrain.options import SparkDrainOptions
    from sparkdrain.runner import SparkDrainRunner

__all__ = ["SparkDrainOptions", "SparkDrainRunner"]

sparkdrain_hook.install()  # again: the hook may have been switched off
redaction.install()


def __getattr__(name: str) -> object:
    if name in __all__:
        from sparkdrain import runner  # noqa: PLC0415 (imports Beam)

        return getattr(runner, name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
