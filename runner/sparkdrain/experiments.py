"""Experiments of Beam (``--experiments``) that this runner knows, by Beam's own names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container

_ALL: Final = "enable_data_sampling"
_FAILING: Final = "enable_always_on_exception_sampling"
_NOT_FAILING: Final = "disable_always_on_exception_sampling"


def samples_all(experiments: Container[str]) -> bool:
    """Whether harnesses keep samples of all elements, not only of those that user code fails on."""
    return _ALL in experiments


def wants_samples(experiments: Container[str]) -> bool:
    """Whether harnesses keep samples: of all elements, or of those that user code fails on."""
    return _ALL in experiments or (_FAILING in experiments and _NOT_FAILING not in experiments)
