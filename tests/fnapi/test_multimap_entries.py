"""All entries of a multimap at once, as Java's SDK asks for them."""

from __future__ import annotations

import pytest
from apache_beam import coders
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.transforms.window import IntervalWindow

from sparkdrain.fnapi.lives import WindowLives
from sparkdrain.fnapi.user_state import UserState
from sparkdrain.harness.harness import StateTerms
from timers_state import Overlay, RoundStore

WINDOWS = IntervalWindowCoder().get_impl()
WINDOW = WINDOWS.encode(IntervalWindow(0, 10))
PAIRS = coders.TupleCoder([coders.StrUtf8Coder(), coders.IterableCoder(coders.VarIntCoder())])


@pytest.fixture
def state(tmp_path):
    overlay = Overlay(RoundStore(tmp_path / "state"), 1 << 20)
    lives = WindowLives(StateTerms(overlay, 7, None), WINDOWS)
    yield UserState(lambda _: lives, lambda _, __: coders.VarIntCoder())
    overlay.close()


def _key(kind, **more):
    parts = {"transform_id": "t", "user_state_id": "s", "window": WINDOW, "key": b"\x01k"}
    return beam_fn_api_pb2.StateKey(**{kind: {**parts, **more}})


def test_each_key_comes_with_the_number_of_its_values(state):
    text, number = coders.StrUtf8Coder().get_impl(), coders.VarIntCoder().get_impl()
    for name, values in {"a": [1, 300], "b": [5], "c": []}.items():
        key = _key("multimap_user_state", map_key=text.encode_nested(name))
        for value in values:
            state.append(key, number.encode_nested(value))
    data = b"".join(state.read(_key("multimap_entries_user_state")))
    entries = PAIRS.get_impl().decode_all(data)
    assert [(name, list(values)) for name, values in entries] == [("a", [1, 300]), ("b", [5])]
