"""Values of ours as messages of ``proto/``: what crosses a process.

A class says by ``sent_as`` which message it travels as; the names of its fields are those of the
message. A tuple without a class travels as a message with its parts in order (a tuple of equals, as
one with a list), and a dict whose keys are tuples as messages with the parts of the key and the
value. A reader ignores fields that it does
not know. A field that is not there has the default of the class, or else None or zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.message_factory import GetMessageClass

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from typing_extensions import Self

C = TypeVar("C", bound=type)
_Way = Callable[[Any], Any]

MESSAGES: dict[Any, Any] = {}
"""The message that a class travels as, by class."""
_CLASSES: dict[str, type] = {}
_ENUMS: dict[Any, dict[str, Any]] = {}
_MAKERS = {"frozenset": frozenset, "list": list, "dict": dict}


class ControlMessage:
    """What our own processes tell each other: never elements."""

    __slots__ = ()

    def encode(self) -> bytes:
        """The message as the bytes of its schema in ``proto/``."""
        data: bytes = _write(self).SerializeToString()
        return data

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The inverse of ``encode``."""
        value: Self = _read(cls, MESSAGES[cls].FromString(data))
        return value


def sent_as(message: type[Message], **enums: Any) -> Callable[[C], C]:
    """Have values of a dataclass travel as a message; for decorators.

    Args:
        message: a class of ``proto/``.
        enums: by the name of a field, the enum whose values the message has.
    """

    def register(cls: C) -> C:
        MESSAGES[cls] = message
        _ENUMS[cls] = enums
        _CLASSES[message.DESCRIPTOR.full_name] = cls
        return cls

    return register


@dataclass(frozen=True, slots=True)
class _Form:
    """How values of one class become messages, and back.

    Attributes:
        writes: for each field its name, how its value is written, and whether zero is left out.
        reads: by the name of a field, how what a message has is read.
        blanks: for each field without a default in the class, what makes its value.
    """

    writes: list[tuple[str, _Way, bool]]
    reads: dict[str, _Way]
    blanks: list[tuple[str, Callable[[], Any]]]


def _write(value: Any) -> Any:
    cls: Any = type(value)
    parts = {}
    for name, write, leaves_out_zero in _form(cls).writes:
        part = getattr(value, name)
        if part is not None and (part or not leaves_out_zero):
            parts[name] = write(part)
    return MESSAGES[cls](**parts)


def _read(cls: Any, message: Any) -> Any:
    form = _form(cls)
    parts = {name: make() for name, make in form.blanks}
    for field, value in message.ListFields():
        name = field.name
        parts[name] = form.reads[name](value)
    return cls(**parts)


@cache
def _form(cls: Any) -> _Form:
    form = _Form([], {}, [])
    described = MESSAGES[cls].DESCRIPTOR.fields_by_name
    for each in fields(cls):
        field = described[each.name]
        make = _MAKERS.get(str(each.type).partition("[")[0], tuple)
        write, read = _ways(field, make)
        if each.name in _ENUMS[cls]:
            write, read = attrgetter("value"), _ENUMS[cls][each.name]
        form.writes.append((each.name, write, not field.has_presence))
        form.reads[each.name] = read
        if each.default is MISSING and each.default_factory is MISSING:
            blank = None if field.has_presence else field.default_value
            zero = make if _is_repeated(field) else lambda blank=blank: blank
            form.blanks.append((each.name, zero))
    return form


def _is_repeated(field: Any) -> bool:
    return bool(field.default_value == [])


def _ways(field: Any, make: Any) -> tuple[_Way, _Way]:
    """How the value of a field is written, and how it is read."""
    message = field.message_type
    if message is None:
        return (list, make) if _is_repeated(field) else (_same, _same)
    if message.GetOptions().map_entry:
        value = message.fields_by_name["value"].message_type
        if value is None:
            return dict, dict
        write, read = _element(value)
        return (
            lambda found: {key: write(each) for key, each in found.items()},
            lambda found: {key: read(each) for key, each in found.items()},
        )
    write, read = _element(message)
    if not _is_repeated(field):
        return write, read
    if make is not dict:
        return lambda found: list(map(write, found)), lambda found: make(map(read, found))

    def read_pairs(found: Any) -> dict[Any, Any]:
        parts = map(read, found)
        return {part[:-1]: part[-1] for part in parts}

    return lambda found: [write((*key, value)) for key, value in found.items()], read_pairs


def _element(message: Any) -> tuple[_Way, _Way]:
    cls = _CLASSES.get(message.full_name)
    if cls is not None:
        return _write, lambda found: _read(cls, found)
    make: Any = GetMessageClass(message)
    parts = [(field.name, field.has_presence, *_ways(field, tuple)) for field in message.fields]
    if len(parts) == 1:
        ((only, _, write, read),) = parts
        return lambda found: make(**{only: write(found)}), lambda found: read(getattr(found, only))

    def write_parts(found: Any) -> Any:
        pairs = zip(parts, found, strict=True)
        return make(**{name: w(part) for (name, _, w, _), part in pairs if part is not None})

    def read_parts(found: Any) -> tuple[Any, ...]:
        return tuple(
            None if has_presence and not found.HasField(name) else r(getattr(found, name))
            for name, has_presence, _, r in parts
        )

    return write_parts, read_parts


def _same(value: Any) -> Any:
    return value
