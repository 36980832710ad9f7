from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RowType(_message.Message):
    __slots__ = ("name", "schema", "pickled")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PICKLED_FIELD_NUMBER: _ClassVar[int]
    name: str
    schema: bytes
    pickled: bytes
    def __init__(self, name: _Optional[str] = ..., schema: _Optional[bytes] = ..., pickled: _Optional[bytes] = ...) -> None: ...

class RowTypes(_message.Message):
    __slots__ = ("types",)
    TYPES_FIELD_NUMBER: _ClassVar[int]
    types: _containers.RepeatedCompositeFieldContainer[RowType]
    def __init__(self, types: _Optional[_Iterable[_Union[RowType, _Mapping]]] = ...) -> None: ...
