"""A job that drains in a process of its own, and is killed in each phase of that.

A gate holds the job in a phase. That the job is in that phase, the metadata store and the newest
manifest say, as production writes them.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import psutil

from sparkdrain.coordination.address import parse
from sparkdrain.coordination.stores import STORES
from sparkdrain.drain import records, runs
from sparkdrain.drain.phases import DrainPhase
from tests.support import gated_drain, gated_file_system
from tests.support.gated_drain import JOB, Places
from tests.support.supervised import Supervised

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

# A job may make checkpoints between that of the cut and the two last ones; Kafka's outbox does.
_BETWEEN = {DrainPhase.CUT, DrainPhase.TRUNCATED, DrainPhase.FLUSHING}
# Gates in the order in which a drain comes to them, and what the newest manifest may say there.
PHASES = {
    "behind cut": {DrainPhase.CUT},
    "truncation": {DrainPhase.CUT},
    "windows": _BETWEEN,
    "timers": _BETWEEN,
    "before publishing": _BETWEEN,
    "telling": {DrainPhase.PUBLISHING},
    "before over": {DrainPhase.PUBLISHING},
    "behind over": {DrainPhase.DRAINED},
}
VICTIMS = ("driver", "JVM", "host")
# How many numbers are read before the drain.
_ENOUGH = 300


def chosen(seed: int, kinds: Sequence[str], gates: Collection[str] = PHASES) -> dict[str, str]:
    """Which kind of process is killed at which gate."""
    return dict(zip(gates, random.Random(seed).sample(kinds, len(gates)), strict=True))


class KilledDrain:
    """The job, as a test sees it; use it as a context manager.

    Args:
        folder: of all that it leaves.
        program: the path of its program.
        flags: of the program, beside those of the job.
    """

    def __init__(self, folder: Path, program: str = gated_drain.__file__, *flags: str) -> None:
        self.places = Places(folder)
        self.places.make()
        self._store = STORES.open(parse(f"file:{folder}/metadata"))
        command = [
            sys.executable,
            program,
            str(folder),
            *flags,
            "--runner=sparkdrain.SparkDrainRunner",
            "--spark_master_url=local[2]",
            "--slots=2",
            "--progress=off",
            f"--job_name={JOB}",
            f"--metadata_store=file:{folder}/metadata",
            f"--checkpoint_dir={gated_file_system.SCHEME}://checkpoints",
            # Those of the drain come at once, and no others are wanted.
            "--checkpoint_ms=3600000",
            "--recoveries=5",
            f"--needy_root={folder}",
            f"--beam_plugins={gated_file_system.__name__}",
        ]
        self.program = Supervised(command, folder)

    def __enter__(self) -> KilledDrain:
        return self

    def __exit__(self, *error: object) -> None:
        self._store.close()

    def drain_and_kill(self, kills: Mapping[str, str]) -> None:
        """Drain the job, and kill a process of some kind at each gate; it ends as promised."""
        gates, program = self.places.gates, self.program
        for gate in kills:
            gates.close(gate)
        with program:
            program.until(self.has_read_enough)
            assert self.run().state == "RUNNING"
            assert self.places.out() == []
            runs.request(self._store, JOB, time.time_ns() // 1000)
            cut = Counter()
            for gate, kind in kills.items():
                program.until(lambda gate=gate: self._is_held(gate) or program.has_ended_well())
                if program.has_ended_well():
                    # Its driver outlived the JVM for so long that nothing was left to do.
                    assert gate == "behind over"
                    break
                self._check_phase(gate)
                # In the life before the first kill, each number came once.
                cut = cut or Counter(self.places.admitted())
                self.at_gate()
                print(f"life {program.starts}, {gate}: {kind}", flush=True)
                self.kill(kind, gate)
                gates.open(gate)
            program.until(program.has_ended_well)
            assert program.log().rstrip().endswith("DRAINED"), program.log()[-3000:]
            assert self.run().state == "DRAINED"
            assert self.asked() == []
            assert psutil.wait_procs(program.processes(), 30)[1] == []
        self.places.check_outcome(cut)

    def _is_held(self, gate: str) -> bool:
        # Hosts of a life that was ended may come to a gate before they end.
        return not self.program.living().isdisjoint(self.places.gates.held(gate))

    def has_read_enough(self) -> bool:
        """Whether the job can be drained."""
        return len(self.places.admitted()) > _ENOUGH

    def at_gate(self) -> None:
        """The job is held, and a process will be killed."""

    def kill(self, kind: str, gate: str) -> None:
        """Kill a process; a slot that is held at the gate rather than another one."""
        match kind:
            case "driver":
                self.program.kill(self.program.driver)
            case "JVM":
                (jvm,) = self.program.jvms()
                self.program.kill(jvm)
            case _:
                # One of a life before may still be about to end, and be gone before it is killed.
                self.program.until(lambda: self._kills_host(gate))

    def _kills_host(self, gate: str) -> bool:
        hosts = self.program.hosts()
        held = hosts.intersection(self.places.gates.held(gate))
        return bool(hosts) and self.program.kills(max(held or hosts))

    def run(self) -> runs.Run:
        """The only one, as the store knows it."""
        (run,) = runs.known(self._store)
        return run

    def asked(self) -> list[str]:
        """The runs that were asked to drain."""
        return [each.run_id for each in records.read(self._store, _raise)]

    def _check_phase(self, gate: str) -> None:
        """The job is DRAINING, and in the phase in which ``gate`` is."""
        assert self.run().state == "DRAINING"
        assert self.asked() == [self.run().run_id]
        state = self.places.driver_state()
        assert state is not None
        assert state.drain is not None
        assert state.phase in PHASES[gate]


def _raise(error: Exception) -> None:
    raise error
