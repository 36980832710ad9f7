"""A DoFn of which many elements are in flight, as Beam's operations see it.

Beam still finds out what ``process`` is to be called with, side inputs and the like. The call that
it makes only hands that over. Other methods are called as Beam calls them, and waited for.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

from apache_beam import DoFn
from apache_beam.transforms.core import CallableWrapperDoFn
from apache_beam.typehints.typecheck import AbstractDoFnWrapper

from sparkdrain.concurrency.concurrently import given
from sparkdrain.concurrency.results import LIFE, collect, is_asynchronous, waits_anywhere
from sparkdrain.concurrency.settings import Concurrency
from sparkdrain.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.concurrent.loop import StepLoop


class ConcurrentDoFn:
    """How a DoFn is called.

    Attributes:
        dofn: an instance whose methods are replaced by those that Beam's operations call.
        settings: what users said of it.
        waits: whether methods are called in the event loop; else ``process`` in a pool of threads.
        process: the DoFn's own.
    """

    def __init__(self, dofn: Any, settings: Concurrency) -> None:
        self.dofn = dofn
        self.settings = settings
        self.process: Callable[..., Any] = dofn.process
        self.waits = waits_anywhere(dofn)
        self._loop: StepLoop | None = None
        self._enter: Callable[[Any], Any] = lambda call: call
        self._hand_over: Callable[..., None] | None = None
        if isinstance(dofn, AbstractDoFnWrapper):
            msg = (
                f"{type(dofn.dofn).__name__} has many elements in flight, which "
                "--runtime_type_check cannot look at: leave that option out"
            )
            raise Unsupported(msg)
        _replace(dofn, "process", self._process)
        for name in LIFE:
            own = getattr(dofn, name, None)
            if isinstance(own, types.MethodType) and (self.waits or is_asynchronous(own)):
                _replace(dofn, name, functools.partial(self._call, own))

    def begin(
        self,
        loop: StepLoop,
        enter: Callable[[Any], Any],
        hand_over: Callable[..., None],
    ) -> None:
        """Where calls go from now on.

        Args:
            loop: of this process.
            enter: makes of a coroutine one that runs as the step.
            hand_over: takes what ``process`` is called with.
        """
        self._loop = loop
        self._enter = enter
        self._hand_over = hand_over

    def _process(self, *args: Any, **kwargs: Any) -> None:
        assert self._hand_over is not None
        self._hand_over(args, kwargs)

    def _call(self, own: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a method in the loop, where all of an asynchronous DoFn runs, and wait for it."""

        async def called() -> Any:
            return await collect(own(*args, **kwargs))

        assert self._loop is not None
        return self._loop.wait(self._enter(called()))


def _replace(dofn: Any, name: str, call: Callable[..., Any]) -> None:
    """Have a method call ``call``, with the parameters that it has."""
    own = getattr(dofn, name)

    @functools.wraps(own.__func__)
    def method(_self: Any, *args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    setattr(dofn, name, types.MethodType(method, dofn))


def concurrent_dofn(dofn: Any, chosen: Concurrency | None) -> ConcurrentDoFn | None:
    """How a DoFn is called if many elements of it may be in flight; None: one after the other.

    Args:
        dofn: as it was submitted.
        chosen: what an option says of its step; it counts more than what code says.
    """
    made = given(dofn)
    if made is not None:
        return ConcurrentDoFn(made[0], chosen or made[1])
    wrapped = of_wrapper(dofn)
    if wrapped is not None:
        return ConcurrentDoFn(wrapped[0], chosen or wrapped[1])
    if chosen is not None:
        return ConcurrentDoFn(dofn, chosen)
    if not isinstance(dofn, CallableWrapperDoFn) and waits_anywhere(dofn):
        return ConcurrentDoFn(dofn, Concurrency())
    return None


def of_wrapper(dofn: Any) -> tuple[DoFn, Concurrency] | None:
    """The DoFn in Beam's ``AsyncWrapper``, without its state and timers, and the parallelism."""
    kinds = {(kind.__module__, kind.__name__) for kind in type(dofn).__mro__}
    if ("apache_beam.transforms.async_dofn", "AsyncWrapper") not in kinds:
        return None
    settings = Concurrency(dofn._parallelism)  # noqa: SLF001 - it does not show it otherwise
    if getattr(dofn, "_use_asyncio", False):
        return _WrappedCoroutines(dofn), settings
    return _Wrapped(dofn), settings


class _Wrapped(DoFn):
    """What an ``AsyncWrapper`` does to an element, without what it does to keep it."""

    def __init__(self, wrapper: Any) -> None:
        super().__init__()
        self._wrapper = wrapper

    def setup(self) -> None:
        self._wrapper._sync_fn.setup()  # noqa: SLF001

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Any:
        return self._wrapper.sync_fn_process(element, *args, **kwargs)

    def teardown(self) -> None:
        self._wrapper._sync_fn.teardown()  # noqa: SLF001


class _WrappedCoroutines(DoFn):
    """The same for one that uses asyncio."""

    def __init__(self, wrapper: Any) -> None:
        super().__init__()
        self._wrapper = wrapper

    def setup(self) -> Any:
        return self._wrapper._sync_fn.setup()  # noqa: SLF001

    async def process(self, element: Any, *args: Any, **kwargs: Any) -> Any:
        return await self._wrapper.async_fn_process(element, *args, **kwargs)

    def teardown(self) -> Any:
        return self._wrapper._sync_fn.teardown()  # noqa: SLF001
