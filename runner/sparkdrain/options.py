"""The options of this runner as flags, and the checked values that the engine reads."""

from __future__ import annotations

import os
from argparse import ArgumentError, ArgumentParser
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from apache_beam.options.pipeline_options import (
    DebugOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
)

from sparkdrain import redaction
from sparkdrain.concurrency.settings import AsyncStep
from sparkdrain.coordination.address import AUTO, StoreAddress, beside, checkpoint_root, parse
from sparkdrain.errors import BadOption
from sparkdrain.option_table import OPTIONS, Option
from sparkdrain.redaction import redacted
from sparkdrain.spark_master import DEFAULT_MASTER, given_master, spark_is_set_up

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

CheckpointAccess = Literal["user", "group"]
LimitPolicy = Literal["fail", "cancel", "wait"]
Progress = Literal["auto", "live", "plain", "off"]
Resume = bool | Literal["required"]
"""Whether to go on from the newest checkpoint; ``required``: and not to begin without one."""

# Experiments of Beam.
_SAMPLE_ALL: Final = "enable_data_sampling"
_SAMPLE_FAILING: Final = "enable_always_on_exception_sampling"
_DO_NOT_SAMPLE_FAILING: Final = "disable_always_on_exception_sampling"
# What --sdk_worker_parallelism may be. Beam's own client in Python sends numbers as texts.
_WORKERS = (None, 0, 1, "0", "1")


class SparkDrainOptions(PipelineOptions):
    """The flags of ``OPTIONS``, as given; ``JobSettings.from_options`` checks them."""

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

    def __str__(self) -> str:
        values = ((option.name, getattr(self, option.name)) for option in OPTIONS)
        shown = (f"{name}={redacted(value, name)}" for name, value in values)
        return f"{type(self).__name__}({', '.join(shown)})"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The options of one job, checked: every value can be used as it is.

    ``OPTIONS`` says what each option means, and its unit. Here an option that is on or off is a
    bool, an empty text stands for none, and a limit of 0 is no limit.

    Attributes:
        async_steps: names of steps, and what the option says of each.
        resume: see ``Resume``.
        spark_conf: Spark properties in the order given; a later one wins.
        spark_master_url: the Spark master to connect to if no session is active, or None: what
            ``spark-submit`` or ``spark-defaults.conf`` says must not be overridden.
        samples: whether SDK harnesses are asked for samples of elements, by Beam's own experiments.
    """

    slots: int = 0
    shuffle_memory_mb: int = 512
    block_kb: int = 1024
    compiled_stages: bool = True
    async_steps: tuple[tuple[str, AsyncStep], ...] = ()
    job_attempts: int = 3
    streaming: bool = False
    round_ms: int = 200
    round_attempts: int = 3
    round_limit_ms: int = 0
    hang_warning_ms: int = 30_000
    state_memory_mb: int = 256
    slot_memory_limit_mb: int = 0
    checkpoint_dir: str = ""
    checkpoint_ms: int = 10_000
    checkpoints_kept: int = 3
    resume: Resume = False
    checkpoint_access: CheckpointAccess = "user"
    state_dir: str = ""
    location: str = ""
    warm_copies: int = 0
    recoveries: int = 3
    standby: bool = False
    standby_lease_ms: int = 3000
    run_id: str = ""
    metadata_store: StoreAddress = StoreAddress("memory", "")  # noqa: RUF009 - frozen
    drain: bool = True
    drain_on_signal: str = "none"
    drain_poll_ms: int = 1000
    drain_timer_repeats: int = 10
    drain_element_limit_ms: int = 0
    drain_watermark_limit_ms: int = 0
    drain_limit_ms: int = 0
    drain_limit_policy: LimitPolicy = "fail"
    job_tls_ca: str = ""
    job_tls_cert: str = ""
    job_tls_key: str = ""
    job_token_file: str = ""
    spark_conf: tuple[tuple[str, str], ...] = ()
    progress: Progress = "auto"
    spark_master_url: str | None = DEFAULT_MASTER
    samples: bool = False

    def __post_init__(self) -> None:
        redaction.remember(self.spark_conf)

    def __repr__(self) -> str:
        return redaction.representation(self)

    @classmethod
    def from_options(
        cls, options: PipelineOptions, environ: Mapping[str, str] | None = None
    ) -> JobSettings:
        """Check the options and resolve the master.

        Args:
            environ: the environment in which to look for ``spark-submit``; the process's own
                if not given.

        Raises:
            BadOption: a value cannot be used; names the option and what it takes.
        """
        view = options.view_as(SparkDrainOptions)
        values = {option.name: _checked(option, getattr(view, option.name)) for option in OPTIONS}
        values["compiled_stages"] = values["compiled_stages"] == "on"
        values["drain"] = values["drain"] == "on"
        store, checkpoint_dir = values["metadata_store"], checkpoint_root(values["checkpoint_dir"])
        values["checkpoint_dir"] = checkpoint_dir
        _check_state_dir(values["state_dir"])
        values["metadata_store"] = beside(checkpoint_dir) if store == AUTO else parse(store)
        master = given_master(options)
        if master is None and not spark_is_set_up(os.environ if environ is None else environ):
            master = DEFAULT_MASTER
        streaming = bool(options.view_as(StandardOptions).streaming)
        _check_workers(options.view_as(PortableOptions).sdk_worker_parallelism)
        samples = _wants_samples(options.view_as(DebugOptions).experiments or ())
        settings = cls(**values, streaming=streaming, spark_master_url=master, samples=samples)
        settings.check_needs()
        return settings

    @property
    def named_master(self) -> str | None:
        """The Spark master that the user named; None: the default, or as Spark is set up."""
        return None if self.spark_master_url == DEFAULT_MASTER else self.spark_master_url

    def check_needs(self) -> None:
        """Refuse options that were given without the one that they need.

        Raises:
            BadOption: names both.
        """
        for option in self._given():
            if option.needs and not getattr(self, option.needs):
                message = (
                    f"{option.flag} has no effect without --{option.needs}: give that too, or "
                    f"leave {option.flag} out."
                )
                raise BadOption(message)

    def check_effect(self, *, streaming: bool) -> None:
        """Refuse options that would have no effect on a job of this kind.

        Raises:
            BadOption: names the option.
        """
        for option in self._given():
            match option.jobs, streaming:
                case "streaming", False:
                    message = (
                        f"{option.flag} is for streaming jobs, and this is a batch job: leave it "
                        f"out, or give --streaming."
                    )
                case "batch", True:
                    message = (
                        f"{option.flag} is for batch jobs, and this one is streaming, because it "
                        f"was given --streaming or has unbounded input: leave it out."
                    )
                case _:
                    continue
            raise BadOption(message)

    def _given(self) -> Iterator[Option]:
        """The options whose values are not their defaults."""
        plain = JobSettings()
        for option in OPTIONS:
            if getattr(self, option.name) != getattr(plain, option.name):
                yield option


def samples_all(experiments: Container[str]) -> bool:
    """Whether harnesses keep samples of all elements, not only of those that user code fails on."""
    return _SAMPLE_ALL in experiments


def _wants_samples(experiments: Container[str]) -> bool:
    failing = _SAMPLE_FAILING in experiments and _DO_NOT_SAMPLE_FAILING not in experiments
    return samples_all(experiments) or failing


def _check_workers(parallelism: object) -> None:
    if parallelism not in _WORKERS:
        message = (
            f"--sdk_worker_parallelism={parallelism} has no effect. With 1, the default, the slots "
            "of an executor share one JVM for code in Java, and one process for code in Go; with "
            "0, each slot has its own."
        )
        raise BadOption(message)


def _check_state_dir(text: str) -> None:
    """Refuses what no host could take for a folder of its own; each host looks at the rest."""
    if text and ("://" in text or not text.startswith(("/", "~", "$"))):
        message = (
            f"--state_dir cannot be {text!r}: it takes an absolute path of a folder that each host "
            "has for itself, such as /var/lib/sparkdrain or $SCRATCH/sparkdrain."
        )
        raise BadOption(message)


def _add_flag(parser: ArgumentParser, option: Option) -> None:
    text = option.help.replace("%", "%%")
    match option.kind:
        case "pairs" | "steps":
            parser.add_argument(option.flag, action="append", default=[], help=text)
        case "int":
            default = int(option.default)
            parser.add_argument(option.flag, type=_number_or_text, default=default, help=text)
        case "flag":
            # With no word it takes no value at all.
            more: dict[str, Any] = {"nargs": "?", "const": True, "default": False}
            plain: dict[str, Any] = {"action": "store_true"}
            parser.add_argument(option.flag, **(more if option.words else plain), help=text)
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
        case "steps":
            steps = [_checked_step(option, entry) for entry in _as_list(option, value)]
            if len(dict(steps)) < len(steps):
                raise BadOption(_wrong(option, value, "It names a step twice."))
            return tuple(steps)
        case "flag":
            if not isinstance(value, bool) and value not in option.words:
                raise BadOption(_wrong(option, value, "From code, give True or False."))
            return value
        case "str":
            if not isinstance(value, str) or (option.words and value not in option.words):
                raise BadOption(_wrong(option, value))
            if value and not value.strip():
                raise BadOption(_wrong(option, value, "It is blank."))
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


def _checked_step(option: Option, entry: Any) -> tuple[str, AsyncStep]:
    name, equals, said = entry.rpartition("=") if isinstance(entry, str) else ("", "", "")
    number, comma, word = said.partition(",")
    if not name or not equals or not number.isdecimal() or int(number) < 1:
        raise BadOption(_wrong(option, entry, "The number is 1 or more."))
    if comma and word != "carry_over":
        raise BadOption(_wrong(option, entry, "Only ',carry_over' may follow the number."))
    return name, AsyncStep(int(number), carry_over=bool(comma))


def _wrong(option: Option, value: Any, hint: str = "") -> str:
    takes = f"a whole number, {option.unit}" if option.kind == "int" else option.unit
    shown = redacted(value, option.name)
    return f"{option.flag} cannot be {shown!r}: it takes {takes}. {hint}".rstrip()
