from sparkdrain.v1 import checkpoint_pb2 as _checkpoint_pb2
from sparkdrain.v1 import drain_pb2 as _drain_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Producer(_message.Message):
    __slots__ = ("level", "slot")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    level: int
    slot: int
    def __init__(self, level: _Optional[int] = ..., slot: _Optional[int] = ...) -> None: ...

class ReadAttempt(_message.Message):
    __slots__ = ("level", "slot", "attempt")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    level: int
    slot: int
    attempt: int
    def __init__(self, level: _Optional[int] = ..., slot: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class TimedElement(_message.Message):
    __slots__ = ("element", "time")
    ELEMENT_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    element: bytes
    time: int
    def __init__(self, element: _Optional[bytes] = ..., time: _Optional[int] = ...) -> None: ...

class Feed(_message.Message):
    __slots__ = ("elements", "frontier", "before")
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    elements: _containers.RepeatedCompositeFieldContainer[TimedElement]
    frontier: int
    before: int
    def __init__(self, elements: _Optional[_Iterable[_Union[TimedElement, _Mapping]]] = ..., frontier: _Optional[int] = ..., before: _Optional[int] = ...) -> None: ...

class Orders(_message.Message):
    __slots__ = ("checkpoint", "published", "levels", "held", "drain", "survey", "last", "still", "awaited")
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    SURVEY_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    STILL_FIELD_NUMBER: _ClassVar[int]
    AWAITED_FIELD_NUMBER: _ClassVar[int]
    checkpoint: int
    published: int
    levels: _containers.RepeatedScalarFieldContainer[int]
    held: bool
    drain: _drain_pb2.DrainOrder
    survey: bool
    last: bool
    still: bool
    awaited: bool
    def __init__(self, checkpoint: _Optional[int] = ..., published: _Optional[int] = ..., levels: _Optional[_Iterable[int]] = ..., held: bool = ..., drain: _Optional[_Union[_drain_pb2.DrainOrder, _Mapping]] = ..., survey: bool = ..., last: bool = ..., still: bool = ..., awaited: bool = ...) -> None: ...

class RoundHeader(_message.Message):
    __slots__ = ("number", "level", "slot", "now", "committed", "expected", "inputs", "outputs", "begin", "seconds", "elements", "feeds", "orders", "restore", "copies")
    class InputsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    class FeedsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Feed
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Feed, _Mapping]] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    FEEDS_FIELD_NUMBER: _ClassVar[int]
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    number: int
    level: int
    slot: int
    now: int
    committed: int
    expected: _containers.RepeatedCompositeFieldContainer[Producer]
    inputs: _containers.ScalarMap[int, int]
    outputs: _containers.RepeatedScalarFieldContainer[int]
    begin: bool
    seconds: float
    elements: int
    feeds: _containers.MessageMap[str, Feed]
    orders: Orders
    restore: Inheritance
    copies: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, number: _Optional[int] = ..., level: _Optional[int] = ..., slot: _Optional[int] = ..., now: _Optional[int] = ..., committed: _Optional[int] = ..., expected: _Optional[_Iterable[_Union[Producer, _Mapping]]] = ..., inputs: _Optional[_Mapping[int, int]] = ..., outputs: _Optional[_Iterable[int]] = ..., begin: bool = ..., seconds: _Optional[float] = ..., elements: _Optional[int] = ..., feeds: _Optional[_Mapping[str, Feed]] = ..., orders: _Optional[_Union[Orders, _Mapping]] = ..., restore: _Optional[_Union[Inheritance, _Mapping]] = ..., copies: _Optional[_Iterable[int]] = ...) -> None: ...

class Hold(_message.Message):
    __slots__ = ("stage", "reason", "time")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    stage: str
    reason: str
    time: int
    def __init__(self, stage: _Optional[str] = ..., reason: _Optional[str] = ..., time: _Optional[int] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("transform", "family", "count")
    TRANSFORM_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    transform: str
    family: str
    count: int
    def __init__(self, transform: _Optional[str] = ..., family: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class RoundReport(_message.Message):
    __slots__ = ("level", "slot", "number", "attempt", "inputs", "outputs", "sent", "wake", "metrics", "sent_bytes", "dropped", "holds", "prepared_bytes", "busy", "waits", "uploaded", "drained", "left", "refused", "missing", "strangers", "made", "spent", "unsettled", "complaints", "passed", "untruncated", "opened")
    class PassedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    WAKE_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    PREPARED_BYTES_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    UPLOADED_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    STRANGERS_FIELD_NUMBER: _ClassVar[int]
    MADE_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    COMPLAINTS_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    UNTRUNCATED_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    level: int
    slot: int
    number: int
    attempt: int
    inputs: _containers.RepeatedCompositeFieldContainer[ReadAttempt]
    outputs: _containers.RepeatedScalarFieldContainer[int]
    sent: _containers.RepeatedScalarFieldContainer[int]
    wake: int
    metrics: _containers.RepeatedScalarFieldContainer[bytes]
    sent_bytes: int
    dropped: int
    holds: _containers.RepeatedCompositeFieldContainer[Hold]
    prepared_bytes: int
    busy: float
    waits: bool
    uploaded: _checkpoint_pb2.Uploaded
    drained: _containers.RepeatedScalarFieldContainer[bool]
    left: _containers.RepeatedCompositeFieldContainer[_drain_pb2.Left]
    refused: _containers.RepeatedCompositeFieldContainer[Refused]
    missing: _containers.RepeatedCompositeFieldContainer[_drain_pb2.Missing]
    strangers: int
    made: int
    spent: bool
    unsettled: int
    complaints: _containers.RepeatedScalarFieldContainer[str]
    passed: _containers.ScalarMap[int, int]
    untruncated: bool
    opened: Opened
    def __init__(self, level: _Optional[int] = ..., slot: _Optional[int] = ..., number: _Optional[int] = ..., attempt: _Optional[int] = ..., inputs: _Optional[_Iterable[_Union[ReadAttempt, _Mapping]]] = ..., outputs: _Optional[_Iterable[int]] = ..., sent: _Optional[_Iterable[int]] = ..., wake: _Optional[int] = ..., metrics: _Optional[_Iterable[bytes]] = ..., sent_bytes: _Optional[int] = ..., dropped: _Optional[int] = ..., holds: _Optional[_Iterable[_Union[Hold, _Mapping]]] = ..., prepared_bytes: _Optional[int] = ..., busy: _Optional[float] = ..., waits: bool = ..., uploaded: _Optional[_Union[_checkpoint_pb2.Uploaded, _Mapping]] = ..., drained: _Optional[_Iterable[bool]] = ..., left: _Optional[_Iterable[_Union[_drain_pb2.Left, _Mapping]]] = ..., refused: _Optional[_Iterable[_Union[Refused, _Mapping]]] = ..., missing: _Optional[_Iterable[_Union[_drain_pb2.Missing, _Mapping]]] = ..., strangers: _Optional[int] = ..., made: _Optional[int] = ..., spent: bool = ..., unsettled: _Optional[int] = ..., complaints: _Optional[_Iterable[str]] = ..., passed: _Optional[_Mapping[int, int]] = ..., untruncated: bool = ..., opened: _Optional[_Union[Opened, _Mapping]] = ...) -> None: ...

class Opened(_message.Message):
    __slots__ = ("seconds", "local_bytes", "fetched_bytes", "told")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    LOCAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    FETCHED_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOLD_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    local_bytes: int
    fetched_bytes: int
    told: str
    def __init__(self, seconds: _Optional[float] = ..., local_bytes: _Optional[int] = ..., fetched_bytes: _Optional[int] = ..., told: _Optional[str] = ...) -> None: ...

class Inheritance(_message.Message):
    __slots__ = ("report", "shards", "before", "givers")
    class GiversEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    REPORT_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    GIVERS_FIELD_NUMBER: _ClassVar[int]
    report: RoundReport
    shards: _containers.RepeatedCompositeFieldContainer[_checkpoint_pb2.ShardState]
    before: int
    givers: _containers.ScalarMap[int, int]
    def __init__(self, report: _Optional[_Union[RoundReport, _Mapping]] = ..., shards: _Optional[_Iterable[_Union[_checkpoint_pb2.ShardState, _Mapping]]] = ..., before: _Optional[int] = ..., givers: _Optional[_Mapping[int, int]] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("file", "line", "function")
    FILE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    file: str
    line: int
    function: str
    def __init__(self, file: _Optional[str] = ..., line: _Optional[int] = ..., function: _Optional[str] = ...) -> None: ...

class AtWork(_message.Message):
    __slots__ = ("step", "key", "frames")
    STEP_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    step: str
    key: str
    frames: _containers.RepeatedCompositeFieldContainer[Frame]
    def __init__(self, step: _Optional[str] = ..., key: _Optional[str] = ..., frames: _Optional[_Iterable[_Union[Frame, _Mapping]]] = ...) -> None: ...
