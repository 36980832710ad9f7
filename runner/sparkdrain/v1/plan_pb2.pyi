from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Edge(_message.Message):
    __slots__ = ("id", "kind", "pcollection", "producer", "consumer", "multimap", "time_sorted", "stable", "step")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PCOLLECTION_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    MULTIMAP_FIELD_NUMBER: _ClassVar[int]
    TIME_SORTED_FIELD_NUMBER: _ClassVar[int]
    STABLE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    id: int
    kind: str
    pcollection: str
    producer: int
    consumer: int
    multimap: bool
    time_sorted: bool
    stable: bool
    step: str
    def __init__(self, id: _Optional[int] = ..., kind: _Optional[str] = ..., pcollection: _Optional[str] = ..., producer: _Optional[int] = ..., consumer: _Optional[int] = ..., multimap: bool = ..., time_sorted: bool = ..., stable: bool = ..., step: _Optional[str] = ...) -> None: ...

class SideInput(_message.Message):
    __slots__ = ("transform", "tag", "edge", "main")
    TRANSFORM_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    MAIN_FIELD_NUMBER: _ClassVar[int]
    transform: str
    tag: str
    edge: int
    main: int
    def __init__(self, transform: _Optional[str] = ..., tag: _Optional[str] = ..., edge: _Optional[int] = ..., main: _Optional[int] = ...) -> None: ...

class Transform(_message.Message):
    __slots__ = ("id", "proto")
    ID_FIELD_NUMBER: _ClassVar[int]
    PROTO_FIELD_NUMBER: _ClassVar[int]
    id: str
    proto: bytes
    def __init__(self, id: _Optional[str] = ..., proto: _Optional[bytes] = ...) -> None: ...

class Source(_message.Message):
    __slots__ = ("transform", "edge")
    TRANSFORM_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    transform: str
    edge: int
    def __init__(self, transform: _Optional[str] = ..., edge: _Optional[int] = ...) -> None: ...

class Sink(_message.Message):
    __slots__ = ("transform", "edge")
    TRANSFORM_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    transform: str
    edge: int
    def __init__(self, transform: _Optional[str] = ..., edge: _Optional[int] = ...) -> None: ...

class Stage(_message.Message):
    __slots__ = ("name", "level", "transforms", "sources", "sinks", "side_inputs", "environment", "counted_elsewhere")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    TRANSFORMS_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    SIDE_INPUTS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    COUNTED_ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    name: str
    level: int
    transforms: _containers.RepeatedCompositeFieldContainer[Transform]
    sources: _containers.RepeatedCompositeFieldContainer[Source]
    sinks: _containers.RepeatedCompositeFieldContainer[Sink]
    side_inputs: _containers.RepeatedCompositeFieldContainer[SideInput]
    environment: str
    counted_elsewhere: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., level: _Optional[int] = ..., transforms: _Optional[_Iterable[_Union[Transform, _Mapping]]] = ..., sources: _Optional[_Iterable[_Union[Source, _Mapping]]] = ..., sinks: _Optional[_Iterable[_Union[Sink, _Mapping]]] = ..., side_inputs: _Optional[_Iterable[_Union[SideInput, _Mapping]]] = ..., environment: _Optional[str] = ..., counted_elsewhere: _Optional[_Iterable[str]] = ...) -> None: ...

class PlayedSource(_message.Message):
    __slots__ = ("transform", "stream", "tag", "coder", "payload")
    TRANSFORM_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    CODER_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    transform: str
    stream: str
    tag: str
    coder: str
    payload: bytes
    def __init__(self, transform: _Optional[str] = ..., stream: _Optional[str] = ..., tag: _Optional[str] = ..., coder: _Optional[str] = ..., payload: _Optional[bytes] = ...) -> None: ...

class Level(_message.Message):
    __slots__ = ("stages",)
    STAGES_FIELD_NUMBER: _ClassVar[int]
    stages: _containers.RepeatedCompositeFieldContainer[Stage]
    def __init__(self, stages: _Optional[_Iterable[_Union[Stage, _Mapping]]] = ...) -> None: ...

class Plan(_message.Message):
    __slots__ = ("components", "levels", "edges", "played")
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    PLAYED_FIELD_NUMBER: _ClassVar[int]
    components: bytes
    levels: _containers.RepeatedCompositeFieldContainer[Level]
    edges: _containers.RepeatedCompositeFieldContainer[Edge]
    played: _containers.RepeatedCompositeFieldContainer[PlayedSource]
    def __init__(self, components: _Optional[bytes] = ..., levels: _Optional[_Iterable[_Union[Level, _Mapping]]] = ..., edges: _Optional[_Iterable[_Union[Edge, _Mapping]]] = ..., played: _Optional[_Iterable[_Union[PlayedSource, _Mapping]]] = ...) -> None: ...
