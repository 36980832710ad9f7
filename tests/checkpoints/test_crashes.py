"""Whatever call a driver dies at, or fails: the next one finds all that counts."""

from __future__ import annotations

import pytest
from drivers import PATHS, Driver, World
from faulty_storage import Died, Fault, FaultyStorage

from sparkdrain.checkpoints.paths import places
from sparkdrain.checkpoints.publish import read_manifest

CHECKPOINTS = 3


class Script:
    """One fault, at one call."""

    def __init__(self, at, fault):
        self.at = at
        self.fault = fault
        self.calls = []

    def __call__(self, what):
        self.calls.append(what)
        return self.fault if len(self.calls) - 1 == self.at else Fault.NONE


def run(world, token, at=-1, fault=Fault.NONE):
    script = Script(at, fault)
    driver = Driver(world, script, token, CHECKPOINTS)
    try:
        driver.run()
    except Died:
        return script, None
    return script, driver


def test_without_faults_the_newest_checkpoints_are_left_and_nothing_else(tmp_path):
    world = World(tmp_path)
    run(world, "a")
    _, driver = run(world, "b")
    assert world.told == [(1, n) for n in range(1, 4)] + [(2, n) for n in range(4, 7)]
    world.check()
    names = [path.removeprefix(f"{PATHS.folder}/") for path in world.files]
    assert driver.epoch == 2
    assert sorted(name for name in names if not name.startswith("files/")) == [
        "claims/000002-b",
        "claims/published",
        "manifests/000000005/000002-000000005.manifest",
        "manifests/000000006/000002-000000006.manifest",
    ]


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.NONE])
def test_whatever_call_goes_wrong_nothing_is_lost_and_nothing_is_left_over(tmp_path, fault):
    calls = run(World(tmp_path / "whole"), "a")[0].calls
    assert len(calls) > 40
    for at, call in enumerate(calls):
        world = World(tmp_path / str(at))
        run(world, "a", at, fault)
        world.check()
        told = len(world.told)
        run(world, "b")
        world.check()
        assert len(world.told) == told + CHECKPOINTS, call
        assert nothing_is_left_over(world), call


def nothing_is_left_over(world):
    """Whether the newest two checkpoints are there, what they need, one claim, and the mark."""
    storage = FaultyStorage(world.files, lambda what: Fault.NONE)
    kept = [read_manifest(storage, PATHS, p) for p in places(storage.list(PATHS.manifests))]
    needed = {path for manifest in kept for path in manifest.entries()}
    return (
        len(kept) == len(storage.list(PATHS.manifests)) == 2
        and set(storage.list(PATHS.files)) == needed
        and len(storage.list(PATHS.claims)) == 2
    )
