"""The lists of mutants fit the code: a mutation run would find all that they name."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from tests.mutants.ledger import End, digest, known_ends
from tests.mutants.listed import AREAS, ROOT, Mutant, mutants, open_points
from tests.mutants.mutation_run import Verdict
from tests.mutants.selection import changed, never_run
from tests.proofs.checkout import commits_of

MUTANTS = mutants()
# A test for each mutant would take most of its time to begin and to end.
_each_list = pytest.mark.parametrize("area", sorted({mutant.area for mutant in MUTANTS}))


def test_names_are_unique_and_plain():
    counted = Counter(mutant.name for mutant in MUTANTS)
    assert [name for name, count in counted.items() if count > 1] == []
    assert [name for name in counted if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []


@_each_list
def test_the_text_to_be_changed_occurs_once_and_the_changed_file_compiles(area):
    for mutant in of_list(area):
        assert mutant.found() == 1, f"{mutant.file} has changed: bring {mutant.name} up to date"
        assert mutant.after != mutant.before, mutant.name
        if mutant.file.endswith(".py"):
            compile(mutant.text(), mutant.file, "exec")


@_each_list
def test_a_mutant_names_tests_of_the_default_run_or_says_why_no_test_can_tell(area):
    for mutant in of_list(area):
        assert bool(mutant.tests) != bool(mutant.equivalent), mutant.name
        for test in mutant.tests:
            file, _, name = test.partition("::")
            found = default_tests(file)
            assert found, f"{mutant.name}: {file} has no test of the default run"
            in_default_run = not name or name.partition("[")[0] in found
            assert in_default_run, f"{mutant.name}: {test} is not in the default run"


def of_list(area):
    return [mutant for mutant in MUTANTS if mutant.area == area]


def test_every_point_of_the_drain_contract_has_a_mutant_or_a_reason():
    ends = known_ends()
    killed = {name for name, end in ends.items() if end.verdict == Verdict.KILLED}
    shown = {point for mutant in MUTANTS if mutant.name in killed for point in mutant.points}
    assert shown | open_points().keys() == set(range(1, 61))


def test_commits_that_are_written_down_are_in_the_history():
    history = commits_of(ROOT)
    if not history:
        pytest.skip("no history here")
    ends = known_ends()
    strange = {name: end.commit for name, end in ends.items() if end.commit not in history}
    assert not strange, "record these mutants anew"


def test_what_keeps_the_promises_has_150_mutants():
    assert sum(mutant.file.startswith(AREAS) for mutant in MUTANTS) >= 150


@pytest.mark.parametrize("area", AREAS)
def test_each_area_has_a_mutant_that_a_test_kills(area):
    assert any(mutant.file.startswith(area) and mutant.tests for mutant in MUTANTS)


@cache
def default_tests(file: str) -> frozenset[str]:
    """The tests of a file that are not marked slow; methods as ``Class::method``."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    module = ast.parse(path.read_text(encoding="utf-8"))
    if any(_is_slow(node) for node in module.body if isinstance(node, ast.Assign)):
        return frozenset()
    return frozenset(_tests_in(module, ""))


def _tests_in(scope, prefix):
    for node in scope.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            if not any(map(_is_mark, node.decorator_list)):
                yield prefix + node.name
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            if not any(map(_is_mark, node.decorator_list)):
                yield prefix + node.name
                yield from _tests_in(node, f"{prefix}{node.name}::")
        elif isinstance(node, ast.Assign):
            # State machines of hypothesis: TestRequests = Requests.TestCase.
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            yield from (prefix + name for name in names if name.lower().startswith("test"))
        elif isinstance(node, ast.ImportFrom) and [each.name for each in node.names] == ["*"]:
            # A contract that several test modules check.
            source = ROOT / f"{node.module.replace('.', '/')}.py"
            yield from _tests_in(ast.parse(source.read_text(encoding="utf-8")), prefix)


def _is_slow(node) -> bool:
    return any(map(_is_mark, ast.walk(node)))


def _is_mark(node) -> bool:
    """Not that of one case among others, inside of ``parametrize``."""
    return isinstance(node, ast.Attribute) and node.attr == "slow"


def test_a_mutant_counts_as_changed_when_its_file_or_one_of_its_tests_has_changed(tmp_path):
    mutant = Mutant("name", "area", "product.py", "1", "2", tests=("test_product.py::test_it",))
    (tmp_path / "product.py").write_text("x = 1\n")
    (tmp_path / "test_product.py").write_text("def test_it(): ...\n")
    digests = {digest(mutant, tmp_path)}
    (tmp_path / "test_product.py").write_text("def test_it(): pass\n")
    digests.add(digest(mutant, tmp_path))
    (tmp_path / "product.py").write_text("x = 1 + 0\n")
    digests.add(digest(mutant, tmp_path))
    digests.add(digest(replace(mutant, after="3"), tmp_path))
    assert len(digests) == 4


def test_only_mutants_that_ended_well_with_the_same_files_need_not_be_run():
    first, second, third, fourth = MUTANTS[:4]
    killed = End(Verdict.KILLED, "test", 1, "commit", "day", "read")
    ends = {
        first.name: replace(killed, read=digest(first)),
        second.name: replace(killed, read="another"),
        third.name: replace(killed, read=digest(third), verdict=Verdict.SURVIVED),
    }
    assert changed(MUTANTS[:4], ends) == [second, third, fourth]
    assert never_run(MUTANTS[:4], ends) == [third, fourth]
