"""Options on the wire of the Job API: described to clients, read from a submission."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2
from google.protobuf import json_format

from sparkdrain.option_table import OPTIONS
from sparkdrain.options import JobSettings
from sparkdrain.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.struct_pb2 import Struct

_TYPE = beam_job_api_pb2.PipelineOptionType
_TYPES: Final = {
    "int": _TYPE.INTEGER,
    "str": _TYPE.STRING,
    "flag": _TYPE.BOOLEAN,
    "pairs": _TYPE.ARRAY,
    "steps": _TYPE.ARRAY,
}
_URN: Final = re.compile(r"beam:option:(.+):v1")
_MASTER: Final = "spark_master_url"
_KINDS: Final = {
    **{option.name: option.kind for option in OPTIONS},
    # Beam's.
    "streaming": "flag",
    "sdk_worker_parallelism": "int",
    _MASTER: "str",
}
MASTER_URN: Final = f"beam:option:{_MASTER}:v1"


def describe() -> beam_job_api_pb2.DescribePipelineOptionsResponse:
    """Our option table, for clients that do not have this package."""
    return beam_job_api_pb2.DescribePipelineOptionsResponse(
        options=[
            beam_job_api_pb2.PipelineOptionDescriptor(
                name=option.name,
                type=_TYPES[option.kind],
                description=option.help,
                default_value=str(option.default),
                group=option.group,
            )
            for option in OPTIONS
        ]
    )


def plain(options: Struct) -> dict[str, Any]:
    """Options by plain name (``beam:option:slots:v1`` is ``slots``).

    Go's SDK sends all flags of a program as texts within one option. Ours among them are taken
    out; all stay there too, for its own harness.
    """
    values: dict[str, Any] = json_format.MessageToDict(options)
    named = {_plain_name(urn): value for urn, value in values.items()}
    match named.get("go_options"):
        case {"options": dict(flags)}:
            return {**_of_go(flags), **named}
    return named


def _of_go(flags: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in flags.keys() & _KINDS.keys():
        text = flags[name]
        match _KINDS[name]:
            case "flag":
                found[name] = {"true": True, "false": False}.get(text, text)
            case "pairs" | "steps":
                found[name] = [text]
            case _:
                found[name] = text
    return found


def shown(options: Struct) -> Struct:
    """Options as they are shown to clients: without the values of those that are secret."""
    values: dict[str, Any] = json_format.MessageToDict(options)
    safe = {urn: redacted(value, _plain_name(urn)) for urn, value in values.items()}
    return json_format.ParseDict(safe, type(options)())


def settings(options: Mapping[str, Any]) -> JobSettings:
    """Our own options out of ``options``, checked.

    Raises:
        BadOption: a value cannot be used.
    """
    others = {name: value for name, value in options.items() if name != _MASTER}
    # Our client sends the master only if the user gave one; as a flag it counts as given.
    flags = [f"--{_MASTER}={options[_MASTER]}"] if options.get(_MASTER) is not None else []
    return JobSettings.from_options(PipelineOptions(flags, **others))


def _plain_name(urn: str) -> str:
    match = _URN.fullmatch(urn)
    return match.group(1) if match else urn
