"""PySpark's private parts stay in one package, whatever version of PySpark is there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import sparkdrain

SOURCES = Path(sparkdrain.__file__).parent
ADAPTER = SOURCES / "stages" / "spark"
PUBLIC = {"Broadcast", "SparkConf", "SparkContext", "SparkFiles"}


def imported(file: Path) -> set[tuple[str, str]]:
    """The modules that a file imports, and the names from each; "" for the module itself."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {(node.module, alias.name) for alias in node.names}
    return found


def private(module: str, name: str) -> bool:
    """Whether another version of PySpark may have this name elsewhere, or not at all."""
    package = module.partition(".")[0]
    public = module == "pyspark" and name in PUBLIC | {""}
    return package == "py4j" or (package == "pyspark" and not public)


def test_only_the_adapter_imports_private_parts_of_pyspark():
    outside = [file for file in SOURCES.rglob("*.py") if ADAPTER not in file.parents]
    found = {
        f"{file.relative_to(SOURCES)}: {module} {name}"
        for file in outside
        for module, name in imported(file)
        if private(module, name)
    }
    assert found == set()


@pytest.mark.parametrize("attribute", ["_gateway", "_jvm", "_jsc", "_active_spark_context"])
def test_only_the_adapter_uses_private_attributes_of_contexts(attribute):
    outside = [file for file in SOURCES.rglob("*.py") if ADAPTER not in file.parents]
    found = {
        str(file.relative_to(SOURCES))
        for file in outside
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == attribute
    }
    assert found == set()
