"""Makes the harness of a stage that runs outside of the slot's process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkdrain.fnapi.harness import FnHarness
from sparkdrain.fnapi.per_source import HarnessPerSource
from sparkdrain.graph.environments import is_go

if TYPE_CHECKING:
    from sparkdrain.fnapi.harness import Wiring
    from sparkdrain.graph.plan import Stage
    from sparkdrain.harness.harness import Harness


def harness_outside(stage: Stage, wiring: Wiring) -> Harness:
    """An ``FnHarness``, or one for each source."""
    environment = wiring.components.environments[stage.environment]
    if len(stage.sources) > 1 and is_go(environment):
        return HarnessPerSource(stage, lambda part: FnHarness(part, wiring))
    return FnHarness(stage, wiring)
