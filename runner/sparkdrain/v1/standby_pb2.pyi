from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Term(_message.Message):
    __slots__ = ("owner", "state", "began", "epoch", "failures", "failed_at", "is_last", "cause")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[Term.State]
        LEADING: _ClassVar[Term.State]
        STOPPED: _ClassVar[Term.State]
        FAILED: _ClassVar[Term.State]
        DONE: _ClassVar[Term.State]
        DRAINED: _ClassVar[Term.State]
        CANCELLED: _ClassVar[Term.State]
    UNSPECIFIED: Term.State
    LEADING: Term.State
    STOPPED: Term.State
    FAILED: Term.State
    DONE: Term.State
    DRAINED: Term.State
    CANCELLED: Term.State
    OWNER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BEGAN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    FAILED_AT_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    owner: str
    state: Term.State
    began: int
    epoch: int
    failures: int
    failed_at: int
    is_last: bool
    cause: str
    def __init__(self, owner: _Optional[str] = ..., state: _Optional[_Union[Term.State, str]] = ..., began: _Optional[int] = ..., epoch: _Optional[int] = ..., failures: _Optional[int] = ..., failed_at: _Optional[int] = ..., is_last: bool = ..., cause: _Optional[str] = ...) -> None: ...

class StandingDriver(_message.Message):
    __slots__ = ("owner", "since", "heard")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    owner: str
    since: int
    heard: int
    def __init__(self, owner: _Optional[str] = ..., since: _Optional[int] = ..., heard: _Optional[int] = ...) -> None: ...
