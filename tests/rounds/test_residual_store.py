"""The store of residuals against a list of them."""

from __future__ import annotations

from apache_beam import coders
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.utils.timestamp import Timestamp
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sparkdrain.rounds.sources.residuals import Residual, ResidualStore
from sparkdrain.watermarks.frontier import BEGIN, END
from timers_state import MemoryStore, Overlay

CODER = coders.WindowedValueCoder(
    coders.FastPrimitivesCoder(), coders.coders.GlobalWindowCoder()
).get_impl()
TIMES = st.integers(BEGIN, END) | st.integers(-5, 5)


class ResidualMachine(RuleBasedStateMachine):
    """Rounds that are committed or undone; the model is a list in the order of ``put``."""

    @initialize()
    def begin(self):
        self.overlay = Overlay(MemoryStore(), 1 << 20)
        self.committed = []
        self.now = []
        self.numbers = {}
        self.build()

    def build(self):
        self.store = ResidualStore(self.overlay, 7, CODER)

    @rule(value=st.integers(0, 9), hold=TIMES, resume=TIMES, known=st.booleans())
    def put(self, value, hold, resume, known):
        element = GlobalWindows.windowed_value(value, Timestamp(3))
        residual = Residual(element, hold, known=known, started=not known)
        number = self.store.put(residual, resume)
        self.now.append((resume, residual))
        self.numbers[id(residual)] = number

    @precondition(lambda self: self.now)
    @rule(which=st.integers(0, 100))
    def remove(self, which):
        _, residual = self.now.pop(which % len(self.now))
        self.store.remove(self.numbers[id(residual)])

    @rule(until=TIMES)
    def pop(self, until):
        due = [item for item in self.now if item[0] <= until]
        popped = self.store.pop(until)
        if not due:
            assert popped is None
            return
        # Of equal times, the one that was put first.
        first = min(due, key=lambda item: item[0])
        assert popped == first[1]
        self.now.remove(first)

    @rule()
    def commit(self):
        self.overlay.prepare()
        self.overlay.commit()
        self.committed = list(self.now)

    @rule(prepared=st.booleans())
    def undo(self, prepared):
        if prepared:
            self.overlay.prepare()
        self.overlay.rollback()
        self.now = list(self.committed)
        self.build()

    @rule()
    def write_out(self):
        self.overlay.flush()

    @invariant()
    def tells_what_is_there(self):
        if not hasattr(self, "store"):
            return
        assert len(self.store) == len(self.now)
        assert self.store.hold() == min((item[1].hold for item in self.now), default=END)
        assert self.store.wake() == min((item[0] for item in self.now), default=None)

    def teardown(self):
        if hasattr(self, "overlay"):
            self.overlay.close()


TestResiduals = ResidualMachine.TestCase
TestResiduals.settings = settings(
    max_examples=60, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_a_copy_shares_nothing_with_the_original():
    store = ResidualStore(Overlay(MemoryStore(), 1 << 20), 7, CODER)
    value = [1]
    element = GlobalWindows.windowed_value(value, Timestamp(3))
    copied = store.copy(Residual(element, 5, known=True))
    value.append(2)
    assert copied == Residual(GlobalWindows.windowed_value([1], Timestamp(3)), 5, known=True)
    assert tuple(copied.element.windows) == (GlobalWindow(),)
