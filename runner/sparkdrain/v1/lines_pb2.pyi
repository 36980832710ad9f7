from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HostId(_message.Message):
    __slots__ = ("job", "slot")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    job: str
    slot: int
    def __init__(self, job: _Optional[str] = ..., slot: _Optional[int] = ...) -> None: ...

class Address(_message.Message):
    __slots__ = ("host", "port")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    host: str
    port: int
    def __init__(self, host: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class Executor(_message.Message):
    __slots__ = ("host", "id")
    HOST_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    host: str
    id: str
    def __init__(self, host: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class HostRecord(_message.Message):
    __slots__ = ("id", "machine", "pid", "address", "ended", "executor")
    ID_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    EXECUTOR_FIELD_NUMBER: _ClassVar[int]
    id: HostId
    machine: str
    pid: int
    address: Address
    ended: str
    executor: Executor
    def __init__(self, id: _Optional[_Union[HostId, _Mapping]] = ..., machine: _Optional[str] = ..., pid: _Optional[int] = ..., address: _Optional[_Union[Address, _Mapping]] = ..., ended: _Optional[str] = ..., executor: _Optional[_Union[Executor, _Mapping]] = ...) -> None: ...

class Sight(_message.Message):
    __slots__ = ("number", "seconds", "told", "dump", "notes")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    DUMP_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    number: int
    seconds: float
    told: bytes
    dump: str
    notes: str
    def __init__(self, number: _Optional[int] = ..., seconds: _Optional[float] = ..., told: _Optional[bytes] = ..., dump: _Optional[str] = ..., notes: _Optional[str] = ...) -> None: ...

class Ask(_message.Message):
    __slots__ = ("id", "ended_pid", "visits")
    ID_FIELD_NUMBER: _ClassVar[int]
    ENDED_PID_FIELD_NUMBER: _ClassVar[int]
    VISITS_FIELD_NUMBER: _ClassVar[int]
    id: HostId
    ended_pid: int
    visits: bool
    def __init__(self, id: _Optional[_Union[HostId, _Mapping]] = ..., ended_pid: _Optional[int] = ..., visits: bool = ...) -> None: ...

class ToLeash(_message.Message):
    __slots__ = ("record", "sight", "ended", "ask")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    SIGHT_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    record: HostRecord
    sight: Sight
    ended: str
    ask: Ask
    def __init__(self, record: _Optional[_Union[HostRecord, _Mapping]] = ..., sight: _Optional[_Union[Sight, _Mapping]] = ..., ended: _Optional[str] = ..., ask: _Optional[_Union[Ask, _Mapping]] = ...) -> None: ...

class FromLeash(_message.Message):
    __slots__ = ("welcome", "record", "close", "look")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    LOOK_FIELD_NUMBER: _ClassVar[int]
    welcome: bool
    record: HostRecord
    close: float
    look: int
    def __init__(self, welcome: bool = ..., record: _Optional[_Union[HostRecord, _Mapping]] = ..., close: _Optional[float] = ..., look: _Optional[int] = ...) -> None: ...

class FromLender(_message.Message):
    __slots__ = ("slot", "attempt", "edge", "payload", "ended")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    slot: int
    attempt: int
    edge: int
    payload: bytes
    ended: bool
    def __init__(self, slot: _Optional[int] = ..., attempt: _Optional[int] = ..., edge: _Optional[int] = ..., payload: _Optional[bytes] = ..., ended: bool = ...) -> None: ...

class ToLender(_message.Message):
    __slots__ = ("fraction",)
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    fraction: float
    def __init__(self, fraction: _Optional[float] = ...) -> None: ...
