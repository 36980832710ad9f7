"""Which tests of a file the default run leaves out: those that are marked slow."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT: Final = Path(__file__).resolve().parents[2]
MARK: Final = "pytest.mark.slow"
# Tests of Beam's, as docs/capabilities.py names them, of which the default run has none in any way.
OF_BEAM: Final = frozenset(
    {
        "DoFnProcessTest.test_dofn_process_keyparam_error_no_key",
        "PeriodicSequenceTest.test_periodicsequence_outputs_valid_sequence",
        "ReshuffleTest.test_reshuffle_custom_window_preserves_metadata_0",
        "ReshuffleTest.test_reshuffle_custom_window_preserves_metadata_1",
        "ReshuffleTest.test_reshuffle_default_window_preserves_metadata_1",
        "ReshuffleTest.test_reshuffle_window_fn_preserved",
        "ReshuffleTest.test_reshuffle_windows_unchanged",
        "test_as_list_and_as_dict_side_inputs",
        "test_as_singleton_with_different_defaults",
        "test_combine",
        "test_combiner_earliest",
        "test_combiner_latest",
        "test_combining_value_state",
        "test_default_value_singleton_side_input",
        "test_dofn_lifecycle",
        "test_empty_singleton_side_input",
        "test_flatten_a_flattened_pcollection",
        "test_flatten_multiple_pcollections_having_multiple_consumers",
        "test_flatten_one_single_pcollection",
        "test_impulse",
        "test_iterable_side_input",
        "test_multi_triggered_gbk_side_input",
        "test_multi_valued_singleton_side_input",
        "test_multiple_empty_outputs",
        "test_non_liftable_combine",
        "test_par_do_with_multiple_outputs_and_using_yield",
        "test_pardo_et_timer_with_no_firing",
        "test_pardo_et_timer_with_no_reset",
        "test_pardo_et_timer_with_no_reset_and_no_clear",
        "test_reiterable_side_input",
        "test_reshuffle_preserves_timestamps",
        "test_run_packable_combine_globally",
        "test_run_packable_combine_per_key",
        "test_side_input_with_sdf",
        "test_undeclared_outputs",
        "test_user_counter_using_pardo",
    }
)


@cache
def slow_tests(path: str) -> frozenset[str]:
    """The names of tests that are slow with all of their parameters.

    Args:
        path: the file, from the root of the repository.
    """
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    all_are = any(map(_marks_all, module.body))
    return frozenset(
        test.name
        for scope in (module, *(node for node in module.body if isinstance(node, ast.ClassDef)))
        for test in scope.body
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")
        if all_are or _is_marked(scope) or _is_marked(test)
    )


def files_with_slow_tests(paths: Iterable[str], root: Path = ROOT) -> list[str]:
    """Files of tests, or of fixtures, that mark anything slow; sorted, from the root.

    Args:
        paths: files and folders, from the root; those that are not there have none.
        root: of the repository.
    """
    places = [root / path for path in paths]
    files = {file for place in places for file in (place, *place.rglob("*.py")) if file.is_file()}
    slow = (file for file in files if MARK in file.read_text(encoding="utf-8"))
    return sorted(file.relative_to(root).as_posix() for file in slow)


def is_slow(test: str) -> bool:
    """Whether the default run leaves a test out; a name without a path is a test of Beam's."""
    path, colons, name = test.partition("::")
    return name in slow_tests(path) if colons else test in OF_BEAM


def _marks_all(statement: ast.stmt) -> bool:
    """Whether it is ``pytestmark = ...`` with the mark."""
    return (
        isinstance(statement, ast.Assign)
        and ast.unparse(statement.targets[0]) == "pytestmark"
        and any(ast.unparse(node) == MARK for node in ast.walk(statement.value))
    )


def _is_marked(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> bool:
    decorators = [] if isinstance(node, ast.Module) else node.decorator_list
    return any(ast.unparse(decorator) == MARK for decorator in decorators)
