"""What Beam finds out again and again while pipelines are built is found out once.

For one small pipeline Beam looks some hundred times at the signatures of all methods of a DoFn, and
as often makes a parser for the options about types. Both together take more than half of the
processor time in which the pipeline is built.
"""

from __future__ import annotations

import argparse
import sys
import types
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from apache_beam.options.pipeline_options import PipelineOptions, TypeOptions
from apache_beam.transforms import userstate

if TYPE_CHECKING:
    from apache_beam import DoFn

_specs: WeakKeyDictionary[type[DoFn], tuple[frozenset[Any], frozenset[Any]]] = WeakKeyDictionary()
_views: dict[tuple[str, ...], dict[str, Any]] = {}
_get_dofn_specs = userstate.get_dofn_specs
_view_as = PipelineOptions.view_as


def use() -> None:
    """Replace two functions in this process by ones with the same results."""
    userstate.get_dofn_specs = _specs_of
    PipelineOptions.view_as = _viewed_as


def _specs_of(dofn: DoFn) -> tuple[set[Any], set[Any]]:
    """The states and timers of the class of a DoFn, unless the DoFn has methods of its own."""
    if any(isinstance(value, types.MethodType) for value in vars(dofn).values()):
        return _get_dofn_specs(dofn)
    found = _specs.get(type(dofn))
    if found is None:
        states, timers = _get_dofn_specs(dofn)
        found = _specs[type(dofn)] = frozenset(states), frozenset(timers)
    return set(found[0]), set(found[1])


def _viewed_as(options: PipelineOptions, cls: type[PipelineOptions]) -> PipelineOptions:
    """A view; what the command line says of types is parsed once. Such options are no lists."""
    if cls is not TypeOptions:
        return _view_as(options, cls)
    flags = tuple(sys.argv[1:] if options._flags is None else options._flags)
    values = _views.get(flags)
    if values is None:
        view = _view_as(options, cls)
        _views[flags] = vars(view._visible_options)
        return view
    view = cls.__new__(cls)
    own = {"_flags": options._flags, "_visible_options": argparse.Namespace(**values)}
    vars(view).update(own, _all_options=options._all_options)
    for name, value in values.items():
        options._all_options.setdefault(name, value)
    return view
