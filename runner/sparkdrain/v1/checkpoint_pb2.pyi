from google.protobuf import struct_pb2 as _struct_pb2
from sparkdrain.v1 import drain_pb2 as _drain_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FileEntry(_message.Message):
    __slots__ = ("name", "size", "digest", "path")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    name: str
    size: int
    digest: str
    path: str
    def __init__(self, name: _Optional[str] = ..., size: _Optional[int] = ..., digest: _Optional[str] = ..., path: _Optional[str] = ...) -> None: ...

class ShardState(_message.Message):
    __slots__ = ("level", "slot", "files", "report")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    level: int
    slot: int
    files: _containers.RepeatedCompositeFieldContainer[FileEntry]
    report: bytes
    def __init__(self, level: _Optional[int] = ..., slot: _Optional[int] = ..., files: _Optional[_Iterable[_Union[FileEntry, _Mapping]]] = ..., report: _Optional[bytes] = ...) -> None: ...

class Manifest(_message.Message):
    __slots__ = ("job_name", "run_id", "epoch", "number", "round", "created", "fingerprint", "slots", "shards", "driver")
    class FingerprintEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    job_name: str
    run_id: str
    epoch: int
    number: int
    round: int
    created: int
    fingerprint: _containers.ScalarMap[str, str]
    slots: int
    shards: _containers.RepeatedCompositeFieldContainer[ShardState]
    driver: bytes
    def __init__(self, job_name: _Optional[str] = ..., run_id: _Optional[str] = ..., epoch: _Optional[int] = ..., number: _Optional[int] = ..., round: _Optional[int] = ..., created: _Optional[int] = ..., fingerprint: _Optional[_Mapping[str, str]] = ..., slots: _Optional[int] = ..., shards: _Optional[_Iterable[_Union[ShardState, _Mapping]]] = ..., driver: _Optional[bytes] = ...) -> None: ...

class DriverState(_message.Message):
    __slots__ = ("play", "phase", "drain")
    PLAY_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    play: int
    phase: _drain_pb2.Drain.Phase
    drain: str
    def __init__(self, play: _Optional[int] = ..., phase: _Optional[_Union[_drain_pb2.Drain.Phase, str]] = ..., drain: _Optional[str] = ...) -> None: ...

class SlotRecord(_message.Message):
    __slots__ = ("level", "slot", "round", "attempt", "outputs", "wake", "dropped", "drained", "passed", "metrics")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    WAKE_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    level: int
    slot: int
    round: int
    attempt: int
    outputs: _containers.RepeatedScalarFieldContainer[int]
    wake: int
    dropped: int
    drained: _containers.RepeatedScalarFieldContainer[bool]
    passed: _struct_pb2.ListValue
    metrics: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, level: _Optional[int] = ..., slot: _Optional[int] = ..., round: _Optional[int] = ..., attempt: _Optional[int] = ..., outputs: _Optional[_Iterable[int]] = ..., wake: _Optional[int] = ..., dropped: _Optional[int] = ..., drained: _Optional[_Iterable[bool]] = ..., passed: _Optional[_Union[_struct_pb2.ListValue, _Mapping]] = ..., metrics: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Finalizer(_message.Message):
    __slots__ = ("round", "transform", "data", "pickled")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    PICKLED_FIELD_NUMBER: _ClassVar[int]
    round: int
    transform: str
    data: str
    pickled: str
    def __init__(self, round: _Optional[int] = ..., transform: _Optional[str] = ..., data: _Optional[str] = ..., pickled: _Optional[str] = ...) -> None: ...

class Uploaded(_message.Message):
    __slots__ = ("number", "files", "uploaded_bytes", "seconds", "error", "told")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    UPLOADED_BYTES_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    number: int
    files: _containers.RepeatedCompositeFieldContainer[FileEntry]
    uploaded_bytes: int
    seconds: float
    error: str
    told: str
    def __init__(self, number: _Optional[int] = ..., files: _Optional[_Iterable[_Union[FileEntry, _Mapping]]] = ..., uploaded_bytes: _Optional[int] = ..., seconds: _Optional[float] = ..., error: _Optional[str] = ..., told: _Optional[str] = ...) -> None: ...
