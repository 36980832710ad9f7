"""The rewrites of the pipeline, in the order in which they run.

A pass takes the stages (one leaf transform each) and Beam's transform context, and yields the
stages that take their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from sparkdrain.graph.beam import expand_sdf, pack_combiners
from sparkdrain.graph.passes.drop_side_inputs_of_exchanges import drop_side_inputs_of_exchanges
from sparkdrain.graph.passes.lift_combiners import lift_combiners
from sparkdrain.graph.passes.read_from_impulse import read_from_impulse
from sparkdrain.graph.passes.separate_barriers import separate_barriers
from sparkdrain.graph.passes.separate_test_streams import separate_test_streams
from sparkdrain.graph.passes.skip_exchanges import (
    skip_exchanges,
    skip_exchanges_before_groups,
)

Pass = Callable[[Iterable[Any], Any], Iterable[Any]]

PASSES: tuple[Pass, ...] = (
    read_from_impulse,
    separate_test_streams,
    pack_combiners,
    lift_combiners,
    expand_sdf,
    drop_side_inputs_of_exchanges,
    skip_exchanges,
    skip_exchanges_before_groups,
    separate_barriers,
)
IN_BATCH: Final = frozenset({skip_exchanges_before_groups})
"""Passes that streaming jobs do without: a checkpoint belongs to the edges of a plan."""
