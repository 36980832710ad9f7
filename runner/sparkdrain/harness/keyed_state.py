"""State and timers of one stateful DoFn in a slot, one key at a time.

A key is small, which is a record, or large, which is a scope. Each of both has a place, where its
turns are. Beam's own calls use the place of the key that has its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain

from sparkdrain.harness.cells import ELSEWHERE, state_kind
from sparkdrain.harness.drain_timers import TimerBound
from sparkdrain.harness.large_place import LargePlace
from sparkdrain.harness.small_place import SmallPlace
from sparkdrain.harness.timers import ProcessingTimer, timer_of
from timers_state import Layout

if TYPE_CHECKING:
    from sparkdrain.harness.cells import SpecKind
    from sparkdrain.harness.harness import StateTerms
    from sparkdrain.harness.key_place import KeyPlace


class KeyedState(userstate.UserStateContext):
    """What a stateful DoFn sees of the present key.

    Args:
        transform_id: the DoFn's transform.
        terms: where and how long its state is kept.

    Attributes:
        overlay, state_id, expiry_of: see ``StateTerms``.
        bound: limits the timers that callbacks set while the job is drained.
        states, timers: what the DoFn has declared.
        layout, known: see ``DofnState``.
        small, large: where keys have their turns.
        place: one of them, which the present turn is in.
    """

    def __init__(self, transform_id: str, dofn: Any, window_coder: Any, terms: StateTerms) -> None:
        self.transform_id = transform_id
        self.overlay = terms.overlay
        self.state_id = terms.state_id
        self.expiry_of = terms.expiry_of
        self.bound = TimerBound()
        self._window_impl = window_coder.get_impl()
        self._kinds: dict[Any, SpecKind] = {}
        self._decoded: tuple[bytes, Any] = (b"\x00undecoded", None)
        states, timers = userstate.get_dofn_specs(dofn)
        by_name = {spec.name: spec for spec in states}
        self.states = [by_name[name] for name in sorted(by_name)]
        self.timers = list(timers)
        self.layout = self._layout()
        self.known: set[tuple[bytes, bytes]] = set()
        self.small, self.large = self.beside(self.bound)
        self.place: SmallPlace | LargePlace = self.small

    def _layout(self) -> Layout:
        values = [
            (state_kind(self.transform_id, spec).stored, str(spec.name).encode())
            for spec in self.states
        ]
        events = {spec for spec in self.timers if TimeDomain.is_event_time(spec.time_domain)}
        families = tuple(sorted({spec.name.encode() for spec in events}))
        expires = self.expiry_of is not None
        return Layout(tuple(values), families, expires, others=len(events) < len(self.timers))

    # --- turns --------------------------------------------------------------------------------

    def begin(self, encoded: bytes) -> SmallPlace | LargePlace:
        """Gives a key its turn, as a small key if it can be one; returns where."""
        if not self.small.begin(encoded):
            self.large.begin(encoded)
        return self.place

    def beside(self, bound: TimerBound) -> tuple[SmallPlace, LargePlace]:
        """Further places, for a key that has its turn beside others."""
        return SmallPlace(self, bound), LargePlace(self, bound)

    def apart(self, bound: TimerBound) -> SmallPlace:
        """A place whose keys are copies of records, so that state has nothing of their turns."""
        records = self.small.records.apart()
        return SmallPlace(self, bound, records)

    # --- what places ask ----------------------------------------------------------------------

    def make_cell(self, spec: Any, place: KeyPlace, number: int) -> Any:
        """A cell of a state, for the keys that have their turns in a place."""
        how = state_kind(self.transform_id, spec)
        kind = self._kinds.get(spec)
        if kind is None:
            kind = self._kinds[spec] = how.kind(self.transform_id, spec)
        return how.cell(kind, place, number)

    def encode_window(self, window: Any) -> bytes:
        """A window as the store knows it."""
        encoded: bytes = self._window_impl.encode(window)
        return encoded

    def decode_window(self, section: bytes) -> Any:
        """The inverse of ``encode_window``."""
        known, window = self._decoded
        if known != section:
            window = self._window_impl.decode(section)
            self._decoded = section, window
        return window

    # --- what bundles ask ---------------------------------------------------------------------

    def key_at_work(self) -> bytes | None:
        """The encoding of the key that has its turn, or had it last; for another thread."""
        place = self.place
        if isinstance(place, SmallPlace):
            return place.records.in_use or None
        return place.records.key or None

    def rest(self) -> None:
        """No key has its turn; user code that uses a cell or timer nevertheless gets an error."""
        for place in (self.small, self.large):
            place.rest(NOBODYS)

    def check_turn_is_over(self) -> None:
        """Make sure that user code has not changed a cell while no key had its turn.

        Raises:
            RuntimeError: it has. The change would be lost, or become another key's.
        """
        for place in (self.small, self.large):
            for cell in place.changed_cells():
                raise RuntimeError(cell.kind.out_of_turn())

    def close(self) -> None:
        """Tear down what was set up for state; nothing is forgotten."""
        for kind in self._kinds.values():
            kind.close()
        self._kinds = {}

    # --- what Beam asks -----------------------------------------------------------------------

    def get_state(self, state_spec: Any, key: Any, window: Any) -> Any:
        """The cell of ``state_spec`` in ``window``."""
        return self._entered(key, window).cells[state_spec.name]

    def get_timer(self, timer_spec: Any, key: Any, window: Any, timestamp: Any, pane: Any) -> Any:
        """What sets and clears timers of a family, for ``window``."""
        timer = timer_of(self._entered(key, window), timer_spec)
        if isinstance(timer, ProcessingTimer):
            return timer.set_at(timestamp, pane)
        return timer.set_in(pane)

    def _entered(self, key: Any, window: Any) -> SmallPlace | LargePlace:
        place = self.place
        if window is not place.window:
            place.enter(window, key)
        return place

    def commit(self) -> None:
        """Nothing: rounds are ended by the slot."""

    def reset(self) -> None:
        """Nothing: state lasts longer than bundles."""


class _Nobodys:
    """The record of no key."""

    def __getattr__(self, name: str) -> NoReturn:
        where = "where no key has its turn, as in finish_bundle"
        message = f"state or a timer was used {where}. {ELSEWHERE}"
        raise RuntimeError(message)


NOBODYS: Final[Any] = _Nobodys()
"""What cells and timers get as their record when no key has its turn."""
