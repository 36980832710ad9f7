"""Decision 66 lists each method that is replaced on an object, a class or a module of Beam's."""

from __future__ import annotations

import ast
import re

from tests.support.product_modules import ROOT, modules

PAGE = (ROOT / "docs/decisions/0068-replaced-methods.md").read_text(encoding="utf-8")
BEAMS = {
    "BundleProcessor",
    "_inspect_process",
    "experiments",
    "finalize_bundle",
    "finish_bundle",
    "get_deep_size",
    "process",
    "process_encoded",
    "setup",
    "start_bundle",
    "teardown",
    "try_claim",
    "try_split",
}
"""What Beam calls or reads by these names."""


def replaced(module):
    """Names that a module sets on something else than its own objects and classes."""
    own = {node.name for node in ast.walk(module) if isinstance(node, ast.ClassDef)} | {"self"}
    for node in ast.walk(module):
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in (each for whole in targets for each in ast.walk(whole)):
            is_set = isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store)
            if is_set and getattr(target.value, "id", "") not in own:
                yield target.attr
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr":
            yield "setattr"


def test_the_decision_names_each_module_that_replaces_a_method_of_beams():
    found = {
        name.removeprefix("sparkdrain.").replace(".", "/") + ".py"
        for name, module in modules().items()
        if name.startswith("sparkdrain.") and BEAMS & {*replaced(module)}
    }
    dofns = "harness/concurrent/dofn.py"  # by name, for any method
    assert "setattr" in {*replaced(modules()["sparkdrain.harness.concurrent.dofn"])}
    told = re.findall(r"^\| \[`[\w/.]+`\]\(../../runner/sparkdrain/([\w/.]+)\) \|", PAGE, re.M)
    assert {*told} == found | {dofns}
