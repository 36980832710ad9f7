"""Has an SDK harness merge windows, by a window function that only it can call."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from apache_beam.coders import coders
from apache_beam.portability.api import beam_runner_api_pb2

from sparkdrain.fnapi.aside import StageAside
from sparkdrain.graph.beam import common_urns
from sparkdrain.graph.window_fns import merges
from sparkdrain.graph.wire import WireCoders

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.fnapi.harness import Outside
    from sparkdrain.fnapi.worker import SdkWorker

_MERGE_WINDOWS: Final[str] = common_urns.primitives.MERGE_WINDOWS.urn
# Keys with the same windows need one request for all of them.
_SETS_REMEMBERED: Final = 1024

Merged = tuple[tuple[bytes, tuple[bytes, ...]], ...]
"""New windows, each with those that it replaces; all encoded."""


class WindowMergers:
    """What merges windows in one slot, by a harness of the environment of their function.

    Args:
        outside: where harnesses are; None if the plan needs none.
        keep: whether the job needs the harness of an environment when the slot's part has ended.
    """

    def __init__(
        self,
        components: beam_runner_api_pb2.Components,
        outside: Outside | None,
        keep: Callable[[str], bool],
    ) -> None:
        self._components = components
        self._outside = outside
        self._keep = keep
        self._lent: dict[str, SdkWorker] = {}

    def of(
        self, strategy: beam_runner_api_pb2.WindowingStrategy, window: coders.Coder
    ) -> Callable[[Any], None] | None:
        """Stands for ``WindowFn.merge``; None if the window function itself can be called."""
        if not merges(strategy):
            return None
        return _Merge(window, lambda: self._stage(strategy))

    def _stage(self, strategy: beam_runner_api_pb2.WindowingStrategy) -> StageAside:
        outside, id_ = self._outside, strategy.environment_id
        assert outside is not None, id_
        environment = self._components.environments[id_]
        if id_ not in self._lent:
            self._lent[id_] = outside.harnesses.lend(outside.job, id_, environment)
        worker = self._lent[id_]
        outside.harnesses.await_connection(worker)
        own = beam_runner_api_pb2.Components()
        own.CopyFrom(self._components)
        windows, merged = WireCoders(own).merging(strategy)
        return StageAside(
            worker,
            own.coders,
            windows,
            merged,
            beam_runner_api_pb2.FunctionSpec(
                urn=_MERGE_WINDOWS, payload=strategy.window_fn.SerializeToString()
            ),
            capabilities=environment.capabilities,
        )

    def close(self) -> None:
        """Give harnesses back."""
        while self._lent:
            id_, worker = self._lent.popitem()
            assert self._outside is not None
            self._outside.harnesses.give_back(worker, keep=self._keep(id_))


class _Merge:
    """Merges the windows of a key."""

    def __init__(self, window: coders.Coder, stage: Callable[[], StageAside]) -> None:
        self._stage = cache(stage)
        several = coders.IterableCoder(window)
        nonce = coders.BytesCoder()
        self._window = window.get_impl()
        self._windows = coders.TupleCoder([nonce, several]).get_impl()
        replaced = coders.IterableCoder(coders.TupleCoder([window, several]))
        self._merged = coders.TupleCoder([nonce, coders.TupleCoder([several, replaced])]).get_impl()
        self._known = lru_cache(_SETS_REMEMBERED)(self._ask)

    def __call__(self, context: Any) -> None:
        """Merge the windows of a context, as ``WindowFn.merge`` does."""
        decode = self._window.decode
        # In an order of their own, so that windows that were merged once are known again.
        windows = tuple(sorted(map(self._window.encode, context.windows)))
        for result, consumed in self._known(windows):
            context.merge([decode(window) for window in consumed], decode(result))

    def _ask(self, windows: tuple[bytes, ...]) -> Merged:
        decode, encode = self._window.decode, self._window.encode
        data = self._windows.encode_nested((b"", [decode(window) for window in windows]))
        (answer,) = self._stage().run([data])
        _, (_, merged) = self._merged.decode_nested(answer)
        return tuple((encode(result), tuple(map(encode, consumed))) for result, consumed in merged)
