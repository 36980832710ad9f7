"""Map and multimap state for stateful DoFns. Beam's Python SDK has no declaration of them.

A DoFn declares a map as it declares other state, and gets a ``MapRuntimeState``::

    class CountWords(beam.DoFn):
        COUNTS = MapStateSpec("counts", StrUtf8Coder(), VarIntCoder())

        def process(self, element, counts=beam.DoFn.StateParam(COUNTS)):
            counts.put(element[1], counts.get(element[1], 0) + 1)

Other runners refuse a pipeline with such state, or fail when they make the cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms.userstate import RuntimeState, StateSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apache_beam.coders import Coder
    from apache_beam.runners.pipeline_context import PipelineContext

_PROTOCOL: Final = "beam:user_state:multimap:v1"


class MapStateSpec(StateSpec):
    """Declares a map. Two keys are equal if their encodings are equal.

    Args:
        name: what the state is called, unique in the DoFn.
        key_coder: encodes keys; it has to be deterministic.
        value_coder: encodes values.
    """

    _KIND = "map_spec"

    def __init__(self, name: str, key_coder: Coder, value_coder: Coder) -> None:
        super().__init__(name, value_coder)
        self.key_coder = key_coder

    def to_runner_api(self, context: PipelineContext) -> beam_runner_api_pb2.StateSpec:
        """The declaration in the pipeline's proto."""
        spec = beam_runner_api_pb2.StateSpec(
            protocol=beam_runner_api_pb2.FunctionSpec(urn=_PROTOCOL)
        )
        declared = getattr(spec, self._KIND)
        declared.key_coder_id = context.coders.get_id(self.key_coder)
        declared.value_coder_id = context.coders.get_id(self.coder)
        return spec


class MultimapStateSpec(MapStateSpec):
    """Declares a multimap: each key has any number of values."""

    _KIND = "multimap_spec"


class MapRuntimeState(RuntimeState):
    """What user code gets for a ``MapStateSpec``."""

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of ``key``; ``default`` if it has none."""
        raise NotImplementedError

    def put(self, key: Any, value: Any) -> None:
        """Gives ``key`` a value, instead of the one that it has."""
        raise NotImplementedError

    def remove(self, key: Any) -> None:
        """Removes ``key`` and its value, if it is there."""
        raise NotImplementedError

    def keys(self) -> Iterable[Any]:
        """All keys, in the order of their encodings."""
        raise NotImplementedError

    def items(self) -> Iterable[tuple[Any, Any]]:
        """All keys and their values, in the order of the encoded keys."""
        raise NotImplementedError

    def clear(self) -> None:
        """Removes everything."""
        raise NotImplementedError


class MultimapRuntimeState(RuntimeState):
    """What user code gets for a ``MultimapStateSpec``."""

    def get(self, key: Any) -> Iterable[Any]:
        """The values of ``key``, in the order of putting."""
        raise NotImplementedError

    def put(self, key: Any, value: Any) -> None:
        """Adds a value to those of ``key``."""
        raise NotImplementedError

    def remove(self, key: Any) -> None:
        """Removes ``key`` and all its values, if it is there."""
        raise NotImplementedError

    def keys(self) -> Iterable[Any]:
        """The keys that have values, in the order of their encodings."""
        raise NotImplementedError

    def clear(self) -> None:
        """Removes everything."""
        raise NotImplementedError
