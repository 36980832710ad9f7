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

class Provisioned(_message.Message):
    __slots__ = ("info",)
    INFO_FIELD_NUMBER: _ClassVar[int]
    info: ProvisionedInfo
    def __init__(self, info: _Optional[_Union[ProvisionedInfo, _Mapping]] = ...) -> None: ...

class ProvisionedInfo(_message.Message):
    __slots__ = ("status_endpoint", "logging_endpoint", "artifact_endpoint", "control_endpoint", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    STATUS_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    LOGGING_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    CONTROL_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    status_endpoint: ServiceAddress
    logging_endpoint: ServiceAddress
    artifact_endpoint: ServiceAddress
    control_endpoint: ServiceAddress
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, status_endpoint: _Optional[_Union[ServiceAddress, _Mapping]] = ..., logging_endpoint: _Optional[_Union[ServiceAddress, _Mapping]] = ..., artifact_endpoint: _Optional[_Union[ServiceAddress, _Mapping]] = ..., control_endpoint: _Optional[_Union[ServiceAddress, _Mapping]] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ServiceAddress(_message.Message):
    __slots__ = ("url",)
    URL_FIELD_NUMBER: _ClassVar[int]
    url: str
    def __init__(self, url: _Optional[str] = ...) -> None: ...

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
