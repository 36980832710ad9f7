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


def imported_by(node: ast.stmt) -> list[str]:
    """The modules that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


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


# In a child for each module, one thread imports PySpark. Another one begins to import the module
# meanwhile. The children sleep side by side, and print is for the modules that fail.
TWO_THREADS = """
import importlib, os, sys, threading, time

class Meanwhile:
    begun = False
    def find_spec(self, name, path=None, target=None):
        if name == "pyspark.sql" and not self.begun:
            self.begun = True
            other.start()
            time.sleep(1)

import py4j.protocol, sparkdrain.stages.spark
assert "pyspark" not in sys.modules
children = []
for module in sys.argv[1:]:
    child = os.fork()
    if child:
        children.append((child, module))
        continue
    other = threading.Thread(target=lambda: importlib.import_module(module) and os._exit(0))
    sys.meta_path.insert(0, Meanwhile())
    import pyspark
    other.join()
    os._exit(1)
for child, module in children:
    if os.waitpid(child, 0)[1]:
        print(module)
"""


def test_a_module_can_be_imported_while_pyspark_is(python):
    modules = sorted(file.stem for file in ADAPTER.glob("[a-z]*.py"))
    assert len(modules) > 5
    done = python("-c", TWO_THREADS, *(f"sparkdrain.stages.spark.{each}" for each in modules))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_each_module_of_the_adapter_begins_with_all_of_pyspark():
    """Whether half a module would be seen depends on the version; the rule does not."""
    for file in ADAPTER.glob("[a-z]*.py"):
        found = [
            module
            for node in ast.parse(file.read_text("utf-8")).body
            for module in imported_by(node)
            if module.partition(".")[0] == "pyspark"
        ]
        assert found[:1] in ([], ["pyspark"]), file.name


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
