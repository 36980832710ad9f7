from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SlotNote(_message.Message):
    __slots__ = ("job", "home", "level", "slot", "needs")
    class NeedsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: _struct_pb2.ListValue
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[_struct_pb2.ListValue, _Mapping]] = ...) -> None: ...
    JOB_FIELD_NUMBER: _ClassVar[int]
    HOME_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    job: str
    home: str
    level: int
    slot: int
    needs: _containers.MessageMap[int, _struct_pb2.ListValue]
    def __init__(self, job: _Optional[str] = ..., home: _Optional[str] = ..., level: _Optional[int] = ..., slot: _Optional[int] = ..., needs: _Optional[_Mapping[int, _struct_pb2.ListValue]] = ...) -> None: ...
