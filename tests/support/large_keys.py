"""Keys that are large from the start."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

from timers_state.overlay.small_keys import SmallKeys
from timers_state.small.records import Records

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def large_keys() -> Iterator[None]:
    """While entered, no key is small."""
    never = property(lambda records: False, lambda records, value: None)
    with (
        patch.object(SmallKeys, "load", lambda *_: None),
        patch.object(Records, "is_complete", never, create=True),
    ):
        yield
