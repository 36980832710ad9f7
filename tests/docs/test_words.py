"""The words of docs/words.md stand for one thing each in the names of the product."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/words.md").read_text(encoding="utf-8")
FORMS = ("", "s", "es", "ed", "ing")

# A backend of a metadata store is a class of this name in a module of its own.
CONTRACTS = {"Backend"}

# Where a name may consist of one of the six words alone, because the module is about its meaning.
OWNERS = {
    "drain": (
        "cli/",
        "drain/",
        "invocation",
        "jobs/",
        "result",
        "rounds/",
        "server/",
        "shuffle/complete",
    ),
    "slot": ("rounds/", "stages/"),
    # Records of other systems stand where the module says whose they are.
    "record": ("timers_state/", "harness/", "io/eventhubs/", "io/kafka/", "hosts/"),
    "place": ("checkpoints/", "coordination/", "hosts/", "own_folder", "rounds/driver/placement"),
    "turn": ("rounds/", "stages/shards/turn"),
    "batch": ("stages/batch",),
}

# Names that consist of one of the six words and mean something else. This list only shrinks.
OTHERS: dict[str, set[str]] = {
    "record": {
        "drain/records:records",
    },
    "batch": {
        "timers_state/store/store:Batch",
    },
}


@cache
def modules():
    found = {}
    for folder in ("runner/sparkdrain", "timers_state"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            # `beam` modules hand on names of Beam.
            if not path.stem.endswith("_pb2") and path.stem != "beam":
                name = str(path.relative_to(ROOT).with_suffix("")).removeprefix(
                    "runner/sparkdrain/"
                )
                found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def types_of(module):
    """Public classes and aliases of types."""
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            # A constant is in capitals, a type begins with one.
            yield node.targets[0].id
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def is_type(name):
    return re.fullmatch(r"[A-Z]\w*[a-z]\w*", name) is not None


@cache
def shared():
    places = defaultdict(list)
    for path, module in modules().items():
        for name in filter(is_type, types_of(module)):
            places[name].append(path)
    return {name: found for name, found in places.items() if len(found) > 1}


def test_no_public_type_has_the_name_of_another():
    assert {name: found for name, found in shared().items() if name not in CONTRACTS} == {}


def names_of(path, module):
    yield Path(path.removesuffix("/__init__")).name
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name


def other_meanings(word):
    forms = {word + ending for ending in FORMS}
    return {
        f"{path}:{name}"
        for path, module in modules().items()
        if not path.startswith(OWNERS[word])
        for name in names_of(path, module)
        if name.strip("_").lower() in forms
    }


@pytest.mark.parametrize("word", OWNERS)
def test_a_word_has_its_one_meaning_in_names(word):
    assert other_meanings(word) == OTHERS.get(word, set())


@pytest.mark.parametrize("word", OWNERS)
def test_the_page_has_one_meaning_of_each_word(word):
    assert len(re.findall(rf"^\| \*\*{word}\*\* \|", PAGE, re.MULTILINE)) == 1


def test_no_word_stands_twice_in_the_tables():
    words = re.findall(r"^\| (?:\*\*)?([\w ,]+?)(?:\*\*)? \|", PAGE, re.MULTILINE)
    counted = [word for word in words if word not in ("word", "say")]
    assert len(counted) == len(set(counted)) > 30
