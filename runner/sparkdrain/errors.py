"""The few kinds of failure a user can meet; the kind is the type, the detail is the text."""

from __future__ import annotations

from sparkdrain.redaction import redact


class SparkDrainError(Exception):
    """Base of every failure that sparkdrain raises on purpose; no message has a secret in it."""

    def __init__(self, *details: object) -> None:
        super().__init__(*(redact(each) if isinstance(each, str) else each for each in details))


class Unsupported(SparkDrainError):
    """The pipeline contains something this runner cannot run; nothing has been started.

    The message names the transform, its URN and an alternative.
    """


class Malformed(SparkDrainError):
    """The pipeline is no pipeline: a part is missing, or cannot be read; names the transform."""


class NameTaken(SparkDrainError):
    """A job that has not ended has the name already; names the job."""


class BadOption(SparkDrainError):
    """An option is unknown, misspelt or has a value that cannot be used; names the option."""


class BadSetup(SparkDrainError):
    """The machine or cluster lacks something (Java, the same Python, a writable directory)."""


class UserCodeError(SparkDrainError):
    """User code raised: the message starts with the user's own exception and names the step."""


class UnreadableState(SparkDrainError):
    """Bytes of user state are not what the coder of the state wrote; names state, key, window."""


class TooLarge(SparkDrainError):
    """An element takes more bytes than can be shuffled; names the transform and the size."""


class WorkerLost(SparkDrainError):
    """A Python worker ended without an answer (``os._exit``, a crash, out of memory)."""


class DriverLost(SparkDrainError):
    """The driver process of a job at a job service ended before the job; says how."""


class SparkLost(SparkDrainError):
    """Spark's own process, the JVM, ended while the job ran; says how, and how the job goes on."""


class HostMissing(SparkDrainError):
    """The process that held a slot's state is gone, and its state with it; says where it was."""


class RoundLimitExceeded(SparkDrainError):
    """A round took longer than ``--round_limit_ms``; names the step that it waited for."""


class TruncatedInput(SparkDrainError):
    """A shard saw less, or other, input than its producers sent; its work must be thrown away."""


class CheckpointFailed(SparkDrainError):
    """A checkpoint could not be made durable; names the file or the slot."""


class CheckpointRefused(SparkDrainError):
    """There is a checkpoint, and the job as it is asked for cannot go on from it; says why."""


class CheckpointDamaged(SparkDrainError):
    """Files of a checkpoint are missing or are not what was written; names the first one."""


class CheckpointTooNew(SparkDrainError):
    """A newer release wrote the checkpoint; this one cannot know what it means."""


class NotAcknowledged(SparkDrainError):
    """All of a job is done and durable, but the outside could not be told; says who, and why."""


class Fenced(SparkDrainError):
    """Another driver has taken the job over: this one must stop, and has changed nothing."""


class DrainStuck(SparkDrainError):
    """A drain cannot end: something is left that nothing can get out; names stage and reason."""


class DrainLimitExceeded(SparkDrainError):
    """A drain, or something in it, took longer than it may; names the option that limits it."""


class Cancelled(SparkDrainError):
    """The job was cancelled before it ended."""
