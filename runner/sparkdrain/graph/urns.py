"""The URNs the runner knows, grouped by what it does with them."""

from __future__ import annotations

from sparkdrain.graph.beam import common_urns, python_urns

IMPULSE: str = common_urns.primitives.IMPULSE.urn
FLATTEN: str = common_urns.primitives.FLATTEN.urn
GROUP_BY_KEY: str = common_urns.primitives.GROUP_BY_KEY.urn
PAR_DO: str = common_urns.primitives.PAR_DO.urn
ASSIGN_WINDOWS: str = common_urns.primitives.ASSIGN_WINDOWS.urn
TEST_STREAM: str = common_urns.primitives.TEST_STREAM.urn
READ: str = common_urns.deprecated_primitives.READ.urn
IDENTITY = "beam:dofn:identity:0.1"
IMPULSE_READ: str = python_urns.IMPULSE_READ_TRANSFORM
RESHUFFLE: str = common_urns.composites.RESHUFFLE.urn
PRECOMBINE: str = common_urns.combine_components.COMBINE_PER_KEY_PRECOMBINE.urn
MERGE_ACCUMULATORS: str = common_urns.combine_components.COMBINE_PER_KEY_MERGE_ACCUMULATORS.urn
EXTRACT_OUTPUTS: str = common_urns.combine_components.COMBINE_PER_KEY_EXTRACT_OUTPUTS.urn
PROCESS_RESTRICTIONS: str = common_urns.sdf_components.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.urn
TRUNCATE_RESTRICTIONS: str = common_urns.sdf_components.TRUNCATE_SIZED_RESTRICTION.urn

# An exchange moves elements between slots and leaves them as they are.
EXCHANGES = frozenset(
    {
        RESHUFFLE,
        "beam:transform:redistribute_by_key:v1",
        "beam:transform:redistribute_arbitrarily:v1",
    }
)
# Transforms without input, whose output the runner provides.
ROOTS = frozenset({IMPULSE, TEST_STREAM})
# Transforms that the runner carries out itself, between two levels.
RUNNER = EXCHANGES | {GROUP_BY_KEY}

PAR_DO_LIKE = frozenset(
    {
        PAR_DO,
        common_urns.sdf_components.PAIR_WITH_RESTRICTION.urn,
        common_urns.sdf_components.SPLIT_AND_SIZE_RESTRICTIONS.urn,
        TRUNCATE_RESTRICTIONS,
        PROCESS_RESTRICTIONS,
    }
)
# What Beam's Python harness can carry out (its operation factory knows the URN).
IN_HARNESS = PAR_DO_LIKE | {
    FLATTEN,
    ASSIGN_WINDOWS,
    IDENTITY,
    IMPULSE_READ,
    PRECOMBINE,
    MERGE_ACCUMULATORS,
    EXTRACT_OUTPUTS,
    common_urns.combine_components.COMBINE_PER_KEY_CONVERT_TO_ACCUMULATORS.urn,
    common_urns.combine_components.COMBINE_GROUPED_VALUES.urn,
    common_urns.primitives.MAP_WINDOWS.urn,
    common_urns.primitives.MERGE_WINDOWS.urn,
    common_urns.primitives.TO_STRING.urn,
}

# Our own: the two ends of an edge inside a stage's bundle descriptor.
SOURCE = "sparkdrain:source:v1"
SINK = "sparkdrain:sink:v1"

# Beam's names of the same, at a data channel.
CHANNEL_SOURCE = "beam:runner:source:v1"
CHANNEL_SINK = "beam:runner:sink:v1"
