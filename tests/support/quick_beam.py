"""What Beam finds out again and again while pipelines are built is found out once.

For one small pipeline Beam looks some hundred times at the signatures of all methods of a DoFn,
reads the source of each anew, and as often makes a parser for some of its options. Together these
take more than half of the processor time in which the pipeline is built. Of the rest, it takes a
tenth to pack pickles as closely as can be, which only large ones are worth. And to add an option to
a parser, all that prints its help is made, and asks how wide the terminal is.
"""

from __future__ import annotations

import argparse
import bz2
import shutil
import sys
import types
from copy import copy
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam.internal import cloudpickle_pickler
from apache_beam.options import pipeline_options
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import core, userstate
from apache_beam.typehints.typecheck import AbstractDoFnWrapper

_specs: WeakKeyDictionary[type, tuple[set[Any], set[Any]]] = WeakKeyDictionary()
_arguments: WeakKeyDictionary[Any, tuple[list[str], list[Any]]] = WeakKeyDictionary()
_mixing: dict[types.CodeType, bool] = {}
_views: dict[tuple[Any, ...], dict[str, Any]] = {}
_get_function_args_defaults = core.get_function_args_defaults
_get_dofn_specs = userstate.get_dofn_specs
_check_fn_use_yield_and_return = core._check_fn_use_yield_and_return
_view_as = PipelineOptions.view_as
_BeamArgumentParser = pipeline_options._BeamArgumentParser


class _Bz2:
    """``bz2`` as Beam's pickler uses it; what it packs is larger, and unpacked by all."""

    decompress = staticmethod(bz2.decompress)

    @staticmethod
    def compress(data: bytes, compresslevel: int) -> bytes:
        del compresslevel
        return bz2.compress(data, 1)


def use() -> None:
    """Replace some functions in this process by ones with the same results."""
    core.get_function_args_defaults = _arguments_of
    userstate.get_dofn_specs = _specs_of
    core._check_fn_use_yield_and_return = _mixes_yield_and_return
    cloudpickle_pickler.bz2 = _Bz2
    PipelineOptions.view_as = _viewed_as
    pipeline_options._BeamArgumentParser = _Parser
    # Tests change the size for programs of their own alone.
    shutil.get_terminal_size = lru_cache(shutil.get_terminal_size)


class _Parser(_BeamArgumentParser):
    """A parser that tries each new option by one formatter; help is printed by one of its own."""

    _tried_by: argparse.HelpFormatter | None = None

    def _get_formatter(self) -> argparse.HelpFormatter:
        if self._tried_by is None:
            self._tried_by = super()._get_formatter()
        return self._tried_by

    def format_usage(self) -> str:
        self._tried_by = None
        return super().format_usage()

    def format_help(self) -> str:
        self._tried_by = None
        return super().format_help()


def _specs_of(dofn: Any) -> tuple[set[Any], set[Any]]:
    """State and timers of a DoFn: those of its class, unless it brings methods or wraps another."""
    own = any(isinstance(value, types.MethodType) for value in vars(dofn).values())
    if own or isinstance(dofn, AbstractDoFnWrapper):
        return _get_dofn_specs(dofn)
    found = _specs.get(type(dofn))
    if found is None:
        found = _specs[type(dofn)] = _get_dofn_specs(dofn)
    states, timers = found
    return set(states), set(timers)


def _arguments_of(function: Any) -> tuple[list[str], list[Any]]:
    """The names and the defaults of a method's arguments; those of other functions anew."""
    if not isinstance(function, types.MethodType):
        return _get_function_args_defaults(function)
    found = _arguments.get(function.__func__)
    if found is None:
        found = _arguments[function.__func__] = _get_function_args_defaults(function)
    return list(found[0]), list(found[1])


def _mixes_yield_and_return(function: Any) -> bool:
    """Whether its source does both, which Beam warns of."""
    code = getattr(function, "__code__", None)
    if code is None:
        return bool(_check_fn_use_yield_and_return(function))
    if code not in _mixing:
        _mixing[code] = _check_fn_use_yield_and_return(function)
    return _mixing[code]


def _viewed_as(options: PipelineOptions, cls: type[PipelineOptions]) -> PipelineOptions:
    """A view; what a command line says of options of Beam's is parsed once."""
    if cls.__module__ != pipeline_options.__name__ or cls is PipelineOptions:
        return _view_as(options, cls)
    flags = tuple(sys.argv[1:] if options._flags is None else options._flags)
    values = _views.get((cls, flags))
    if values is None:
        view = _view_as(PipelineOptions(list(flags)), cls)
        values = _views[cls, flags] = vars(view._visible_options)
    view = cls.__new__(cls)
    own = {name: copy(value) for name, value in values.items()}
    vars(view).update(
        _flags=options._flags,
        _visible_options=argparse.Namespace(**own),
        _all_options=options._all_options,
    )
    for name, value in own.items():
        options._all_options.setdefault(name, value)
    return view
