from __future__ import annotations

from sparkdrain.harness.harness import Remainder
from sparkdrain.stages.shards.residuals import Residuals


class World:
    """A clock that moves when somebody sleeps, and a harness whose DoFn defers."""

    def __init__(self):
        self.now = 0.0
        self.events = []
        self.deferred = []

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def residuals(self):
        return Residuals(self, self.clock, self.sleep)

    def defer(self, element, seconds=0):
        self.deferred.append(Remainder("step", element, None, seconds * 1_000_000))

    def take_deferred(self):
        deferred, self.deferred = self.deferred, []
        return deferred

    def finish(self):
        self.events.append("finish")

    def finalize(self):
        assert self.events[-1] == "finish"

    def start(self):
        assert self.events.pop() == "finish"
        self.events.append("bundle")

    def resume(self, rest):
        element = rest.element
        self.events.append((self.now, element))
        if isinstance(element, int) and element > 0:
            self.defer(element - 1)


def test_what_need_not_wait_is_resumed_at_once_until_nothing_is_left():
    world = World()
    world.defer(2)
    world.residuals().resume_due()
    assert world.events == ["bundle", (0, 2), "bundle", (0, 1), "bundle", (0, 0)]


def test_what_asked_to_wait_is_left_alone_until_its_time_has_come():
    world = World()
    residuals = world.residuals()
    world.defer("later", 5)
    world.defer("now")
    residuals.resume_due()
    assert world.events == ["bundle", (0, "now")]
    world.now = 6.0
    residuals.resume_due()
    assert world.events[2:] == ["bundle", (6, "later")]


def test_at_the_end_waiting_is_done_in_order_of_time_and_never_longer_than_needed():
    world = World()
    world.defer("third", 9)
    world.defer("first", 2)
    world.defer("second", 2)
    world.residuals().resume_all()
    assert world.events == ["bundle", (2, "first"), (2, "second"), "bundle", (9, "third")]


def test_without_anything_deferred_no_bundle_is_started():
    world = World()
    world.residuals().resume_due()
    world.residuals().resume_all()
    assert world.events == []
    assert world.now == 0
