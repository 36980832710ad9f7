from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Identified(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class AskedInstruction(_message.Message):
    __slots__ = ("instruction_id", "process_bundle")
    INSTRUCTION_ID_FIELD_NUMBER: _ClassVar[int]
    PROCESS_BUNDLE_FIELD_NUMBER: _ClassVar[int]
    instruction_id: str
    process_bundle: AskedBundle
    def __init__(self, instruction_id: _Optional[str] = ..., process_bundle: _Optional[_Union[AskedBundle, _Mapping]] = ...) -> None: ...

class AskedBundle(_message.Message):
    __slots__ = ("process_bundle_descriptor_id",)
    PROCESS_BUNDLE_DESCRIPTOR_ID_FIELD_NUMBER: _ClassVar[int]
    process_bundle_descriptor_id: str
    def __init__(self, process_bundle_descriptor_id: _Optional[str] = ...) -> None: ...

class LoggedEntries(_message.Message):
    __slots__ = ("log_entries",)
    LOG_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    log_entries: _containers.RepeatedCompositeFieldContainer[LoggedEntry]
    def __init__(self, log_entries: _Optional[_Iterable[_Union[LoggedEntry, _Mapping]]] = ...) -> None: ...

class LoggedEntry(_message.Message):
    __slots__ = ("instruction_id", "log_location")
    INSTRUCTION_ID_FIELD_NUMBER: _ClassVar[int]
    LOG_LOCATION_FIELD_NUMBER: _ClassVar[int]
    instruction_id: str
    log_location: str
    def __init__(self, instruction_id: _Optional[str] = ..., log_location: _Optional[str] = ...) -> None: ...
