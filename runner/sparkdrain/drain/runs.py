"""The runs that a metadata store knows: so that a request names one that is there to hear it."""

from __future__ import annotations

import dataclasses
import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from sparkdrain.coordination.metadata import pass_over, version_of
from sparkdrain.drain import records
from sparkdrain.drain.notification import DrainNotification
from sparkdrain.errors import BadOption, Fenced, SparkDrainError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sparkdrain.coordination.metadata import MetadataStore, Versioned
    from sparkdrain.drain.phases import DrainPhase

NAMESPACE: Final = "sparkdrain-runs-v1"
VERSION: Final = 1

_KEPT: Final = 100
_SHOWN: Final = 10
_MOVES: Final = 20
"""How many moves of slots the record of a run has."""

RunState = Literal["RUNNING", "DRAINING", "DRAINED", "DONE", "FAILED", "CANCELLED"]

GOOD_ENDS: Final = frozenset({"DRAINED", "DONE"})
"""Ends after which a run is over for good; one that failed or was cancelled may go on."""


class NoSuchRun(SparkDrainError):
    """No run of that name is known in the store; names those that are."""


class RunTaken(SparkDrainError):
    """The run id belongs to a run that has ended well; a new run needs one of its own."""


class DrainDisabled(SparkDrainError):
    """The run was started with ``--drain=off``: nothing in it listens."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a run tells about itself.

    Attributes:
        run_id: names it; for good.
        job_id: under which its job service knows it.
        job_name: for people; many runs may have the same.
        endpoint: where the job service is; most are for this machine only.
        state: as it was told last. A run whose driver was lost cannot tell.
        drain: whether it can be drained.
        began: microseconds since 1970.
        checkpoints: the directory of the job's checkpoints; empty if it makes none.
        epoch: number of the claim on these checkpoints under which the run began; 0 if it makes
            none.
        phase: the name of the last ``DrainPhase`` that was told; empty without a drain.
        moves: lines, each with the time, of slots that have moved last, oldest first.
    """

    run_id: str
    job_id: str
    job_name: str
    endpoint: str
    state: RunState
    drain: bool
    began: int
    checkpoints: str = ""
    epoch: int = 0
    phase: str = ""
    moves: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.state not in ("RUNNING", "DRAINING")

    def encode(self) -> bytes:
        """As JSON."""
        return json.dumps({"version": VERSION, **dataclasses.asdict(self)}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Run:
        """The inverse of ``encode``.

        Raises:
            ValueError: it is something else.
        """
        fields: Any = json.loads(data)
        if not isinstance(fields, dict) or fields.pop("version", None) != VERSION:
            message = f"It is no record of a run in version {VERSION}."
            raise ValueError(message)
        # Older releases told neither leases nor phases nor moves; newer ones may tell more.
        fields = {name: value for name, value in {**_NEW, **fields}.items() if name in _TYPES}
        if {name: type(value).__name__ for name, value in fields.items()} != _TYPES:
            message = f"A record of a run has the fields {_TYPES}."
            raise ValueError(message)
        if fields["state"] not in get_args(RunState):
            message = f"The state {fields['state']!r} is unknown."
            raise ValueError(message)
        fields["moves"] = tuple(map(str, fields["moves"]))
        return cls(**fields)


_IN_JSON: Final = {"RunState": "str", "tuple[str, ...]": "list"}
_TYPES: Final = {
    field.name: _IN_JSON.get(str(field.type), str(field.type)) for field in dataclasses.fields(Run)
}
_NEW: Final = {"epoch": 0, "phase": "", "moves": []}


def resumed(store: MetadataStore, run: Run) -> Run:
    """``run``, under the id of the run that it takes up: the last that held its checkpoints.

    So a request for a run reaches the driver that goes on from its checkpoints. A run that ended
    well left nothing to take up. Writes nothing.

    Raises:
        StoreDown: the store cannot be used now.
    """
    before = [each for each in known(store) if _shares_checkpoints(each, run)]
    last = max(before, key=lambda each: (each.epoch, each.began, each.run_id), default=None)
    if last is None or last.state in GOOD_ENDS:
        return run
    return dataclasses.replace(run, run_id=last.run_id)


def held(store: MetadataStore, run: Run) -> int:
    """The highest epoch under which any run has held the checkpoints of ``run``; 0 if none has.

    Raises:
        StoreDown: the store cannot be used now.
    """
    return max((each.epoch for each in known(store) if _shares_checkpoints(each, run)), default=0)


def check(store: MetadataStore, run: Run) -> Run | None:
    """Return if the run may begin under its id. Writes nothing.

    Returns:
        The run of another job that has this id and has not ended, as far as the store knows.

    Raises:
        RunTaken: a run of that id has ended well.
        BadOption: the run id cannot be used.
        StoreDown: the store cannot be used now.
    """
    before = _read(_found(store, run))
    if before is None:
        return None
    if before.state in GOOD_ENDS:
        message = (
            f"The run {run.run_id!r} has ended as {before.state}. Choose another --run_id, or "
            "leave it out: notifications for the old run must not reach a new one."
        )
        raise RunTaken(message)
    return None if before.is_over or before.job_id == run.job_id else before


def begin(store: MetadataStore, run: Run) -> None:
    """Tell that a run has begun, or goes on after its driver was lost.

    Call ``begin`` when nothing can refuse the run any more. A run with checkpoints holds their
    lease by then. The record carries the lease's epoch, and so ends every run of these
    checkpoints with a lower epoch: see ``known``.

    Raises:
        Fenced: another run holds these checkpoints under a higher epoch; nothing was written.
        RunTaken: a run of that id has ended well; nothing was written.
        BadOption: the run id cannot be used.
        StoreDown: the store cannot be used now.
    """
    while True:
        found = _found(store, run)
        check(store, run)
        for other in known(store):
            if _is_lost(run, other):
                message = (
                    f"the run {other.run_id!r} (job {other.job_id}) has taken over the "
                    f"checkpoints of the job {run.job_name!r} in {run.checkpoints}. This driver "
                    "stops; it has read nothing. If you did not start another, give the jobs "
                    "different names."
                )
                raise Fenced(message)
        before = _read(found)
        # A driver that goes on knows nothing of the moves before it.
        told = dataclasses.replace(run, moves=() if before is None else before.moves)
        if store.put(NAMESPACE, run.run_id, told.encode(), version_of(found)) is not None:
            break
    _forget_old(store)


def tell(store: MetadataStore, run: Run, state: RunState, phase: DrainPhase | None = None) -> None:
    """Tell the state of a run that has begun, unless the run belongs to another job by now.

    Args:
        phase: how far its drain is; None: the phase that was told before.
    """

    def after(before: Run) -> Run:
        told = before.phase if phase is None else phase.name
        return dataclasses.replace(before, state=state, phase=told)

    _change(store, run, after)


def moved(store: MetadataStore, run: Run, line: str) -> None:
    """Tell that slots of a run have moved, unless the run belongs to another job by now."""
    _change(
        store,
        run,
        lambda before: dataclasses.replace(before, moves=(*before.moves, line)[-_MOVES:]),
    )


def _change(store: MetadataStore, run: Run, after: Callable[[Run], Run]) -> None:
    while True:
        found = store.get(NAMESPACE, run.run_id)
        before = _read(found)
        if before is None or not _is_told_by(before, run):
            return
        if store.put(NAMESPACE, run.run_id, after(before).encode(), version_of(found)) is not None:
            return


def belongs_to(store: MetadataStore, run: Run) -> bool:
    """Whether the record of a run is that of ``run``'s own job, or of one that it took up."""
    before = _read(store.get(NAMESPACE, run.run_id))
    return before is None or _is_told_by(before, run)


def known(store: MetadataStore) -> list[Run]:
    """All runs that the store knows, the newest first.

    A run that lost its checkpoints to a run with a higher epoch has failed, whatever its record
    says: its driver cannot publish any more, and may be dead.
    """
    return _known(store.all(NAMESPACE, pass_over))


def _known(records: Mapping[str, Versioned]) -> list[Run]:
    read = map(_read, records.values())
    found = [run for run in read if run is not None]
    told = (
        dataclasses.replace(run, state="FAILED")
        if not run.is_over and any(_is_lost(run, other) for other in found)
        else run
        for run in found
    )
    return sorted(told, key=lambda run: (-run.began, run.run_id))


def find(store: MetadataStore, name: str) -> Run:
    """The run with that run id or job id; or the one run of the job of that name that is going on.

    Raises:
        NoSuchRun: there is none, or more than one; names what there is.
    """
    runs = known(store)
    exact = [run for run in runs if name in (run.run_id, run.job_id)]
    named = [run for run in runs if run.job_name == name]
    found = exact or [run for run in named if not run.is_over] or named[:1]
    if len(found) == 1:
        return found[0]
    raise NoSuchRun(_not_one(name, found, runs))


def request(store: MetadataStore, name: str, now: int) -> tuple[Run, DrainNotification | None]:
    """Ask a run to drain; ``name`` as ``find`` takes it.

    Args:
        now: microseconds since 1970.

    Returns:
        The run, and the notification that counts: the new one, or the one that was there. None if
        the run is over; nothing is written then.

    Raises:
        NoSuchRun: there is no such run, and nothing was written.
        DrainDisabled: the run cannot be drained, and nothing was written.
    """
    run = find(store, name)
    if run.is_over:
        return run, None
    if not run.drain:
        message = f"The run {run.run_id!r} cannot be drained: it was started with --drain=off."
        raise DrainDisabled(message)
    there = records.first_for(run.run_id, records.read(store, pass_over))
    if there is not None:
        return run, there
    notification = DrainNotification.create(run.run_id, now)
    records.write(store, notification)
    return run, notification


def _not_one(name: str, found: list[Run], runs: list[Run]) -> str:
    if found:
        which = ", ".join(run.run_id for run in found[:_SHOWN])
        return f"{len(found)} runs of the job {name!r} go on: {which}. Name one of them."
    names = [text for run in runs for text in (run.run_id, run.job_name)]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    newest = ", ".join(f"{run.run_id} ({run.state})" for run in runs[:_SHOWN]) or "none"
    return (
        f"There is no run {name!r} in this store.{hint} It knows: {newest}. "
        "A job that starts is known once it is RUNNING."
    )


def _found(store: MetadataStore, run: Run) -> Versioned | None:
    try:
        return store.get(NAMESPACE, run.run_id)
    except ValueError as error:
        message = f"--run_id cannot be {run.run_id!r}: {error}"
        raise BadOption(message) from error


def _read(found: Versioned | None) -> Run | None:
    # A record that cannot be read names no run that could be asked for anything.
    try:
        return None if found is None else Run.decode(found.value)
    except ValueError:
        return None


def _shares_checkpoints(one: Run, other: Run) -> bool:
    same = one.job_name == other.job_name and one.checkpoints == other.checkpoints
    return same and bool(one.checkpoints)


def _is_lost(run: Run, other: Run) -> bool:
    return _shares_checkpoints(run, other) and run.epoch < other.epoch


def _is_told_by(record: Run, run: Run) -> bool:
    return record.job_id == run.job_id or _is_lost(record, run)


def _forget_old(store: MetadataStore) -> None:
    found = store.all(NAMESPACE, pass_over)
    over = [run for run in _known(found) if run.is_over]
    for run in over[_KEPT:]:
        # Only what was seen is removed: the run may have been taken up again meanwhile.
        if (record := found.get(run.run_id)) is not None:
            store.remove(NAMESPACE, run.run_id, record.version)
