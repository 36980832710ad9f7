"""Classes of the main program, so that workers can read and write elements that are of them.

Beam's coder for elements of any type pickles these as Python does: by the name of their class. A
class of a module is found again wherever the module is installed. One of the program itself is
``__main__.Event``, and in a worker another program is ``__main__``.
"""

from __future__ import annotations

import logging
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Final

from apache_beam import DoFn, PTransform
from apache_beam.internal import cloudpickle_pickler
from apache_beam.options.pipeline_options import PipelineOptions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LOGGER = logging.getLogger(__name__)
_MAIN: Final = "__main__"
# Their instances are never elements, and they may refer to anything.
_NEVER: Final = (DoFn, PTransform, PipelineOptions)

FILE_NAME: Final = "sparkdrain_main_classes"
"""Under which the file is staged."""


def main_classes() -> dict[str, type]:
    """The classes that the main program defines and whose instances may be elements, by name."""
    return {
        name: value
        for name, value in list(vars(sys.modules[_MAIN]).items())
        if isinstance(value, type)
        and value.__module__ == _MAIN
        and value.__qualname__ == name
        and not issubclass(value, _NEVER)
    }


def pickled(classes: Mapping[str, type]) -> bytes:
    """Classes for ``install``, by value; without those that cannot be pickled."""
    try:
        return _dumps(classes)
    except Exception:  # noqa: BLE001 - they refer to whatever they like
        return _dumps(dict(filter(_can_be_pickled, classes.items())))


def _can_be_pickled(item: tuple[str, type]) -> bool:
    name, class_ = item
    try:
        _dumps({name: class_})
    except Exception as error:  # noqa: BLE001 - as above
        _LOGGER.debug("Workers will not know the main program's %s: %r", name, error)
        return False
    return True


def _dumps(classes: Mapping[str, type]) -> bytes:
    data: bytes = cloudpickle_pickler.dumps(dict(classes))
    return data


def install(path: Path) -> None:
    """Make this process's ``__main__`` one that has the classes in a file.

    User code that is unpickled later has the same classes, not others of the same names.
    """
    main = ModuleType(_MAIN)
    vars(main).update(cloudpickle_pickler.loads(path.read_bytes()))
    sys.modules[_MAIN] = main
