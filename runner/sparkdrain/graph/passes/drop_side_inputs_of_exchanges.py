"""An exchange has one input: the side inputs that SDF expansion copied onto it go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkdrain.graph import urns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def drop_side_inputs_of_exchanges(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Yield all stages; every exchange keeps just the input whose elements it passes on."""
    pcollections = context.components.pcollections
    for stage in stages:
        transform = stage.transforms[0]
        if transform.spec.urn in urns.EXCHANGES and len(transform.inputs) > 1:
            (output,) = transform.outputs.values()
            coder = pcollections[output].coder_id
            for tag, pcollection in list(transform.inputs.items()):
                if pcollections[pcollection].coder_id != coder:
                    del transform.inputs[tag]
        yield stage
