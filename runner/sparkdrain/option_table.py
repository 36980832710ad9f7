"""The options of this runner, in one table; the only place where an option is described.

The command line, the Job API's ``DescribePipelineOptions``, ``Settings`` and docs/options.md are
made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["int", "str", "flag", "pairs"]
Jobs = Literal["all", "batch", "streaming"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option as the user sees it.

    Attributes:
        name: without dashes; also the field of ``Settings``.
        kind: what the text is read as; ``pairs`` may be given several times, and ``flag`` has no
            value.
        default: as the user would write it; ``""`` means nothing.
        unit: what a number counts, or the allowed words.
        summary: what it does.
        why: when somebody would change it.
        group: heading under which it is listed.
        minimum: lowest legal number.
        words: the legal words, if it takes one of a few; else any text.
        jobs: the kind of jobs in which it has an effect; others refuse it.
        needs: the option without which it has none.
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
    jobs: Jobs = "all"
    needs: str = ""

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
        jobs="batch",
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
        jobs="streaming",
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
        jobs="streaming",
    ),
    Option(
        name="state_memory_mb",
        kind="int",
        default="256",
        unit="MiB per slot",
        summary="Memory that state and timers of a streaming job may use; what is more is on disk",
        why="Raise it if there are more keys at a time than fit: 2 KiB each, or less.",
        group="memory",
        minimum=1,
        jobs="streaming",
    ),
    Option(
        name="checkpoint_dir",
        kind="str",
        default="",
        unit="a path of any of Beam's file systems",
        summary="Where the state of a streaming job is made durable, in a folder of the job's name",
        why="Give it to jobs that must survive the loss of a process, a machine or the driver.",
        group="checkpoints",
        jobs="streaming",
    ),
    Option(
        name="checkpoint_ms",
        kind="int",
        default="10000",
        unit="milliseconds",
        summary="How often a checkpoint is begun, as long as something has changed",
        why="Lower it to repeat less after a loss; raise it to write less.",
        group="checkpoints",
        jobs="streaming",
        needs="checkpoint_dir",
    ),
    Option(
        name="checkpoints_kept",
        kind="int",
        default="3",
        unit="checkpoints",
        summary="How many of the newest checkpoints of a job stay",
        why="Raise it to be able to look further back.",
        group="checkpoints",
        minimum=1,
        jobs="streaming",
        needs="checkpoint_dir",
    ),
    Option(
        name="resume",
        kind="flag",
        default="",
        unit="no value",
        summary="Go on from the newest checkpoint of the job, or begin if there is none",
        why="Without it, a job that has a checkpoint is refused.",
        group="checkpoints",
        jobs="streaming",
        needs="checkpoint_dir",
    ),
    Option(
        name="recoveries",
        kind="int",
        default="3",
        unit="times in a row, without a new checkpoint in between",
        summary="How often a job goes on from its newest checkpoint after it has lost state",
        why="Raise it on machines that may be taken away; 0 fails at the first loss.",
        group="checkpoints",
        jobs="streaming",
        needs="checkpoint_dir",
    ),
    Option(
        name="run_id",
        kind="str",
        default="",
        unit="a text; a new one for each run if not given",
        summary="Names this run of the job, so that it can be drained before it has started",
        why="Give one if something outside of this program must know the run beforehand.",
        group="drain",
    ),
    Option(
        name="metadata_store",
        kind="str",
        default="auto",
        unit="auto, memory:, memory:NAME, file:/path or rocksdb:/path; auto = file: in "
        "--checkpoint_dir if that is a path of this machine, else memory:",
        summary="Where runs are listed and requests to drain are written and looked for",
        why="file: lets any process drain the job, and keeps a request if the driver is lost.",
        group="drain",
    ),
    Option(
        name="drain",
        kind="str",
        default="on",
        unit="on or off",
        summary="Whether the job can be drained",
        why="Turn it off if nobody may end the job so; whoever tries is told.",
        group="drain",
        words=("on", "off"),
    ),
    Option(
        name="drain_on_signal",
        kind="str",
        default="none",
        unit="none, TERM, INT, USR1 or USR2",
        summary="The signal that drains the job while the program waits for its end",
        why="TERM, where whoever stops programs sends that and can wait; a second one cancels.",
        group="drain",
        words=("none", "TERM", "INT", "USR1", "USR2"),
    ),
    Option(
        name="drain_poll_ms",
        kind="int",
        default="1000",
        unit="milliseconds",
        summary="How often a job looks for requests in its metadata store",
        why="Raise it if very many jobs share one store.",
        group="drain",
        minimum=1,
    ),
    Option(
        name="drain_timer_repeats",
        kind="int",
        default="10",
        unit="times",
        summary="While draining, how often a timer fires again that its own callback sets again",
        why="Raise it if timers need more to get state out; the rest is counted and told.",
        group="drain",
        jobs="streaming",
    ),
    Option(
        name="drain_element_limit_ms",
        kind="int",
        default="0",
        unit="milliseconds; 0 = unlimited",
        summary="While draining, how long a slot may work on what it was sent in one round",
        why="Set it if user code may hang and a drain must not wait for that.",
        group="drain",
        jobs="streaming",
    ),
    Option(
        name="drain_watermark_limit_ms",
        kind="int",
        default="0",
        unit="milliseconds; 0 = unlimited",
        summary="While draining, how long a slot may fire windows and timers in one round",
        why="As above; firing takes longer than elements do, so it has a limit of its own.",
        group="drain",
        jobs="streaming",
    ),
    Option(
        name="drain_limit_ms",
        kind="int",
        default="0",
        unit="milliseconds; 0 = unlimited",
        summary="How long a drain may take as a whole",
        why="Set it if something must happen when a drain does not come to its end.",
        group="drain",
    ),
    Option(
        name="drain_limit_policy",
        kind="str",
        default="fail",
        unit="fail, cancel or wait",
        summary="What happens when a limit of a drain is exceeded",
        why="cancel gives up the rest; wait only says so, and goes on.",
        group="drain",
        words=("fail", "cancel", "wait"),
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
