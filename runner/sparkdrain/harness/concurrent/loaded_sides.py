"""Side inputs of a step with many elements in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam.portability.common_urns import side_inputs
from apache_beam.runners.worker.bundle_processor import StateBackedSideInputMap

if TYPE_CHECKING:
    from collections.abc import Mapping

_MULTIMAP = side_inputs.MULTIMAP.urn


class LoadedSideInputs(StateBackedSideInputMap):
    """A side input that is in memory before user code iterates over it or looks a key up in it.

    User code runs beside the slot's thread, and the state that has a stream's side inputs belongs
    to that thread. In batch jobs side inputs are in files, which any thread may read.
    """

    def __getitem__(self, window: Any) -> Any:
        """What user code gets for a window of its element; called in the slot's thread."""
        target = self._side_input_data.window_mapping_fn(window)
        if target not in self._cache:
            self._cache[target] = self._load(target, super().__getitem__(window))
        return self._cache[target]

    def _load(self, target: Any, view: Any) -> Any:
        handler, transform, tag = self._state_handler, self._transform_id, self._tag
        if handler.is_for_all_threads(transform, tag):
            return view
        if self._side_input_data.access_pattern != _MULTIMAP:
            # What is no iterable of Beam's was made of one just now: a list, a value.
            return list(view) if hasattr(view, "_state_handler") else view
        window, coder = self._target_window_coder.encode(target), self._element_coder
        values = handler.by_key(transform, tag, window, coder.value_coder())
        loaded = _LoadedMultimap(values, coder.key_coder().get_impl())
        return self._side_input_data.view_fn(loaded)


class _LoadedMultimap:
    """The values of each key. A key that is not there has none."""

    def __init__(self, values: Mapping[bytes, list[Any]], key_impl: Any) -> None:
        self._values = values
        self._encode = key_impl.encode_nested

    def __getitem__(self, key: Any) -> list[Any]:
        return self._values.get(self._encode(key), [])
