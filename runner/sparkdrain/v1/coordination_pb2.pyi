from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Lease(_message.Message):
    __slots__ = ("owner", "token", "seconds")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    owner: str
    token: int
    seconds: float
    def __init__(self, owner: _Optional[str] = ..., token: _Optional[int] = ..., seconds: _Optional[float] = ...) -> None: ...

class CutValue(_message.Message):
    __slots__ = ("folder", "parts", "sha256")
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    folder: str
    parts: int
    sha256: str
    def __init__(self, folder: _Optional[str] = ..., parts: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class FileHead(_message.Message):
    __slots__ = ("key", "size", "sha256", "version", "head")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    key: str
    size: int
    sha256: str
    version: str
    head: str
    def __init__(self, key: _Optional[str] = ..., size: _Optional[int] = ..., sha256: _Optional[str] = ..., version: _Optional[str] = ..., head: _Optional[str] = ...) -> None: ...
