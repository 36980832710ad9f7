"""The options of this runner: one table, and the checked values that the engine reads.

``OPTIONS`` is the only place where an option is described. The command line, the Job API's
``DescribePipelineOptions`` and ``Settings`` are made from it.
"""

from __future__ import annotations

import os
from argparse import ArgumentError, ArgumentParser
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from sparkdrain.errors import BadOption
from sparkdrain.spark_master import DEFAULT_MASTER, given_master, spark_is_set_up

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["int", "str", "pairs"]
Progress = Literal["auto", "live", "plain", "off"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option as the user sees it.

    Attributes:
        name: without dashes; also the field of ``Settings``.
        kind: what the text is read as; ``pairs`` may be given several times.
        default: as the user would write it; ``""`` means nothing.
        unit: what a number counts, or the allowed words.
        summary: what it does.
        why: when somebody would change it.
        group: heading under which it is listed.
        minimum: lowest legal number.
        words: the legal words, if it takes one of a few.
    """

    name: str
    kind: Kind
    default: str
    unit: str
    summary: str
    why: str
    group: str
    minimum: int = 0
    words: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--{self.name}"

    @property
    def help(self) -> str:
        """One paragraph: what, unit, default, reason to change it."""
        default = f"default {self.default}" if self.default else "nothing by default"
        return f"{self.summary} ({self.unit}; {default}). {self.why}"


OPTIONS: tuple[Option, ...] = (
    Option(
        name="slots",
        kind="int",
        default="0",
        unit="parts of every stage; 0 = Spark's default parallelism",
        summary="How many tasks a stage is cut into",
        why="Raise it if parts are too large for memory; lower it for many small jobs.",
        group="parallelism",
    ),
    Option(
        name="shuffle_memory_mb",
        kind="int",
        default="256",
        unit="MiB per slot",
        summary="Memory that grouping and sorting may use before they spill to Spark's local disks",
        why="Raise it if jobs spill and executors have memory to spare; lower it if they run out.",
        group="memory",
        minimum=1,
    ),
    Option(
        name="block_kb",
        kind="int",
        default="1024",
        unit="KiB",
        summary="Size at which a block of shuffled elements is sent",
        why="Lower it if there are very many slots and memory is short; higher compresses better.",
        group="memory",
        minimum=1,
    ),
    Option(
        name="compiled_stages",
        kind="str",
        default="on",
        unit="on or off",
        summary="Run chains of simple transforms as one generated function",
        why="Turn it off to find out whether a surprising result comes from there.",
        group="execution",
        words=("on", "off"),
    ),
    Option(
        name="job_attempts",
        kind="int",
        default="3",
        unit="times in all",
        summary="How often a batch job is started again after the cluster lost some of its data",
        why="Raise it on machines that may be taken away; 1 fails at the first loss.",
        group="execution",
        minimum=1,
    ),
    Option(
        name="round_ms",
        kind="int",
        default="200",
        unit="milliseconds",
        summary="How long a round of a streaming job should take",
        why="Lower it for results sooner; raise it for more elements a second.",
        group="streaming",
        minimum=10,
    ),
    Option(
        name="round_attempts",
        kind="int",
        default="3",
        unit="times in all",
        summary="How often a round of a streaming job is run after the cluster lost its data",
        why="Raise it on machines that may be taken away; 1 fails at the first loss.",
        group="streaming",
        minimum=1,
    ),
    Option(
        name="spark_conf",
        kind="pairs",
        default="",
        unit="key=value, repeatable",
        summary="A Spark property for the session that the runner starts",
        why="For what spark-defaults.conf or spark-submit --conf would say.",
        group="spark",
    ),
    Option(
        name="progress",
        kind="str",
        default="auto",
        unit="auto, live, plain or off",
        summary="How progress is shown: a live display, plain lines, or not at all",
        why="auto is live on a terminal and plain lines elsewhere.",
        group="display",
        words=("auto", "live", "plain", "off"),
    ),
)


class SparkDrainOptions(PipelineOptions):
    """The flags of ``OPTIONS``; values are raw until ``Settings.from_options`` has checked them."""

    @classmethod
    def _add_argparse_args(cls, parser: ArgumentParser) -> None:
        for option in OPTIONS:
            try:
                _add_flag(parser, option)
            except ArgumentError as error:
                message = (
                    f"{option.flag} is an option of SparkDrainRunner, but this program defines an "
                    f"option of that name too. Rename the program's own option."
                )
                raise BadOption(message) from error


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of one job, checked: every value can be used as it is.

    Attributes:
        slots: parts per stage; 0 means Spark's default parallelism.
        shuffle_memory_mb: MiB per slot for grouping before it spills.
        block_kb: KiB at which a shuffle block is sent.
        compiled_stages: whether chains of simple transforms run as generated code.
        job_attempts: how often a batch job is run, counting the first time.
        streaming: whether the job is to run in rounds even if all of its input is bounded.
        round_ms: milliseconds that a round of a streaming job should take.
        round_attempts: how often a round is run, counting the first time.
        spark_conf: Spark properties in the order given; a later one wins.
        progress: how progress is shown.
        spark_master_url: the Spark master to connect to if no session is active, or None: what
            ``spark-submit`` or ``spark-defaults.conf`` says must not be overridden.
    """

    slots: int = 0
    shuffle_memory_mb: int = 256
    block_kb: int = 1024
    compiled_stages: bool = True
    job_attempts: int = 3
    streaming: bool = False
    round_ms: int = 200
    round_attempts: int = 3
    spark_conf: tuple[tuple[str, str], ...] = ()
    progress: Progress = "auto"
    spark_master_url: str | None = DEFAULT_MASTER

    @classmethod
    def from_options(
        cls, options: PipelineOptions, environ: Mapping[str, str] | None = None
    ) -> Settings:
        """Check the options and resolve the master.

        Args:
            options: the job's options, of any view.
            environ: the environment in which to look for ``spark-submit``; the process's own
                if not given.

        Raises:
            BadOption: a value cannot be used; names the option and what it takes.
        """
        view = options.view_as(SparkDrainOptions)
        values = {option.name: _checked(option, getattr(view, option.name)) for option in OPTIONS}
        values["compiled_stages"] = values["compiled_stages"] == "on"
        master = given_master(options)
        if master is None and not spark_is_set_up(os.environ if environ is None else environ):
            master = DEFAULT_MASTER
        streaming = bool(options.view_as(StandardOptions).streaming)
        return cls(**values, streaming=streaming, spark_master_url=master)


def _add_flag(parser: ArgumentParser, option: Option) -> None:
    text = option.help.replace("%", "%%")
    match option.kind:
        case "pairs":
            parser.add_argument(option.flag, action="append", default=[], help=text)
        case "int":
            default = int(option.default)
            parser.add_argument(option.flag, type=_number_or_text, default=default, help=text)
        case "str":
            parser.add_argument(option.flag, default=option.default, help=text)


def _number_or_text(text: str) -> int | str:
    # argparse would end the process with a page of usage; `_checked` gives the better message.
    try:
        return int(text)
    except ValueError:
        return text


def _checked(option: Option, value: Any) -> Any:
    match option.kind:
        case "int":
            return _checked_number(option, value)
        case "pairs":
            return tuple(_checked_pair(option, entry) for entry in _as_list(option, value))
        case "str":
            if value not in option.words:
                raise BadOption(_wrong(option, value))
            return value


def _checked_number(option: Option, value: Any) -> int:
    # The Job API carries numbers as text or as doubles.
    number = _number_or_text(value) if isinstance(value, str) else value
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if not isinstance(number, int) or isinstance(number, bool):
        raise BadOption(_wrong(option, value))
    if number < option.minimum:
        raise BadOption(_wrong(option, value, f"The lowest value is {option.minimum}."))
    return number


def _as_list(option: Option, value: Any) -> list[Any] | tuple[Any, ...]:
    if isinstance(value, (list, tuple)):
        return value
    raise BadOption(_wrong(option, value, "From code, give a list of texts."))


def _checked_pair(option: Option, entry: Any) -> tuple[str, str]:
    key, equals, value = entry.partition("=") if isinstance(entry, str) else ("", "", "")
    if not equals or not key.startswith("spark."):
        raise BadOption(_wrong(option, entry, "Keys start with 'spark.'."))
    if key == "spark.master":
        message = f"{option.flag} {entry!r}: the master has its own option, --spark_master_url."
        raise BadOption(message)
    return key, value


def _wrong(option: Option, value: Any, hint: str = "") -> str:
    takes = f"a whole number, {option.unit}" if option.kind == "int" else option.unit
    return f"{option.flag} cannot be {value!r}: it takes {takes}. {hint}".rstrip()
