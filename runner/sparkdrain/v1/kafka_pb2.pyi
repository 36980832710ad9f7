from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class SinkNote(_message.Message):
    __slots__ = ("sparkdrain", "owner", "digest", "stage", "job", "behind")
    SPARKDRAIN_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    sparkdrain: int
    owner: str
    digest: str
    stage: str
    job: str
    behind: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sparkdrain: _Optional[int] = ..., owner: _Optional[str] = ..., digest: _Optional[str] = ..., stage: _Optional[str] = ..., job: _Optional[str] = ..., behind: _Optional[_Iterable[str]] = ...) -> None: ...
