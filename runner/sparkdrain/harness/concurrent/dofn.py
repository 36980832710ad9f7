"""A DoFn of which many elements are in flight, as Beam's operations see it.

Beam still finds out what ``process`` is to be called with, side inputs and the like. The call that
it makes only hands that over. Other methods are called as Beam calls them, and waited for.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

from apache_beam.transforms.core import CallableWrapperDoFn
from apache_beam.transforms.userstate import is_stateful_dofn
from apache_beam.typehints.typecheck import AbstractDoFnWrapper

from sparkdrain.concurrency.concurrently import check_stateful, given
from sparkdrain.concurrency.results import LIFE, collect, is_asynchronous, waits_anywhere
from sparkdrain.concurrency.settings import Concurrency
from sparkdrain.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.concurrency.settings import AsyncStep
    from sparkdrain.harness.concurrent.loop import StepLoop


class ConcurrentDoFn:
    """How a DoFn is called.

    Attributes:
        dofn: an instance whose methods are replaced by those that Beam's operations call.
        settings: what users said of it.
        waits: whether methods are called in the event loop; else ``process`` in a pool of threads.
        process: the DoFn's own.
        has_state: whether it uses state or timers. That of an ``AsyncWrapper`` does not.
    """

    def __init__(self, dofn: Any, settings: Concurrency) -> None:
        self.dofn = dofn
        self.settings = settings
        self.process: Callable[..., Any] = dofn.process
        self.waits = waits_anywhere(dofn)
        self.has_state = is_stateful_dofn(dofn)
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
            loop: this process's event loop.
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

    if isinstance(own, types.MethodType):

        @functools.wraps(own.__func__)
        def method(_self: Any, *args: Any, **kwargs: Any) -> Any:
            return call(*args, **kwargs)

        setattr(dofn, name, types.MethodType(method, dofn))
    else:  # of Map, and the like

        @functools.wraps(own)
        def function(*args: Any, **kwargs: Any) -> Any:
            return call(*args, **kwargs)

        setattr(dofn, name, function)


def concurrent_dofn(dofn: Any, chosen: AsyncStep | None) -> ConcurrentDoFn | None:
    """How a DoFn is called if many elements of it may be in flight; None: one after the other.

    Args:
        dofn: as it was submitted.
        chosen: what an option says of the step.
    """
    made = given(dofn)
    if made is None:
        is_function = isinstance(dofn, CallableWrapperDoFn)
        if chosen is None and (is_function or not waits_anywhere(dofn)):
            return None
        made = dofn, Concurrency()
    dofn, settings = made
    if chosen is not None:
        settings = chosen.over(settings)
    if is_stateful_dofn(dofn):
        check_stateful(dofn, settings)
    return ConcurrentDoFn(dofn, settings)
