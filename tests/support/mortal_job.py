"""A streaming job in this process that dies again and again, with any number of slots each time."""

from __future__ import annotations

import shutil
import tempfile
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from sparkdrain.drain.notification import DrainNotification
from sparkdrain.drain.signal import DrainSignal
from sparkdrain.rounds.driver.durable import DurableJob
from tests.support.in_memory_rounds import InMemoryRounds
from tests.support.random_pipelines import results

if TYPE_CHECKING:
    from collections.abc import Callable


class Crash(Exception):
    """The driver and all hosts are gone."""


class Fuse:
    """Burns down with every step, and then crashes; ``None`` never does."""

    def __init__(self, steps: int | None) -> None:
        self.left = steps

    def burn(self, *_: object) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Crash


class Unhurried:
    """A clock for which uploads take no time: it goes on when nothing is on its way any more.

    With a clock that leaps over waits, a job would make rounds without end until a thread has
    published a checkpoint.

    Args:
        clock: to be waited with.
        settle: waits until nothing is on its way.
    """

    def __init__(self, clock, settle) -> None:
        self._clock = clock
        self._settle = settle

    def now(self) -> int:
        return self._clock.now()

    def wait_until(self, then, cancel) -> None:
        self._settle()
        self._clock.wait_until(then, cancel)


class Moving:
    """In place of ``SlotMoves``: has slots opened anew, from a round on.

    Args:
        rounds: the job.
        moves: a round and slots, each.
        settle: waits until no checkpoint is on its way; the job could be over before.
    """

    def __init__(
        self,
        rounds: InMemoryRounds,
        moves: list[tuple[int, frozenset[int]]],
        settle: Callable[[], object],
    ) -> None:
        self._rounds = rounds
        self._moves = moves
        self._settle = settle

    def are_wanted(self) -> bool:
        wanted = bool(self._moves) and self._rounds.schedule.number >= self._moves[0][0]
        if wanted:
            self._settle()
        return wanted

    def are_ready(self, number: int) -> bool:
        return True

    def begin(self, number: int) -> frozenset[int]:
        _, wanted = self._moves.pop(0)
        slots = frozenset(slot for slot in wanted if slot < self._rounds.schedule.slots)
        self._rounds.reopen(slots)
        return slots

    def over(self, seconds: float) -> None:
        pass


MOVES = st.lists(st.tuples(st.integers(0, 12), st.frozensets(st.integers(0, 3))), max_size=3)
"""After which round of a life slots move, and which; each move is made once."""

LIVES = st.tuples(
    st.lists(st.integers(1, 4), min_size=1, max_size=3), st.lists(st.integers(0, 60), max_size=4)
)
"""Numbers of slots, which lives have in turn; and after how many steps each but the last dies."""


class Job:
    """A job with many lives. Whoever wants it drained says so again and again.

    Args:
        plan: of the job.
        folder: where checkpoints go.
        drain_after: after how many rounds of all lives together it is to be drained, if it is.
        clock: processing time; that of the script if not given.
        moves: of slots, see ``MOVES``.
    """

    def __init__(self, plan, folder, drain_after=None, clock=None, moves=()) -> None:
        self.plan = plan
        self.folder = folder
        self.clock = clock
        self.moves = list(moves)
        self.rounds_to_drain = drain_after
        self.cut = None
        """How much of the script was played when sources were cut."""
        self.made_at_cut = None
        self.begun = {}
        """Checkpoints by number, from the time when their publication begins until it is known."""

    def live(self, slots, steps):
        """One life of the job, with so many slots per level; what it has made, None if it died."""
        fuse = Fuse(steps)
        job = self

        class Burning(DurableJob):
            def take(self, *, resume):
                found = super().take(resume=resume)
                if found is not None:
                    job.is_durable(found.number)
                return found

            def publish(self, cut) -> None:
                fuse.burn()
                job.begun[cut.number] = cut
                super().publish(cut)

            def is_published(self) -> bool:
                published = super().is_published()
                if published and self.number in job.begun:
                    job.is_durable(self.number)
                    fuse.burn()
                return published

        durable = DurableJob.at(self.folder, "job", "run", {}, slots, 2)
        burning = Burning(durable.storage, durable.paths, "run", {}, slots, 2)
        clock = self.clock and Unhurried(self.clock, burning.settle)
        rounds = InMemoryRounds(self.plan, slots, fail=fuse.burn, durable=burning, clock=clock)
        rounds.loop.drain.signal = DrainSignal()
        rounds.loop.drain.timer_repeats = 10
        rounds.loop.moves = Moving(rounds, self.moves, burning.settle)
        tell = rounds.loop.tell

        def count(schedule, reports) -> None:
            tell(schedule, reports)
            self.step(rounds)

        rounds.loop.tell = count
        self.step(rounds, of=0)
        try:
            rounds.run_to_end()
        except Crash:
            return None
        finally:
            # A thread of a process that died would be dead; here it may come to its end.
            rounds.close()
            burning.settle()
        return results(rounds.schedule.reports())

    def is_durable(self, number) -> None:
        """A checkpoint is known to be there. Those before it are of no interest any more."""
        cut = self.begun.pop(number, None)
        if cut is not None and cut.drain is not None and self.cut is None:
            self.cut = cut.play
            self.made_at_cut = results(cut.reports.values())

    def step(self, rounds, of=1) -> None:
        if self.rounds_to_drain is None:
            return
        self.rounds_to_drain -= of
        if self.rounds_to_drain <= 0:
            if not rounds.schedule.number:
                self.cut = 0  # there is nothing to make durable
            rounds.loop.drain.signal.request(DrainNotification.create("run", 0))


def made_in(lives, plan, drain_after=None, clock=None, moves=()):
    """What a job has made that dies again and again, and the job."""
    folder = tempfile.mkdtemp(prefix="checkpoints-")
    job = Job(plan, folder, drain_after, clock, moves)
    slots, deaths = lives
    try:
        for steps in [*deaths, None]:
            made = job.live(slots[0], steps)
            if made is not None:
                return made, job
            slots = [*slots[1:], slots[0]]
    finally:
        shutil.rmtree(folder)
