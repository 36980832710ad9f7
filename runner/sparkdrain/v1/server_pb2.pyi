from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StoredJob(_message.Message):
    __slots__ = ("job_id", "name", "states", "request_parts", "info_parts", "metrics_parts", "messages", "was_driven", "has_checkpoints")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_PARTS_FIELD_NUMBER: _ClassVar[int]
    INFO_PARTS_FIELD_NUMBER: _ClassVar[int]
    METRICS_PARTS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    WAS_DRIVEN_FIELD_NUMBER: _ClassVar[int]
    HAS_CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    name: str
    states: _containers.RepeatedScalarFieldContainer[bytes]
    request_parts: int
    info_parts: int
    metrics_parts: int
    messages: _containers.RepeatedCompositeFieldContainer[StoredMessages]
    was_driven: bool
    has_checkpoints: bool
    def __init__(self, job_id: _Optional[str] = ..., name: _Optional[str] = ..., states: _Optional[_Iterable[bytes]] = ..., request_parts: _Optional[int] = ..., info_parts: _Optional[int] = ..., metrics_parts: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[StoredMessages, _Mapping]]] = ..., was_driven: bool = ..., has_checkpoints: bool = ...) -> None: ...

class StoredMessages(_message.Message):
    __slots__ = ("number", "count", "parts")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    number: int
    count: int
    parts: int
    def __init__(self, number: _Optional[int] = ..., count: _Optional[int] = ..., parts: _Optional[int] = ...) -> None: ...

class ToldMessages(_message.Message):
    __slots__ = ("responses",)
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    responses: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, responses: _Optional[_Iterable[bytes]] = ...) -> None: ...
