"""Panes are those of Beam's own driver when both are given the same, whatever the trigger."""

from __future__ import annotations

from apache_beam.transforms.core import Windowing
from beam_driver import BeamRounds
from hypothesis import given, settings
from hypothesis import strategies as st
from round_driver import Rounds
from windowings import combiners, frontiers, modes, neighbours, rounds, sessions, triggers, unmerged

LONG = 10_000


def windowings(windows):
    return st.builds(Windowing, windows, triggers, modes, combiners, st.just(LONG))


@settings(max_examples=50, deadline=None)
@given(windowings(unmerged), rounds, st.booleans())
def test_panes_of_windows_are_those_of_beams_driver(tmp_path_factory, windowing, data, small):
    ours = Rounds(windowing, tmp_path_factory.getbasetemp(), block_bytes=1 if small else 1 << 20)
    beams = BeamRounds(windowing, ours.context)
    for arrived, frontier in frontiers(data):
        assert sorted(ours.round(arrived, frontier)) == sorted(beams.round(arrived, frontier))


@settings(max_examples=50, deadline=None)
@given(windowings(sessions), rounds, st.booleans())
def test_panes_of_sessions_are_those_of_beams_driver(tmp_path_factory, windowing, data, small):
    ours = Rounds(windowing, tmp_path_factory.getbasetemp(), block_bytes=1 if small else 1 << 20)
    beams = BeamRounds(windowing, ours.context)
    for arrived, frontier in frontiers(data):
        assert sorted(ours.round(arrived, frontier)) == sorted(beams.round(arrived, frontier))


@settings(max_examples=50, deadline=None)
@given(windowings(neighbours), rounds, st.booleans())
def test_panes_of_ones_own_windows_that_merge_are_those_of_beams_driver(
    tmp_path_factory, windowing, data, small
):
    ours = Rounds(windowing, tmp_path_factory.getbasetemp(), block_bytes=1 if small else 1 << 20)
    beams = BeamRounds(windowing, ours.context)
    for arrived, frontier in frontiers(data):
        assert sorted(ours.round(arrived, frontier)) == sorted(beams.round(arrived, frontier))
