"""Beam's own transcripts of triggers, played to our groupings."""

from __future__ import annotations

from importlib.resources import files

import pytest
import yaml
from apache_beam.transforms import trigger, window
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger_test import CustomTimestampingFixedWindowsWindowFn
from apache_beam.utils.windowed_value import PaneInfoTiming
from round_driver import Rounds

SECOND = 1_000_000
NAMES = {
    **vars(window),
    **vars(trigger),
    "Default": trigger.DefaultTrigger,
    "CustomTimestampingFixedWindowsWindowFn": CustomTimestampingFixedWindowsWindowFn,
}


def transcripts():
    text = (files("apache_beam") / "testing/data/trigger_transcripts.yaml").read_text()
    for number, spec in enumerate(yaml.safe_load_all(text)):
        if "error" not in spec:
            yield pytest.param(spec, id=f"{number}-{spec['name']}")


def made(text):
    found = eval(text, dict(NAMES))
    return found() if isinstance(found, type) else found


def rounds_for(spec, scratch):
    windowing = Windowing(
        made(spec.get("window_fn", "GlobalWindows")),
        made(spec.get("trigger_fn", "Default")),
        getattr(trigger.AccumulationMode, spec.get("accumulation_mode", "accumulating").upper()),
        getattr(window.TimestampCombiner, spec.get("timestamp_combiner", "OUTPUT_AT_EOW")),
        spec.get("allowed_lateness", 0),
    )
    return Rounds(windowing, scratch)


def described(pane):
    _, end, start, (timing, index, nonspeculative, _, last), values, time = pane
    return {
        "window": [start // SECOND, (end - 1) // SECOND],
        "values": values,
        "timestamp": time // SECOND,
        "index": index,
        "nonspeculative_index": nonspeculative,
        "early": timing == PaneInfoTiming.EARLY,
        "late": timing == PaneInfoTiming.LATE,
        "final": last,
    }


@pytest.mark.parametrize("spec", transcripts())
def test_a_transcript_comes_out_as_beam_wrote_it(spec, tmp_path):
    rounds = rounds_for(spec, tmp_path)
    output = []
    for line in spec["transcript"]:
        ((action, given),) = line.items()
        match action:
            case "input":
                assert output == []
                elements = [("key", value, value) for value in given]
                output = [described(pane) for pane in rounds.round(elements)]
            case "watermark":
                assert output == []
                output = [described(pane) for pane in rounds.round(frontier=given * SECOND)]
            case "expect":
                for expected in given:
                    match = next(o for o in output if expected.items() <= o.items())
                    output.remove(match)
                assert output == []
    assert output == []
