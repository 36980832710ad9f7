"""The options of this runner, in one table; the only place where an option is described.

The command line, the Job API's ``DescribePipelineOptions``, ``JobSettings`` and docs/options.md are
made from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

OptionKind = Literal["int", "str", "flag", "pairs", "steps"]
Jobs = Literal["all", "batch", "streaming"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option as the user sees it.

    Attributes:
        name: without dashes; also the field of ``JobSettings``.
        unit: what a number counts, or the allowed words.
        why: when a user would change it.
        default: a number if the option takes numbers; ``""`` means nothing.
        read_as: what the text is read as, if it is neither a number nor itself; ``pairs`` and
            ``steps`` may be given several times, and ``flag`` has no value, or one of ``words``.
        group: heading under which it is listed.
        minimum: lowest legal number.
        words: the legal words, if it takes one of a few; else any text.
        jobs: the kind of jobs in which it has an effect; others refuse it.
        needs: the option without which it has none.
    """

    name: str
    unit: str
    summary: str
    why: str
    default: int | str = ""
    read_as: Literal["flag", "pairs", "steps"] | None = None
    group: str = ""
    minimum: int = 0
    words: tuple[str, ...] = ()
    jobs: Jobs = "all"
    needs: str = ""

    @property
    def kind(self) -> OptionKind:
        """What the text is read as."""
        return self.read_as or ("int" if isinstance(self.default, int) else "str")

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--{self.name}"

    @property
    def help(self) -> str:
        """One paragraph: what, unit, default, reason to change it."""
        default = "nothing by default" if self.default == "" else f"default {self.default}"
        return f"{self.summary} ({self.unit}; {default}). {self.why}"


def _word(
    name: str, words: tuple[str, ...], summary: str, why: str, *, group: str = "", needs: str = ""
) -> Option:
    """One of a few words, the first of them by default."""
    unit = f"{', '.join(words[:-1])} or {words[-1]}"
    return Option(name, unit, summary, why, default=words[0], group=group, words=words, needs=needs)


def _group(heading: str, *options: Option, jobs: Jobs | None = None) -> tuple[Option, ...]:
    """Options under one heading, all of them for the same kind of jobs if that is given."""
    return tuple(
        replace(option, group=heading, jobs=option.jobs if jobs is None else jobs)
        for option in options
    )


OPTIONS: tuple[Option, ...] = (
    Option(
        "slots",
        "parts of every stage; 0 = Spark's default parallelism",
        "How many tasks a stage is cut into",
        "Raise it if parts are too large for memory; lower it for many small jobs. Keys are "
        "dealt out to 1,024 slots at most.",
        default=0,
        group="parallelism",
    ),
    *_group(
        "memory",
        Option(
            "shuffle_memory_mb",
            "MiB per slot",
            "Memory that grouping and sorting may use before they spill to Spark's local disks",
            "Raise it if jobs spill and executors have memory to spare; lower it if they run out.",
            default=512,
            minimum=1,
        ),
        Option(
            "block_kb",
            "KiB",
            "Size at which a block of shuffled elements is sent",
            "Lower it if there are very many slots and memory is short; higher compresses better.",
            default=1024,
            minimum=1,
        ),
        Option(
            "state_memory_mb",
            "MiB per slot",
            "Memory that state and timers of a streaming job may use; what is more is on disk",
            "Raise it if there are more keys at a time than fit: 2 KiB each, or less.",
            default=256,
            minimum=1,
            jobs="streaming",
        ),
        Option(
            "slot_memory_limit_mb",
            "MiB per slot; 0 = unlimited",
            "Memory that the process of a slot of a streaming job may use in all (Python, user "
            "code, state) before it is ended with an error that says so",
            "Set it where the system would kill the process without a word; with checkpoints the "
            "job then goes on from the newest one, --recoveries times in a row.",
            default=0,
            jobs="streaming",
        ),
    ),
    *_group(
        "execution",
        _word(
            "compiled_stages",
            ("on", "off"),
            "Run chains of simple transforms as one generated function",
            "Turn it off to find out whether a surprising result comes from there.",
        ),
        Option(
            "async_steps",
            "step=number or step=number,carry_over, repeatable",
            "Steps that wait, by their full names, and how many elements of each may be in flight "
            "in a slot; a plain DoFn runs in so many threads; with carry_over, a round of a "
            "stream does not wait for them",
            "For DoFns that are not your own, and to change what sparkdrain.Concurrently says.",
            read_as="steps",
        ),
        Option(
            "job_attempts",
            "times in all",
            "How often a batch job is started again after the cluster lost some of its data",
            "Raise it on machines that may be taken away; 1 fails at the first loss.",
            default=3,
            minimum=1,
            jobs="batch",
        ),
    ),
    *_group(
        "streaming",
        Option(
            "round_ms",
            "milliseconds",
            "How long a round of a streaming job should take",
            "Lower it for results sooner; raise it for more elements a second.",
            default=200,
            minimum=10,
        ),
        Option(
            "round_attempts",
            "times in all",
            "How often a round of a streaming job is run after the cluster lost its data",
            "Raise it on machines that may be taken away; 1 fails at the first loss.",
            default=3,
            minimum=1,
        ),
        Option(
            "round_limit_ms",
            "milliseconds; 0 = unlimited",
            "How long a round may take before it fails with an error that names the step it waits "
            "for",
            "Set it if user code may hang: with checkpoints the job then goes on from the newest "
            "one, --recoveries times in a row. The first round also starts the workers.",
            default=0,
        ),
        Option(
            "hang_warning_ms",
            "milliseconds; 0 = never",
            "How long a round may take before a warning says which step it waits for, with the "
            "stack of the step's code",
            "Raise it if your rounds take long by nature.",
            default=30000,
        ),
        jobs="streaming",
    ),
    *_group(
        "checkpoints",
        Option(
            "checkpoint_dir",
            "a path of any of Beam's file systems",
            "Where the state of a streaming job is made durable, in a folder of the job's name",
            "Give it to jobs that must survive the loss of a process, a machine or the driver.",
        ),
        Option(
            "checkpoint_ms",
            "milliseconds",
            "How often a checkpoint is begun, as long as something has changed",
            "Lower it to repeat less after a loss; raise it to write less.",
            default=10000,
            needs="checkpoint_dir",
        ),
        Option(
            "checkpoints_kept",
            "checkpoints",
            "How many of the newest checkpoints of a job stay",
            "Raise it to be able to look further back.",
            default=3,
            minimum=1,
            needs="checkpoint_dir",
        ),
        Option(
            "resume",
            "no value, or required",
            "Go on from the newest checkpoint of the job, or begin if it never had one",
            "Without it, a job that has a checkpoint is refused. Give --resume=required when you "
            "start a job again: an empty or wrong folder, perhaps one that is not mounted, is then "
            "refused, too.",
            read_as="flag",
            needs="checkpoint_dir",
            words=("required",),
        ),
        _word(
            "checkpoint_access",
            ("user", "group"),
            "Who may read and change the checkpoints of the job, and the metadata store beside "
            "them, if they are in folders of this machine",
            "Give group if drivers and executors run as different users of one group: members of "
            "the group can then run code as each other.",
            needs="checkpoint_dir",
        ),
        Option(
            "state_dir",
            "an absolute path on each host; $NAME is taken from the executor's environment",
            "A folder of each host in which published state stays when executors and jobs end",
            "Give it to jobs with much state: a slot that is opened again on a host finds its "
            "files there, and fetches only what is missing. On the disk of Spark's local folders, "
            "files are shared and cost no room.",
            needs="checkpoint_dir",
        ),
        Option(
            "location",
            "a text; $NAME is taken from the executor's environment. Or module:function",
            "Where an executor is, if not on the machine that Spark names: executors of one "
            "location use each other's --state_dir",
            "Give it where machines have other names than their disks: $NODE_NAME for pods that "
            "share a folder of their node, or a rack, so that copies of state are in another one. "
            "MODULE:FUNCTION names a function that is called on each executor and returns a text.",
            needs="state_dir",
        ),
        Option(
            "warm_copies",
            "hosts",
            "On how many more hosts the published state of each slot is kept, in their --state_dir",
            "Give 1 to jobs with much state: if a host is lost, its slots go on where their state "
            "already is. Each checkpoint is then read once more from its storage.",
            default=0,
            needs="state_dir",
        ),
        Option(
            "recoveries",
            "times in a row, without a new checkpoint in between",
            "How often a job goes on from its newest checkpoint after it has lost state",
            "Raise it on machines that may be taken away; 0 fails at the first loss.",
            default=3,
            needs="checkpoint_dir",
        ),
        jobs="streaming",
    ),
    *_group(
        "standby",
        Option(
            "standby",
            "no value",
            "Let one of several drivers of the job lead while the others wait, with their sessions "
            "ready, to go on from its newest checkpoint. Implies --resume",
            "Start the same program so on two or more machines, with one --checkpoint_dir and one "
            "--metadata_store, if the job must survive the loss of its driver (docs/standby.md).",
            read_as="flag",
            needs="checkpoint_dir",
        ),
        Option(
            "standby_lease_ms",
            "milliseconds",
            "How long the drivers that wait let pass after they have heard of the leader last",
            "Raise it if the metadata store answers slowly; lower it to go on sooner.",
            default=3000,
            minimum=500,
            needs="standby",
        ),
        jobs="streaming",
    ),
    *_group(
        "drain",
        Option(
            "run_id",
            "a text; a new one for each run if not given",
            "Names this run of the job, so that it can be drained before it has started",
            "Give one if something outside of this program must know the run beforehand.",
        ),
        Option(
            "metadata_store",
            "auto, or a kind and a place, such as file:/path (docs/drain.md has all kinds); "
            "auto = file: in --checkpoint_dir if that is a path of this machine, else memory:",
            "Where runs are listed and requests to drain are written and looked for",
            "file: lets any process drain the job, and keeps a request if the driver is lost.",
            default="auto",
        ),
        _word(
            "drain",
            ("on", "off"),
            "Whether the job can be drained",
            "Turn it off if the job must not end this way; a request to drain it is then refused.",
        ),
        _word(
            "drain_on_signal",
            ("none", "TERM", "INT", "USR1", "USR2"),
            "The signal that drains the job while the program waits for its end",
            "TERM, if your scheduler sends it and can wait; a second signal cancels the job.",
        ),
        Option(
            "drain_poll_ms",
            "milliseconds",
            "How often a job looks for requests in its metadata store",
            "Raise it if very many jobs share one store.",
            default=1000,
            minimum=1,
        ),
        Option(
            "drain_timer_repeats",
            "times",
            "While draining, how often a timer fires again that its own callback sets again",
            "Raise it if timers need more to get state out; the rest is counted and told.",
            default=10,
            jobs="streaming",
        ),
        Option(
            "drain_element_limit_ms",
            "milliseconds; 0 = unlimited",
            "While draining, how long a slot may work on what it was sent in one round",
            "Set it if user code may hang and a drain must not wait for that.",
            default=0,
            jobs="streaming",
        ),
        Option(
            "drain_watermark_limit_ms",
            "milliseconds; 0 = unlimited",
            "While draining, how long a slot may fire windows and timers in one round",
            "As above; firing takes longer than elements do, so it has a limit of its own.",
            default=0,
            jobs="streaming",
        ),
        Option(
            "drain_limit_ms",
            "milliseconds; 0 = unlimited",
            "How long a drain may take as a whole",
            "Set it if something must happen when a drain does not come to its end.",
            default=0,
        ),
        _word(
            "drain_limit_policy",
            ("fail", "cancel", "wait"),
            "What happens when a limit of a drain is exceeded",
            "cancel gives up the rest; wait only says so, and goes on.",
        ),
    ),
    Option(
        "spark_conf",
        "key=value, repeatable",
        "A Spark property for the session that the runner starts",
        "For what spark-defaults.conf or spark-submit --conf would say.",
        read_as="pairs",
        group="spark",
    ),
    *_group(
        "job service",
        Option(
            "job_tls_ca",
            "PEM file",
            "The authority that has signed the certificate of the Job service at --job_endpoint",
            "Give it if the service has TLS.",
        ),
        Option(
            "job_tls_cert",
            "PEM file",
            "The client's own certificate for that service",
            "For a service that asks for one.",
            needs="job_tls_ca",
        ),
        Option(
            "job_tls_key",
            "PEM file",
            "The private key of that certificate",
            "Give both, or neither.",
            needs="job_tls_cert",
        ),
        Option(
            "job_token_file",
            "file",
            "A file whose first line is the token that the Job service asks for",
            "For a service that was started with --token-file.",
        ),
    ),
    _word(
        "progress",
        ("auto", "live", "plain", "off"),
        "How progress is shown: a live display, plain lines, or not at all",
        "auto is live on a terminal and plain lines elsewhere.",
        group="display",
    ),
)
