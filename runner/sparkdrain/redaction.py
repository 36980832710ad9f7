"""Keeps secrets out of what the product says: the one rule for messages, logs, records and reprs.

A setting is secret if its name says so. Its value is not shown; and wherever a value that was
remembered as secret occurs in a text, it is not shown either.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

HIDDEN: Final = "***"
"""Stands where a secret was."""

_SHORTEST: Final = 6  # characters: what is shorter occurs everywhere
_MOST: Final = 1000  # remembered values

_NAME: Final = (
    r"passw|passphrase|pwd|secret|token|credential|jaas|authorization|sasl|"
    r"(?:private|access|account|shared|api|ssl|storage|client|signing|encryption|subscription|"
    r"master)[._-]?key|"
    r"connection[._-]?string"
)
# Settings beside secrets that are none: where one is, what kind it is, how long it is good.
_HARMLESS: Final = re.compile(
    r"(?i:location|path|file|store|mechanisms?|type|name|ur[il]|endpoint|class|provider|"
    r"algorithm|enabled?|size|length|count|interval|timeout|seconds)$|"
    # These end other words, too.
    r"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:dir|id|ttl|ms|sec)$"
)
_SECRET: Final = re.compile(_NAME, re.IGNORECASE)
SECRET_NAMES: Final = f"(?i){_NAME}"
"""A regular expression, for Python and Java, that finds the name of each secret setting in a text.

It finds harmless names too, such as that of a password's file.
"""

# All parts have a longest length: a text may be a long word, or a quote that never ends.
_SHOWN_VALUE: Final = (
    r"""b?"(?:\\.|[^"\\]){0,4000}"|b?'(?:\\.|[^'\\]){0,4000}'|\[[^\]]{0,4000}\]|"""
    r"""\{[^}]{0,4000}\}|\([^)]{0,4000}\)|\d+"""
)
_VALUE: Final = rf"{_SHOWN_VALUE}|(?:Basic|Bearer)\s+\S+|[^\s,;&)\]}}]+"
_REST: Final = r"[\w.-]{0,60}"
_PAIRS: Final = tuple(
    re.compile(rf"{pattern}(?P<value>{value})", re.IGNORECASE)
    for pattern, value in (
        # name=value, also as an option.
        (rf"(?P<name>(?:{_NAME}){_REST})['\"]?\s*(?:=>|=)\s*", _VALUE),
        # 'name': value; "name": value; ('name', value). Prose may stand behind a name in quotes.
        (rf"(?P<name>(?:{_NAME}){_REST})['\"]\s*[:,]\s*", _SHOWN_VALUE),
        # password: value. Not of other words, which prose has before a colon.
        (rf"(?P<name>(?:passw|pwd|secret|jaas|authorization){_REST}):\s+", _VALUE),
        # --name value.
        (rf"--(?P<name>[\w.-]{{0,60}}(?:{_NAME}){_REST})\s+(?=[^\s-])", _VALUE),
    )
)
_USER_OF_URL: Final = re.compile(
    r"\b([a-z][a-z0-9+.-]{0,20}://)[^\s/@:]{0,200}:[^\s/@]{1,500}@", re.IGNORECASE
)
_SIGNATURE_OF_URL: Final = re.compile(
    r"([?&](?:sig|X-Amz-Signature|X-Goog-Signature)=)[^\s&'\"<>]{8,}", re.IGNORECASE
)
_BEARER: Final = re.compile(r"\b(Bearer\s+)[\w+/.~-]{8,}=*")
_PRIVATE_KEY: Final = re.compile(
    r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_SEARCHED: Final = 1 << 18
"""Characters at each end of a long text in which secrets are looked for by name."""


class _Known:
    """The secrets that this process has seen."""

    lock = threading.Lock()
    values: tuple[str, ...] = ()  # the longest first: one may be a part of another


def is_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return bool(_SECRET.search(name)) and not _HARMLESS.search(name)


def remember(settings: object, name: str = "") -> None:
    """Have the secrets among ``settings`` hidden in all texts of this process from now on.

    Args:
        settings: mappings, pairs and lists of them, to any depth.
        name: the setting that they are the value of.
    """
    found = set(_secrets(settings, name))
    if not found:
        return
    with _Known.lock:
        if len(_Known.values) < _MOST and not found <= set(_Known.values):
            values = {*_Known.values, *found}
            _Known.values = tuple(sorted(values, key=lambda value: (-len(value), value)))


def redacted(value: Any, name: str = "") -> Any:
    """``value`` without secrets, to be shown.

    Args:
        value: a text, or settings as ``remember`` takes them. Other objects stay as they are.
        name: the setting whose value it is.
    """
    if is_secret(name):
        return HIDDEN
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {redacted(key): redacted(each, str(key)) for key, each in value.items()}
        case (str() as key, each) if isinstance(value, tuple):
            return redacted(key), redacted(each, key)
        case list() | tuple():
            shown = [redacted(each) for each in value]
            return tuple(shown) if isinstance(value, tuple) else shown
    return value


def redact(text: str) -> str:
    """``text`` without secrets; of a long text, those with a name only at its beginning and end."""
    for value in _Known.values:
        if value in text:
            text = text.replace(value, HIDDEN)
    if len(text) <= 2 * _SEARCHED:
        return _redact_named(text)
    start, middle, end = text[:_SEARCHED], text[_SEARCHED:-_SEARCHED], text[-_SEARCHED:]
    return f"{_redact_named(start)}{middle}{_redact_named(end)}"


def _redact_named(text: str) -> str:
    if _SECRET.search(text):
        for pattern in _PAIRS:
            text = pattern.sub(_without_value, text)
    text = _USER_OF_URL.sub(rf"\1{HIDDEN}@", text)
    text = _SIGNATURE_OF_URL.sub(rf"\1{HIDDEN}", text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    return _PRIVATE_KEY.sub(rf"\1{HIDDEN}\2", text)


def representation(of: Any) -> str:
    """The repr of a dataclass, without secrets."""
    shown = (
        f"{field.name}={redacted(getattr(of, field.name), field.name)!r}"
        for field in dataclasses.fields(of)
        if field.repr
    )
    return f"{type(of).__qualname__}({', '.join(shown)})"


def install() -> None:
    """Keep secrets out of what this package logs. Idempotent."""
    logger = logging.getLogger("sparkdrain")
    if not any(isinstance(handler, _Redacting) for handler in logger.handlers):
        logger.handlers.insert(0, _Redacting())


class _Redacting(logging.Handler):
    """Takes the secrets out of records before handlers of the program get them."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
            if (shown := redact(text)) != text:
                record.msg, record.args = shown, None
            if record.exc_info and not record.exc_text:
                record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
        except Exception:  # noqa: BLE001 - a record that cannot be formatted fails where it is shown
            return
        last = logging.lastResort
        others = [*logging.getLogger().handlers, *logging.getLogger("sparkdrain").handlers]
        if last is not None and others == [self] and record.levelno >= last.level:
            # No logging is set up. Python prints warnings only if there is no handler at all.
            last.handle(record)


def _without_value(found: re.Match[str]) -> str:
    text, value = found[0], found["value"]
    if _HARMLESS.search(found["name"]) or value.startswith(HIDDEN):
        return text
    quoted = value[0] if value[0] in "\"'" and value[-1] == value[0] and len(value) > 1 else ""
    return f"{text[: len(text) - len(value)]}{quoted}{HIDDEN}{quoted}"


def _secrets(settings: object, name: str) -> Iterator[str]:
    match settings:
        case Mapping():
            for key, value in settings.items():
                yield from _secrets(value, name if is_secret(name) else str(key))
        case (str() as key, value) if isinstance(settings, tuple) and not is_secret(name):
            yield from _secrets(value, key)
        case list() | tuple() | set() | frozenset():
            for value in settings:
                yield from _secrets(value, name)
        case bytes():
            yield from _secrets(settings.decode(errors="replace"), name)
        case str() if is_secret(name):
            yield from _spellings(settings)
        case str() if "=" in settings:
            # A property: name=value.
            key, _, value = settings.partition("=")
            if is_secret(key):
                yield from _spellings(value)
        case _:
            return


def _spellings(value: str) -> Iterator[str]:
    if len(value) >= _SHORTEST:
        yield from {value, repr(value)[1:-1], json.dumps(value)[1:-1], quote(value, safe="")}
