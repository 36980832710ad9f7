"""What Beam finds out again and again while pipelines are built is found out once.

For one small pipeline Beam looks some hundred times at the signatures of all methods of a DoFn, and
as often makes a parser for some of its options. Both together take more than half of the processor
time in which the pipeline is built.
"""

from __future__ import annotations

import argparse
import sys
import types
from copy import copy
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam.options import pipeline_options
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import core

_arguments: WeakKeyDictionary[Any, tuple[list[str], list[Any]]] = WeakKeyDictionary()
_views: dict[tuple[Any, ...], dict[str, Any]] = {}
_get_function_args_defaults = core.get_function_args_defaults
_view_as = PipelineOptions.view_as


def use() -> None:
    """Replace two functions in this process by ones with the same results."""
    core.get_function_args_defaults = _arguments_of
    PipelineOptions.view_as = _viewed_as


def _arguments_of(function: Any) -> tuple[list[str], list[Any]]:
    """The names and the defaults of a method's arguments; those of other functions anew."""
    if not isinstance(function, types.MethodType):
        return _get_function_args_defaults(function)
    found = _arguments.get(function.__func__)
    if found is None:
        found = _arguments[function.__func__] = _get_function_args_defaults(function)
    return list(found[0]), list(found[1])


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
