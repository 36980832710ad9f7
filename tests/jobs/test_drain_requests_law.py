"""Law of requests: however they come, in whatever order, of whatever run: one effect, of one."""

from __future__ import annotations

import uuid

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sparkdrain.coordination.address import StoreAddress
from sparkdrain.coordination.metadata import StoreDown
from sparkdrain.coordination.stores import STORES
from sparkdrain.drain import records, runs
from sparkdrain.drain.notification import DrainNotification
from sparkdrain.jobs.draining import JobDrain
from sparkdrain.options import JobSettings

ENDS = ("DRAINED", "DONE", "FAILED", "CANCELLED")
NEVER = 3_600_000


class Job:
    """What a drain tells its job."""

    def __init__(self) -> None:
        self.begun = 0

    def message(self, importance, text) -> None:
        pass

    def drain_began(self) -> None:
        self.begun += 1

    def give_up(self, verdict, text) -> None:
        raise AssertionError


class Requests(RuleBasedStateMachine):
    """One run, taken up again after bad ends, in a store that others share and that may fail."""

    @initialize(at_start=st.booleans())
    def begin(self, at_start) -> None:
        self.address = StoreAddress("memory", uuid.uuid4().hex)
        self.store = STORES.open(self.address)
        self.now = 0
        self.drain = None
        # The requests for the run that lie in the store, the oldest first, and those for others.
        self.own, self.others = [], set()
        self.counts = None
        self.end = ""
        if at_start:
            self.write_for_the_run()
        self.take_up()

    @precondition(lambda self: self.drain is None and self.end not in runs.GOOD_ENDS)
    @rule()
    def take_up(self) -> None:
        self.job = Job()
        run = runs.Run("mine", "job", "wc", "", "RUNNING", drain=True, began=0)
        made = JobSettings(metadata_store=self.address, drain_poll_ms=NEVER)
        self.drain = JobDrain(run, made, self.job, self.tick)
        self.drain.open()
        self.counts = self.own[0] if self.own else None
        self.drain.begin(0)

    @precondition(lambda self: self.drain is not None)
    @rule()
    def call(self) -> None:
        self.drain.request()
        if self.counts is None:
            self.counts = self.drain.signal.requested()
            self.own.append(self.counts)

    @rule()
    def write_for_the_run(self) -> None:
        notification = DrainNotification.create("mine", self.tick())
        records.write(self.store, notification)
        self.own.append(notification)

    @rule()
    def write_for_another_run(self) -> None:
        notification = DrainNotification.create("other", 0)
        records.write(self.store, notification)
        self.others.add(notification)

    @precondition(lambda self: self.drain is not None)
    @rule()
    def look(self) -> None:
        self.drain._open.monitor.look()
        if self.counts is None and self.own:
            self.counts = self.own[0]

    @precondition(lambda self: self.drain is not None and self.counts is None)
    @rule()
    def call_while_the_store_is_down(self) -> None:
        def down(*_: object) -> None:
            raise StoreDown

        self.drain._open.store.put = down
        try:
            self.drain.request()
        except StoreDown:
            pass
        else:
            raise AssertionError
        finally:
            del self.drain._open.store.put

    @precondition(lambda self: self.drain is not None)
    @rule(end=st.sampled_from(ENDS))
    def over(self, end) -> None:
        self.drain.close(end)
        self.drain.request()  # too late: nothing is written any more
        self.drain, self.end = None, end
        if end in runs.GOOD_ENDS:
            self.own = []
        assert runs.find(self.store, "mine").state == end

    @invariant()
    def one_request_has_had_one_effect(self) -> None:
        if self.drain is not None:
            assert self.drain.signal.requested() == self.counts
            assert self.job.begun == (self.counts is not None)

    @invariant()
    def the_store_has_what_was_asked_for_and_was_not_done(self) -> None:
        there = set(records.read(self.store, lambda error: None))
        assert there == {*self.own, *self.others}

    def tick(self) -> int:
        self.now += 1
        return self.now

    def teardown(self) -> None:
        if self.drain is not None:
            self.drain.close("CANCELLED")


TestRequests = Requests.TestCase
TestRequests.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)
