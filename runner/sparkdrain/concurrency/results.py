"""Tells which methods wait, and collects what they make."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import typing
from collections.abc import AsyncIterable, Awaitable
from typing import Any, Final

from apache_beam.transforms.core import CallableWrapperDoFn
from apache_beam.transforms.userstate import get_dofn_specs

from sparkdrain.concurrency.completion import Completion

LIFE: Final = ("setup", "start_bundle", "finish_bundle", "teardown", "on_drain")
"""The methods of a DoFn that may be asynchronous, beside ``process`` and those of timers."""
_PROMISES: Final = (Awaitable, asyncio.Future, concurrent.futures.Future, Completion)


def is_asynchronous(method: Any) -> bool:
    """Whether a function is an ``async def``, also one that yields."""
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def waits(method: Any) -> bool:
    """Whether a call comes back before its work is done: an ``async def``, or one that says so.

    A plain function says so by its annotation: it returns a future, an awaitable or a
    ``Completion``.
    """
    if is_asynchronous(method):
        return True
    function = inspect.unwrap(getattr(method, "__func__", method))
    try:
        returned = typing.get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001 - names in annotations may be known to type checkers alone
        return False
    kind = typing.get_origin(returned) or returned
    return isinstance(kind, type) and issubclass(kind, _PROMISES)


def waits_anywhere(dofn: Any) -> bool:
    """Whether ``process``, or a callback of a timer, waits."""
    if waits(dofn.process):
        return True
    if isinstance(dofn, CallableWrapperDoFn):
        return False  # a function has no callbacks, and to look for some takes a millisecond
    _, timers = get_dofn_specs(dofn)
    return any(waits(spec._attached_callback) for spec in timers)  # noqa: SLF001


async def collect(made: Any) -> Any:
    """What a call has made, complete: awaited, and a list if it was asynchronous or a generator.

    Args:
        made: what ``process`` or the like has returned.

    Returns:
        An iterable that can be iterated without user code, or None. What is no iterable of
        results, as a string, comes back as it is.
    """
    while not isinstance(made, (list, tuple)):
        if isinstance(made, Completion):
            made = await made
        elif isinstance(made, concurrent.futures.Future):
            made = await asyncio.wrap_future(made)
        elif inspect.isawaitable(made):
            made = await made
        elif isinstance(made, AsyncIterable):
            return [result async for result in made]
        else:
            return made if made is None or isinstance(made, (str, bytes, dict)) else list(made)
    return made
