"""Stops a pipeline with an option that would be ignored: it is unknown, or cannot work here.

Beam only warns about an unknown flag and runs without it. This module alone touches the private
parts of Beam's option parsing.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from apache_beam.options import pipeline_options
from apache_beam.options.pipeline_options import (
    DebugOptions,
    PipelineOptions,
    PortableOptions,
    SparkRunnerOptions,
)
from apache_beam.portability import python_urns

from sparkdrain.errors import BadOption

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

ALLOW_EXPERIMENT = "allow_unknown_options"

# Programs whose own flags stand in sys.argv although they are no part of a pipeline.
_LAUNCHERS = re.compile(
    r"(pytest|py\.test|unittest|nose2?|trial|ipykernel\w*|colab_kernel\w*)", re.I
)
_NUMBER = re.compile(r"-\d|-\.\d")
_SIMILAR = 0.7

# Options of Beam's own Spark runner that name things which do not exist here.
_WITHOUT_EFFECT = {
    "spark_job_server_jar": "the job service is part of this process and needs no jar",
    "spark_submit_uber_jar": "start the program itself with spark-submit",
    "spark_rest_url": "name the master with --spark_master_url, or start with spark-submit",
    "output_executable_path": "start the program itself with spark-submit",
}


def refuse_unknown(options: PipelineOptions, argv: Sequence[str]) -> None:
    """Do nothing if every option is known to Beam, to us or to the program; else stop.

    Known is what any ``PipelineOptions`` subclass declares, the user's own included. Looked at are
    the flags given to ``PipelineOptions``, the keywords given to it, and the process's command
    line if Beam took the flags from there. In that last case the flags of a test runner or of a
    notebook kernel are left alone.

    Args:
        argv: the process's command line, the program first.

    Raises:
        BadOption: names every unknown option, the most similar known one, and the ways out.
    """
    if ALLOW_EXPERIMENT in (options.view_as(DebugOptions).experiments or ()):
        return
    parser = _parser_of_everything()
    unknown = [*_unknown_flags(parser, _typed(options, argv)), *_unknown_keywords(parser, options)]
    if unknown:
        raise BadOption(_message(unknown, _names(parser)))


def refuse_without_effect(options: PipelineOptions) -> None:
    """Stop if an option is set that this runner could only ignore.

    Raises:
        BadOption: names the option and what to use instead.
    """
    for view in (options.view_as(SparkRunnerOptions), options.view_as(PortableOptions)):
        for name, instead in _WITHOUT_EFFECT.items():
            if getattr(view, name, None):
                message = f"--{name} has no effect with SparkDrainRunner: {instead}."
                raise BadOption(message)
    portable = options.view_as(PortableOptions)
    kind = portable.environment_type or python_urns.EMBEDDED_PYTHON
    if portable.environment_config and kind == python_urns.EMBEDDED_PYTHON:
        message = (
            "--environment_config has no effect with SparkDrainRunner: Python transforms run in "
            "Spark's own workers. Say with --environment_type what it configures (PROCESS, "
            "EXTERNAL or DOCKER), or leave it out."
        )
        raise BadOption(message)


def _typed(options: PipelineOptions, argv: Sequence[str]) -> Sequence[str]:
    flags: Sequence[str] | None = options._flags  # noqa: SLF001
    if flags is not None:
        return flags
    # unittest calls itself "python -m unittest", pytest "…/pytest/__main__.py" or "…/bin/pytest".
    program = re.split(r"[/\\ ]", argv[0])[-2:] if argv else []
    launched = any(_LAUNCHERS.fullmatch(part.removesuffix(".py")) for part in program)
    return () if launched else argv[1:]


def _parser_of_everything() -> argparse.ArgumentParser:
    # `resolve`: a class may be there twice, from a module that was loaded again or a main session.
    parser = pipeline_options._BeamArgumentParser(  # noqa: SLF001
        allow_abbrev=False, add_help=False, conflict_handler="resolve"
    )
    for cls in _subclasses(PipelineOptions):
        if "_add_argparse_args" in cls.__dict__:
            cls._add_argparse_args(parser)
    return parser


def _subclasses(cls: Any) -> Iterator[Any]:
    for child in cls.__subclasses__():
        yield child
        yield from _subclasses(child)


def _unknown_flags(parser: argparse.ArgumentParser, typed: Sequence[str]) -> Iterator[str]:
    until_dashes = list(typed)
    if "--" in until_dashes:
        del until_dashes[until_dashes.index("--") :]
    _, rest = parser.parse_known_args(until_dashes)
    for token in rest:
        if token.startswith("-") and len(token) > 1 and not _NUMBER.match(token):
            yield token.split("=", 1)[0]


def _unknown_keywords(parser: argparse.ArgumentParser, options: PipelineOptions) -> Iterator[str]:
    known = {action.dest for action in parser._actions}  # noqa: SLF001
    for keyword in options._all_options:  # noqa: SLF001
        if keyword not in known:
            yield f"--{keyword}"


def _names(parser: argparse.ArgumentParser) -> list[str]:
    actions = parser._actions  # noqa: SLF001
    return sorted({flag for action in actions for flag in action.option_strings})


def _message(unknown: Iterable[str], names: list[str]) -> str:
    lines = [_suggestion(flag, names) for flag in dict.fromkeys(unknown)]
    lines.append(
        "An option of the program itself must be declared in a PipelineOptions subclass, or be "
        "kept out of PipelineOptions (argparse's parse_known_args gives the rest). "
        f"--experiments={ALLOW_EXPERIMENT} lets every unknown option pass."
    )
    return "\n".join(lines)


def _suggestion(flag: str, names: list[str]) -> str:
    wanted = "--" + flag.lstrip("-").replace("-", "_").lower()
    close = difflib.get_close_matches(wanted, names, n=1, cutoff=_SIMILAR)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"Unknown pipeline option {flag}.{hint}"
