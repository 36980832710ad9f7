"""``Concurrently``: a DoFn of which many elements are in flight in each slot."""

from __future__ import annotations

import asyncio
import collections.abc
import functools
import inspect
import time
import traceback
import typing
from typing import TYPE_CHECKING, Any, Final

from apache_beam import DoFn
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.core import get_function_args_defaults
from apache_beam.transforms.userstate import is_stateful_dofn

from sparkdrain.concurrency.results import (
    LIFE,
    collect,
    is_asynchronous,
    waits,
    waits_anywhere,
)
from sparkdrain.concurrency.settings import Concurrency

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.concurrency.settings import ResultOrder

# The DoFn that users gave, and its ``Concurrency``.
_GIVEN: Final = "_sparkdrain_concurrently"
_LOOP: Final = "_sparkdrain_loop"
_ASYNCHRONOUS: Final = (
    collections.abc.AsyncIterable,
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
)


def Concurrently(  # noqa: N802 - it makes a DoFn, and reads as the class of one
    dofn: DoFn,
    max_in_flight: int = 100,
    order: ResultOrder = "none",
    timeout: float | None = None,
    retries: int = 0,
    backoff: float = 0.1,
    dead_letter: str = "",
    carry_over: bool = False,
) -> DoFn:
    """A DoFn that does what ``dofn`` does, with many elements in flight in each slot.

    A DoFn whose ``process`` is ``async def``, or returns futures and says so by its annotation,
    runs in the event loop of its slot's process. Any other one runs in a pool of threads. Other
    runners than SparkDrainRunner process one element after the other.

    Args:
        dofn: any DoFn that is not splittable.
        max_in_flight: see ``Concurrency``, as for all others.
        order: in which order results leave.
        timeout: seconds for an attempt.
        retries: further attempts.
        backoff: seconds before the first of them.
        dead_letter: the tag of an output for elements that fail.
        carry_over: whether an element may outlast its round.

    Raises:
        TypeError: ``dofn`` is no DoFn, or has state or timers and would run in threads.
        ValueError: a setting is outside of its bounds, or is not for a DoFn with state, or with
            bundles.
    """
    if not isinstance(dofn, DoFn):
        msg = f"Concurrently takes a DoFn, and got {type(dofn).__name__}: put it into a DoFn"
        raise TypeError(msg)
    settings = Concurrency(max_in_flight, order, timeout, retries, backoff, dead_letter, carry_over)
    if carry_over:
        check_carried(dofn)
    if is_stateful_dofn(dofn):
        check_stateful(dofn, settings)
    return _made(dofn, settings)


def check_stateful(dofn: DoFn, settings: Concurrency) -> None:
    """Make sure that a DoFn with state or timers can have many elements in flight.

    Raises:
        TypeError: it would run in threads.
        ValueError: a setting is not for it.
    """
    name = type(dofn).__name__
    if not waits_anywhere(dofn):
        msg = (
            f"{name} uses state or timers, which threads cannot share: make its process an "
            "async def, or put the call that waits into a ParDo before or behind it"
        )
        raise TypeError(msg)
    if settings.retries or settings.dead_letter:
        msg = (
            f"{name} uses state or timers, which an attempt that fails may have changed: leave "
            "retries and dead_letter out, and catch the error in process"
        )
        raise ValueError(msg)
    if settings.carry_over and settings.max_in_flight == 1:
        msg = (
            f"{name} uses state or timers, so one of the places in flight is for timers, which do "
            "not wait for elements that are carried over: let max_in_flight be 2 or more"
        )
        raise ValueError(msg)
    if settings.order == "input":
        msg = f"{name} uses state or timers, so order holds for each key: leave order out"
        raise ValueError(msg)


def check_carried(dofn: DoFn) -> None:
    """Make sure that elements of a DoFn may outlast their bundle.

    Raises:
        ValueError: they may not.
    """
    name = type(dofn).__name__
    for method in ("start_bundle", "finish_bundle"):
        if getattr(type(dofn), method) is not getattr(DoFn, method):
            msg = (
                f"{name} has {method}, which would be called amid elements that are carried over: "
                "leave carry_over out, or do that work in process or setup"
            )
            raise ValueError(msg)
    if DoFn.BundleFinalizerParam in get_function_args_defaults(dofn.process)[1]:
        msg = (
            f"{name} uses BundleFinalizerParam, whose callbacks would run before elements are "
            "complete that are carried over: leave carry_over out"
        )
        raise ValueError(msg)


def given(dofn: Any) -> tuple[DoFn, Concurrency] | None:
    """What ``Concurrently`` was given, or Beam's ``AsyncWrapper``, if that has made ``dofn``.

    Of an ``AsyncWrapper``, the DoFn comes without the wrapper's state and timers.
    """
    found: tuple[DoFn, Concurrency] | None = getattr(dofn, "__dict__", {}).get(_GIVEN)
    if found is not None:
        return found
    kinds = {(kind.__module__, kind.__name__) for kind in type(dofn).__mro__}
    if ("apache_beam.transforms.async_dofn", "AsyncWrapper") not in kinds:
        return None
    settings = Concurrency(dofn._parallelism)  # noqa: SLF001 - it does not show it otherwise
    uses_asyncio = getattr(dofn, "_use_asyncio", False)
    return (_WrappedCoroutines if uses_asyncio else _Wrapped)(dofn), settings


def _made(dofn: DoFn, settings: Concurrency) -> DoFn:
    kind = type(dofn)
    methods: dict[str, Any] = {"__reduce_ex__": _reduce, "process": _process(kind.process)}
    for name in LIFE:
        function = getattr(kind, name, None)
        if function is not None and (name == "teardown" or is_asynchronous(function)):
            methods[name] = _waiting(function, closes=name == "teardown")
    concurrent: Any = type(kind.__name__, (kind,), methods)
    made: DoFn = concurrent.__new__(concurrent)
    made.__dict__.update(vars(dofn))
    made.__dict__[_GIVEN] = dofn, settings
    return made


def _reduce(self: Any, _protocol: Any) -> Any:
    return _made, self.__dict__[_GIVEN]


def _as_synchronous(function: Any) -> Callable[[Any], Any]:
    """Gives a method the signature of ``function``, as Beam reads it."""

    def apply(method: Any) -> Any:
        method = functools.wraps(function)(method)
        signature = inspect.signature(function)
        kind = typing.get_origin(signature.return_annotation)
        if kind in _ASYNCHRONOUS:
            results, *_ = typing.get_args(signature.return_annotation)
            annotation = collections.abc.Iterable[results]  # type: ignore[valid-type]
            signature = signature.replace(return_annotation=annotation)
        method.__signature__ = signature
        return method

    return apply


def _waiting(function: Any, *, closes: bool = False) -> Any:
    @_as_synchronous(function)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = function(self, *args, **kwargs)
        try:
            return made if made is None else _wait(self, made, None)
        finally:
            loop = vars(self).pop(_LOOP, None) if closes else None
            if loop is not None:
                loop.close()

    return method


def _wait(dofn: Any, made: Any, timeout: float | None) -> Any:
    """Wait for what a method has made, in the event loop that the DoFn has on other runners."""
    loop = vars(dofn).get(_LOOP)
    if loop is None:
        loop = vars(dofn)[_LOOP] = asyncio.new_event_loop()
    return loop.run_until_complete(asyncio.wait_for(collect(made), timeout))


def _process(function: Any) -> Any:
    """``process`` for runners that know nothing of this: an element is complete when it returns.

    What a plain ``process`` returns is collected, so that errors of a generator are retried too.
    Its time limit is not kept: nothing interrupts it.
    """

    @_as_synchronous(function)
    def process(self: Any, element: Any, *args: Any, **kwargs: Any) -> Any:
        _, settings = vars(self)[_GIVEN]
        for attempt in range(settings.retries + 1):
            try:
                made = function(self, element, *args, **kwargs)
                if waits(function):
                    return _wait(self, made, settings.timeout)
                return made if made is None or isinstance(made, (str, bytes, dict)) else list(made)
            except Exception as error:
                if attempt < settings.retries:
                    time.sleep(settings.pause(attempt))
                elif settings.dead_letter:
                    return [letter(settings.dead_letter, element, error)]
                else:
                    raise
        return None

    return process


def letter(tag: str, element: Any, error: BaseException) -> TaggedOutput:
    """What a dead letter output gets, in the form that Beam's ``with_exception_handling`` has."""
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return TaggedOutput(tag, (element, (type(error), repr(error), lines)))


class _Wrapped(DoFn):
    """What an ``AsyncWrapper`` does to an element, without what it does to keep it."""

    def __init__(self, wrapper: Any) -> None:
        super().__init__()
        self._wrapper = wrapper

    def setup(self) -> Any:
        return self._wrapper._sync_fn.setup()  # noqa: SLF001

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Any:
        return self._wrapper.sync_fn_process(element, *args, **kwargs)

    def teardown(self) -> Any:
        return self._wrapper._sync_fn.teardown()  # noqa: SLF001


class _WrappedCoroutines(_Wrapped):
    """The same for one that uses asyncio."""

    async def process(self, element: Any, *args: Any, **kwargs: Any) -> Any:
        return await self._wrapper.async_fn_process(element, *args, **kwargs)
