from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Drain(_message.Message):
    __slots__ = ()
    class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[Drain.Phase]
        READING: _ClassVar[Drain.Phase]
        CUT: _ClassVar[Drain.Phase]
        TRUNCATED: _ClassVar[Drain.Phase]
        FLUSHING: _ClassVar[Drain.Phase]
        PUBLISHING: _ClassVar[Drain.Phase]
        DRAINED: _ClassVar[Drain.Phase]
        ENDING: _ClassVar[Drain.Phase]
        DONE: _ClassVar[Drain.Phase]
    UNSPECIFIED: Drain.Phase
    READING: Drain.Phase
    CUT: Drain.Phase
    TRUNCATED: Drain.Phase
    FLUSHING: Drain.Phase
    PUBLISHING: Drain.Phase
    DRAINED: Drain.Phase
    ENDING: Drain.Phase
    DONE: Drain.Phase
    class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[Drain.Mode]
        DEFAULT: _ClassVar[Drain.Mode]
    UNKNOWN: Drain.Mode
    DEFAULT: Drain.Mode
    def __init__(self) -> None: ...

class DrainNotification(_message.Message):
    __slots__ = ("version", "uuid", "run_id", "mode", "time")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    version: int
    uuid: str
    run_id: str
    mode: Drain.Mode
    time: str
    def __init__(self, version: _Optional[int] = ..., uuid: _Optional[str] = ..., run_id: _Optional[str] = ..., mode: _Optional[_Union[Drain.Mode, str]] = ..., time: _Optional[str] = ...) -> None: ...

class DrainMessage(_message.Message):
    __slots__ = ("run_id", "producer", "edges")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    producer: int
    edges: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, run_id: _Optional[str] = ..., producer: _Optional[int] = ..., edges: _Optional[_Iterable[int]] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("element", "watermark", "drain", "policy")
    ELEMENT_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    element: float
    watermark: float
    drain: float
    policy: str
    def __init__(self, element: _Optional[float] = ..., watermark: _Optional[float] = ..., drain: _Optional[float] = ..., policy: _Optional[str] = ...) -> None: ...

class DrainOrder(_message.Message):
    __slots__ = ("run_id", "repeats", "limits")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REPEATS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    repeats: int
    limits: Limits
    def __init__(self, run_id: _Optional[str] = ..., repeats: _Optional[int] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ...) -> None: ...

class Left(_message.Message):
    __slots__ = ("stage", "inputs", "drained", "windows", "timers", "parked", "residuals")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    WINDOWS_FIELD_NUMBER: _ClassVar[int]
    TIMERS_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    RESIDUALS_FIELD_NUMBER: _ClassVar[int]
    stage: str
    inputs: int
    drained: int
    windows: int
    timers: int
    parked: int
    residuals: int
    def __init__(self, stage: _Optional[str] = ..., inputs: _Optional[int] = ..., drained: _Optional[int] = ..., windows: _Optional[int] = ..., timers: _Optional[int] = ..., parked: _Optional[int] = ..., residuals: _Optional[int] = ...) -> None: ...

class Missing(_message.Message):
    __slots__ = ("stage", "edge", "producers")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    stage: str
    edge: int
    producers: int
    def __init__(self, stage: _Optional[str] = ..., edge: _Optional[int] = ..., producers: _Optional[int] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("version", "run_id", "job_id", "job_name", "endpoint", "state", "drain", "began", "checkpoints", "epoch", "phase", "moves")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[Run.State]
        RUNNING: _ClassVar[Run.State]
        DRAINING: _ClassVar[Run.State]
        DRAINED: _ClassVar[Run.State]
        DONE: _ClassVar[Run.State]
        FAILED: _ClassVar[Run.State]
        CANCELLED: _ClassVar[Run.State]
    UNSPECIFIED: Run.State
    RUNNING: Run.State
    DRAINING: Run.State
    DRAINED: Run.State
    DONE: Run.State
    FAILED: Run.State
    CANCELLED: Run.State
    VERSION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    BEGAN_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    version: int
    run_id: str
    job_id: str
    job_name: str
    endpoint: str
    state: Run.State
    drain: bool
    began: int
    checkpoints: str
    epoch: int
    phase: str
    moves: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[int] = ..., run_id: _Optional[str] = ..., job_id: _Optional[str] = ..., job_name: _Optional[str] = ..., endpoint: _Optional[str] = ..., state: _Optional[_Union[Run.State, str]] = ..., drain: bool = ..., began: _Optional[int] = ..., checkpoints: _Optional[str] = ..., epoch: _Optional[int] = ..., phase: _Optional[str] = ..., moves: _Optional[_Iterable[str]] = ...) -> None: ...
