from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkdrain.graph.translate import assign_levels
from tests.support.law import law


@st.composite
def graphs(draw):
    """Nodes in topological order; each reads from some of those before it."""
    nodes = {}
    for number in range(draw(st.integers(0, 12))):
        producers = st.dictionaries(st.sampled_from([*nodes]), st.integers(0, 1), max_size=4)
        nodes[f"n{number}"] = draw(producers) if nodes else {}
    return nodes


def consumers_of(nodes, name):
    return [(node, inputs[name]) for node, inputs in nodes.items() if name in inputs]


def depth(nodes):
    """For each node, the largest number of barriers on any way to it, by trying all ways."""

    def deepest(node):
        ways = [deepest(producer) + barriers for producer, barriers in nodes[node].items()]
        return max(ways, default=0)

    return {node: deepest(node) for node in nodes}


@law(40)
@given(graphs())
def test_every_edge_has_its_barrier(nodes):
    levels = assign_levels(nodes)
    for node, inputs in nodes.items():
        for producer, barriers in inputs.items():
            assert levels[node] >= levels[producer] + barriers


@law(40)
@given(graphs())
def test_every_node_gets_a_level_and_none_is_negative(nodes):
    levels = assign_levels(nodes)
    assert levels.keys() == nodes.keys()
    assert all(level >= 0 for level in levels.values())


@law(40)
@given(graphs())
def test_no_job_gets_more_levels_than_its_longest_way_needs(nodes):
    levels = assign_levels(nodes)
    assert max(levels.values(), default=0) == max(depth(nodes).values(), default=0)


@given(graphs())
def test_a_node_is_as_late_as_its_consumers_allow(nodes):
    levels = assign_levels(nodes)
    for node in nodes:
        allowed = [levels[name] - barriers for name, barriers in consumers_of(nodes, node)]
        if allowed:
            assert levels[node] == min(allowed)


@given(graphs())
def test_a_node_that_nobody_reads_is_as_early_as_its_inputs_allow(nodes):
    levels, earliest = assign_levels(nodes), depth(nodes)
    for node in nodes:
        if not consumers_of(nodes, node):
            assert levels[node] == earliest[node]


@given(graphs(), st.randoms())
def test_levels_depend_on_the_graph_alone(nodes, random):
    """Any topological order gives the same."""
    left, ordered = list(nodes), {}
    while left:
        ready = [node for node in left if nodes[node].keys() <= ordered.keys()]
        node = random.choice(ready)
        ordered[node] = nodes[node]
        left.remove(node)
    assert assign_levels(ordered) == assign_levels(nodes)
