from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Failure(_message.Message):
    __slots__ = ("kind", "message", "trace", "by_user", "level", "slot", "host")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    BY_USER_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    kind: str
    message: str
    trace: str
    by_user: bool
    level: int
    slot: int
    host: str
    def __init__(self, kind: _Optional[str] = ..., message: _Optional[str] = ..., trace: _Optional[str] = ..., by_user: bool = ..., level: _Optional[int] = ..., slot: _Optional[int] = ..., host: _Optional[str] = ...) -> None: ...
