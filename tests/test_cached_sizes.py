"""What Beam's Python harness keeps of state is weighed at once, and weighs what Beam says."""

from __future__ import annotations

import argparse
import atexit
import functools
import gc

import apache_beam as beam
import pytest
from apache_beam.runners.worker import bundle_processor, sdk_worker_main, statecache
from objsize import traverse

from sparkdrain import cached_sizes, loopback
from sparkdrain.cli import worker


class _Own(statecache.CacheAware):
    def get_referents_for_cache(self):
        return [b"counted"]


@pytest.fixture
def weighed(monkeypatch):
    """Puts back what the test replaces; tells what weighs now."""
    monkeypatch.setattr(statecache, "get_deep_size", statecache.get_deep_size)
    return lambda: statecache.get_deep_size


@pytest.mark.parametrize(
    "value",
    [
        [],
        [5, "text", b"bytes", 2.5],
        [{"key": [1, (2, 3)], None: {4}}],
        [_Own(), len, beam.Map, functools.partial(print, 1), argparse],
        [beam.Pipeline(), lambda: None],
    ],
    ids=["nothing", "simple", "nested", "shared", "objects"],
)
def test_sizes_are_those_that_beam_finds(value):
    assert cached_sizes.deep_size(value) == statecache.get_deep_size(value)


def test_no_module_is_looked_at(monkeypatch):
    monkeypatch.delattr(traverse, "_iter_modules_globals")
    assert cached_sizes.deep_size([1, 2]) > 0


def test_a_worker_weighs_so_and_looks_for_garbage_seldom(weighed, monkeypatch):
    seen = []
    monkeypatch.setattr(gc, "set_threshold", lambda *_: seen.append("calm"))
    monkeypatch.setattr(bundle_processor, "BundleProcessor", bundle_processor.BundleProcessor)
    monkeypatch.setattr(atexit, "register", lambda *_: None)  # a worker ends its process
    monkeypatch.setattr(worker, "_environment", lambda *_: {})
    monkeypatch.setattr(sdk_worker_main, "main", lambda _: seen.append(weighed()))
    worker.worker(argparse.Namespace())
    assert seen == ["calm", cached_sizes.deep_size]


def test_a_pool_in_the_program_weighs_so(weighed):
    _, server = loopback._pool.__wrapped__(0)
    server.stop(None)
    assert weighed() is cached_sizes.deep_size
