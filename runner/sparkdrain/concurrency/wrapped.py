"""What Beam's ``AsyncWrapper`` does to an element, without what it does to keep it."""

from __future__ import annotations

from typing import Any

from apache_beam import DoFn

from sparkdrain.concurrency.settings import Concurrency


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
