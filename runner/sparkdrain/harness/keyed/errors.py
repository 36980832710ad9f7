"""Where in a keyed stream user code failed: said in a note that follows the user's own message."""

from __future__ import annotations

from typing import Any, Final

from sparkdrain.notes import add_note

_LONGEST: Final = 200
# Python's SDK puts this before the names that users give to timers.
_PREFIX: Final = "ts-"


def tell_key(
    error: BaseException, key: Any, window: Any, family: bytes | None = None, tag: bytes = b""
) -> None:
    """Note down the key, the window (None: not known), and the timer that fired, if one did.

    Not if the error is of what was made of elements of several keys, see ``Gathering``.
    """
    if getattr(error, "is_behind_keys", False):
        return
    parts = [f"key {_shown(key)}"]
    if window is not None:
        parts.append(f"window {_shown(window)}")
    if family is not None:
        parts.append(f"timer {family.decode().removeprefix(_PREFIX)!r}")
        if tag:
            parts.append(f"tag {tag.decode()!r}")
    add_note(error, f"[{', '.join(parts)}]")


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a user's class may have any __repr__
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
