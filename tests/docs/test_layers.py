"""The page on the architecture shows the layers that the check of imports has."""

from __future__ import annotations

import re
import sys

from tests.docs.pages import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it

PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
SHOWN = PAGE.partition("## Who may import whom")[2].split("```")[1].strip().split("\n")


def contract(name):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = [each["layers"] for each in contracts if each["name"].startswith(name)]
    return [set(layer.split(" | ")) for layer in layers]


def test_the_page_shows_each_layer_in_its_order():
    shown = [
        set(re.split(r"\s{2,}", line)[0].split(" · ")) - {""}
        for line in SHOWN
        if line and not line.startswith(("  ", "timers_state"))
    ]
    # What a layer is stands beside two of the modules only.
    told = {"invocation"}
    assert [layer - told for layer in shown] == [layer - told for layer in contract("Layers")]


def test_the_page_shows_the_layers_of_rounds_in_their_order():
    at = next(n for n, line in enumerate(SHOWN) if line.startswith("rounds "))
    shown = [set(layer.split(", ")) for layer in SHOWN[at + 1].strip().split(" · ")]
    assert shown == contract("Rounds")
