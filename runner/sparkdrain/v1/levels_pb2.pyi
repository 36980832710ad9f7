from sparkdrain.v1 import rounds_pb2 as _rounds_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Category(_message.Message):
    __slots__ = ("module", "name")
    MODULE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    module: str
    name: str
    def __init__(self, module: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class Warned(_message.Message):
    __slots__ = ("text", "category", "file", "line")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    text: str
    category: Category
    file: str
    line: int
    def __init__(self, text: _Optional[str] = ..., category: _Optional[_Union[Category, _Mapping]] = ..., file: _Optional[str] = ..., line: _Optional[int] = ...) -> None: ...

class SlotReport(_message.Message):
    __slots__ = ("level", "slot", "attempt", "inputs", "side_bytes", "metrics", "elements", "sent_bytes", "spilled", "gifts", "handled", "warned")
    class SideBytesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    SIDE_BYTES_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPILLED_FIELD_NUMBER: _ClassVar[int]
    GIFTS_FIELD_NUMBER: _ClassVar[int]
    HANDLED_FIELD_NUMBER: _ClassVar[int]
    WARNED_FIELD_NUMBER: _ClassVar[int]
    level: int
    slot: int
    attempt: int
    inputs: _containers.RepeatedCompositeFieldContainer[_rounds_pb2.ReadAttempt]
    side_bytes: _containers.ScalarMap[int, int]
    metrics: _containers.RepeatedScalarFieldContainer[bytes]
    elements: int
    sent_bytes: int
    spilled: int
    gifts: int
    handled: int
    warned: _containers.RepeatedCompositeFieldContainer[Warned]
    def __init__(self, level: _Optional[int] = ..., slot: _Optional[int] = ..., attempt: _Optional[int] = ..., inputs: _Optional[_Iterable[_Union[_rounds_pb2.ReadAttempt, _Mapping]]] = ..., side_bytes: _Optional[_Mapping[int, int]] = ..., metrics: _Optional[_Iterable[bytes]] = ..., elements: _Optional[int] = ..., sent_bytes: _Optional[int] = ..., spilled: _Optional[int] = ..., gifts: _Optional[int] = ..., handled: _Optional[int] = ..., warned: _Optional[_Iterable[_Union[Warned, _Mapping]]] = ...) -> None: ...
