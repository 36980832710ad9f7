"""Every type of Beam's metrics is put together by its law, whatever comes first."""

from __future__ import annotations

import itertools
import logging
import math
from functools import reduce

import pytest
from apache_beam import coders
from apache_beam.metrics import monitoring_infos
from apache_beam.metrics.cells import BoundedTrieData, DistributionData, GaugeData
from apache_beam.portability.api import metrics_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkdrain.metrics import laws
from sparkdrain.metrics.laws import LAWS, joined, since
from sparkdrain.metrics.merge import Tally, merge, name_of
from sparkdrain.metrics.shown import shown

TYPES = metrics_pb2.MonitoringInfoTypeUrns.Enum
INT, DOUBLE = coders.VarIntCoder(), coders.FloatCoder()
TEXTS = coders.IterableCoder(coders.StrUtf8Coder())
INTS, DOUBLES = coders.IterableCoder(INT), coders.IterableCoder(DOUBLE)

ints = st.integers(-(1 << 40), 1 << 40)
# Sums of these are exact.
doubles = ints.map(lambda number: number / 8)
orders = st.one_of(doubles, st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan]))


def urn_of(name):
    return getattr(laws._TYPES, name).urn


def distribution(number, values):
    parts = (len(values), sum(values), min(values), max(values)) if values else (0, 0, 0, 0)
    return monitoring_infos._encode_distribution(number, *parts)


def latest(number, time, value):
    return coders.VarIntCoder().encode(time) + number.encode(value)


def trie(paths, bound):
    data = BoundedTrieData(bound=bound)
    for path in paths:
        data.add(path)
    return data.to_proto().SerializeToString()


def histogram(options, counts, beyond):
    value = metrics_pb2.HistogramValue(
        count=sum(counts) + beyond, bucket_options=options, bucket_counts=counts
    )
    return value.SerializeToString()


LINEAR = metrics_pb2.HistogramValue.BucketOptions(
    linear={"number_of_buckets": 4, "width": 2.0, "start": -1.0}
)
EXPONENTIAL = metrics_pb2.HistogramValue.BucketOptions(
    exponential={"number_of_buckets": 4, "scale": 1}
)
times = st.integers(0, 3)
paths = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("cd")), max_size=4)

PAYLOADS = {
    "SUM_INT64_TYPE": st.integers(-(1 << 63), (1 << 63) - 1).map(INT.encode),
    "SUM_DOUBLE_TYPE": doubles.map(DOUBLE.encode),
    "DISTRIBUTION_INT64_TYPE": st.one_of(
        st.lists(ints, max_size=3).map(lambda values: distribution(INT, values)), st.just(b"\0")
    ),
    "DISTRIBUTION_DOUBLE_TYPE": st.one_of(
        st.lists(doubles, max_size=3).map(lambda values: distribution(DOUBLE, values)),
        st.just(b"\0"),
    ),
    "LATEST_INT64_TYPE": st.builds(lambda time, value: latest(INT, time, value), times, ints),
    "LATEST_DOUBLE_TYPE": st.builds(lambda time, value: latest(DOUBLE, time, value), times, orders),
    "TOP_N_INT64_TYPE": st.lists(ints, max_size=3).map(INTS.encode),
    "TOP_N_DOUBLE_TYPE": st.lists(orders, max_size=3).map(DOUBLES.encode),
    "BOTTOM_N_INT64_TYPE": st.lists(ints, max_size=3).map(INTS.encode),
    "BOTTOM_N_DOUBLE_TYPE": st.lists(orders, max_size=3).map(DOUBLES.encode),
    "PROGRESS_TYPE": st.lists(doubles, max_size=3).map(DOUBLES.encode),
    "SET_STRING_TYPE": st.lists(st.text(max_size=3), max_size=3, unique=True).map(TEXTS.encode),
    "BOUNDED_TRIE_TYPE": st.builds(trie, paths, st.integers(5, 100)),
    "HISTOGRAM": st.builds(
        histogram, st.just(EXPONENTIAL), st.lists(st.integers(0, 9), max_size=4), st.integers(0, 3)
    ),
}


def told(name, payload):
    """A payload as something that can be compared."""
    if name == "BOUNDED_TRIE_TYPE":
        proto = metrics_pb2.BoundedTrie.FromString(payload)
        return proto.bound, set(BoundedTrieData.from_proto(proto).flattened())
    return payload


def of_type(name, payload):
    return metrics_pb2.MonitoringInfo(
        urn="beam:metric:user", type=urn_of(name), labels={"NAME": "n"}, payload=payload
    )


def test_every_type_that_beam_defines_has_a_law_and_payloads_here():
    urns = {
        value.name: value.GetOptions().Extensions[_beam_urn()] for value in TYPES.DESCRIPTOR.values
    }
    assert set(urns.values()) == LAWS.keys(), "a type of Beam's is not handled"
    assert urns.keys() == PAYLOADS.keys()


def _beam_urn():
    from apache_beam.portability.api import beam_runner_api_pb2  # noqa: PLC0415

    return beam_runner_api_pb2.beam_urn


@pytest.mark.parametrize("name", PAYLOADS)
@settings(max_examples=30)
@given(data=st.data())
def test_payloads_come_in_any_order_and_any_grouping(name, data):
    one, two, three = (data.draw(PAYLOADS[name]) for _ in range(3))

    def join(first, second):
        return joined(urn_of(name), first, second)

    assert told(name, join(join(one, two), three)) == told(name, join(one, join(two, three)))
    assert told(name, join(one, two)) == told(name, join(two, one))


@pytest.mark.parametrize("name", PAYLOADS)
@settings(max_examples=30)
@given(data=st.data())
def test_what_was_added_makes_with_what_was_there_what_is_there(name, data):
    one, two = (data.draw(PAYLOADS[name]) for _ in range(2))
    before = joined(urn_of(name), one, one)
    after = joined(urn_of(name), before, two)
    added = since(urn_of(name), before, after)
    assert told(name, joined(urn_of(name), before, added)) == told(name, after)


@pytest.mark.parametrize(
    ("name", "before", "after", "added"),
    [
        ("SUM_INT64_TYPE", INT.encode(40), INT.encode(42), INT.encode(2)),
        ("SUM_INT64_TYPE", INT.encode(40), INT.encode(40), INT.encode(0)),
        (
            "DISTRIBUTION_INT64_TYPE",
            distribution(INT, [3, 9]),
            distribution(INT, [3, 9]),
            distribution(INT, []),
        ),
        (
            "DISTRIBUTION_DOUBLE_TYPE",
            distribution(DOUBLE, [3, 9]),
            distribution(DOUBLE, [3, 9, 5]),
            monitoring_infos._encode_distribution(DOUBLE, 1, 5, 3, 9),
        ),
        (
            "TOP_N_INT64_TYPE",
            INTS.encode([5, 5, 1]),
            INTS.encode([7, 5, 5, 5, 1]),
            INTS.encode([7, 5]),
        ),
        (
            "HISTOGRAM",
            histogram(LINEAR, [1], 2),
            histogram(LINEAR, [1, 4], 3),
            histogram(LINEAR, [0, 4], 1),
        ),
    ],
)
def test_what_was_added_is_told_alone(name, before, after, added):
    assert since(urn_of(name), before, after) == added


def test_what_was_added_is_all_that_came_last_if_nobody_can_tell():
    assert since("beam:metrics:of_the_future:v1", b"1", b"2") == b"2"
    assert since(urn_of("SUM_INT64_TYPE"), b"", INT.encode(3)) == INT.encode(3)


def several(coder, *lists):
    return list(map(coder.encode, lists))


WHOLES = [
    ("SUM_INT64_TYPE", [INT.encode(n) for n in (1, -2, 40)], INT.encode(39)),
    ("SUM_INT64_TYPE", [INT.encode((1 << 63) - 1), INT.encode(1)], INT.encode(-(1 << 63))),
    ("SUM_DOUBLE_TYPE", [DOUBLE.encode(n) for n in (0.5, 1.25, -3.0)], DOUBLE.encode(-1.25)),
    (
        "DISTRIBUTION_INT64_TYPE",
        [distribution(INT, [3, 9]), b"\0", distribution(INT, [-5])],
        distribution(INT, [3, 9, -5]),
    ),
    (
        "DISTRIBUTION_INT64_TYPE",
        [monitoring_infos._encode_distribution(INT, 0, 7, 7, 7), distribution(INT, [9])],
        distribution(INT, [9]),
    ),
    (
        "DISTRIBUTION_DOUBLE_TYPE",
        [distribution(DOUBLE, [0.5, 2.5]), distribution(DOUBLE, [-1.5]), b"\0"],
        distribution(DOUBLE, [0.5, 2.5, -1.5]),
    ),
    ("LATEST_INT64_TYPE", [latest(INT, 2, 1), latest(INT, 1, 5)], latest(INT, 2, 1)),
    ("LATEST_DOUBLE_TYPE", [latest(DOUBLE, 1, 9.5), latest(DOUBLE, 2, 1)], latest(DOUBLE, 2, 1)),
    ("TOP_N_INT64_TYPE", several(INTS, [1, 5], [5, 3]), INTS.encode([5, 5, 3, 1])),
    ("TOP_N_DOUBLE_TYPE", several(DOUBLES, [0.5], [1.5]), DOUBLES.encode([1.5, 0.5])),
    ("BOTTOM_N_INT64_TYPE", several(INTS, [5], [3, 1]), INTS.encode([1, 3, 5])),
    ("BOTTOM_N_DOUBLE_TYPE", several(DOUBLES, [2.5], [0.5]), DOUBLES.encode([0.5, 2.5])),
    ("PROGRESS_TYPE", several(DOUBLES, [1.5, 2.0], [], [0.5]), DOUBLES.encode([4.0])),
    ("SET_STRING_TYPE", several(TEXTS, ["b", "a"], ["c", "a"]), TEXTS.encode(["a", "b", "c"])),
    (
        "HISTOGRAM",
        [histogram(LINEAR, [1, 2], 1), histogram(LINEAR, [0, 3, 4, 5], 0)],
        histogram(LINEAR, [1, 5, 4, 5], 1),
    ),
    (
        "HISTOGRAM",
        [histogram(EXPONENTIAL, [1], 0), histogram(EXPONENTIAL, [1, 1], 2)],
        histogram(EXPONENTIAL, [2, 1], 2),
    ),
]


@pytest.mark.parametrize(("name", "payloads", "together"), WHOLES)
def test_the_whole_is_what_beam_defines(name, payloads, together):
    for some in itertools.permutations(payloads):
        assert reduce(lambda one, other: joined(urn_of(name), one, other), some) == together


def test_not_a_number_shows_in_both_ends_of_a_distribution():
    both = [distribution(DOUBLE, [math.nan]), distribution(DOUBLE, [1.0])]
    for some in (both, both[::-1]):
        found = joined(urn_of("DISTRIBUTION_DOUBLE_TYPE"), *some)
        count, *rest = monitoring_infos._decode_distribution(DOUBLE, found)
        assert count == 2
        assert all(map(math.isnan, rest))


def test_a_trie_keeps_its_bound_and_covers_all_that_was_added():
    many = [(f"{first}", f"{second}") for first in range(10) for second in range(10)]
    payloads = [trie(many[n::10], 20) for n in range(10)]
    whole = reduce(lambda one, other: joined(urn_of("BOUNDED_TRIE_TYPE"), one, other), payloads)
    proto = metrics_pb2.BoundedTrie.FromString(whole)
    found = BoundedTrieData.from_proto(proto)
    assert proto.bound == 20
    assert found.size() <= 20
    assert all(found.contains(path) for path in many)


def test_a_trie_without_a_bound_has_that_of_beam():
    bare = metrics_pb2.BoundedTrie(singleton=["a"]).SerializeToString()
    whole = joined(urn_of("BOUNDED_TRIE_TYPE"), bare, trie([("b", "c")], 0))
    assert metrics_pb2.BoundedTrie.FromString(whole).bound == 100


def test_a_set_of_texts_has_a_bound_and_the_same_texts_in_any_order():
    payloads = [TEXTS.encode([f"{n}" * 300_000]) for n in range(6)]
    urn = urn_of("SET_STRING_TYPE")
    found = {
        reduce(lambda one, other: joined(urn, one, other), some)
        for some in (payloads, payloads[::-1], payloads[3:] + payloads[:3])
    }
    assert found == {TEXTS.encode([f"{n}" * 300_000 for n in range(4)])}


def test_the_largest_values_have_a_bound():
    urn = urn_of("TOP_N_INT64_TYPE")
    whole = joined(urn, INTS.encode(range(900)), INTS.encode(range(900, 1800)))
    assert INTS.decode(whole) == list(range(1799, 799, -1))


def test_histograms_of_other_buckets_are_metrics_of_their_own():
    infos = [
        of_type("HISTOGRAM", histogram(options, [1], 0))
        for options in (LINEAR, EXPONENTIAL, LINEAR, EXPONENTIAL, LINEAR)
    ]
    found = [metrics_pb2.HistogramValue.FromString(info.payload) for info in merge(infos)]
    assert {(each.bucket_options.WhichOneof("bucket_type"), each.count) for each in found} == {
        ("linear", 3),
        ("exponential", 2),
    }


def test_of_one_name_types_are_kept_apart():
    counter = of_type("SUM_INT64_TYPE", INT.encode(1))
    double = of_type("SUM_DOUBLE_TYPE", DOUBLE.encode(0.5))
    found = {info.type: info.payload for info in merge([counter, double, counter, double])}
    assert found == {counter.type: INT.encode(2), double.type: DOUBLE.encode(1.0)}


def test_what_was_asked_for_does_not_change_when_more_comes():
    together = Tally()
    one = of_type("SUM_INT64_TYPE", INT.encode(1))
    together.take(name_of(one), one, one.payload)
    before = together.infos()
    together.take(name_of(one), one, one.payload)
    assert [info.payload for info in before] == [INT.encode(1)]
    assert [info.payload for info in together.infos()] == [INT.encode(2)]


def test_a_type_that_nobody_knows_has_the_last_payload_and_is_told_once(caplog):
    laws._tell_of_type.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert joined("beam:metrics:of_the_future:v1", b"1", b"2") == b"2"
        assert joined("beam:metrics:of_the_future:v1", b"2", b"3") == b"3"
    (told_once,) = caplog.records
    assert "beam:metrics:of_the_future:v1" in told_once.getMessage()


@pytest.mark.parametrize("name", sorted(PAYLOADS.keys() - {"HISTOGRAM", "BOUNDED_TRIE_TYPE"}))
def test_a_payload_that_cannot_be_read_counts_for_nothing(name, caplog):
    laws._tell_of_payload.cache_clear()
    good = {
        "DISTRIBUTION_INT64_TYPE": distribution(INT, [4]),
        "DISTRIBUTION_DOUBLE_TYPE": distribution(DOUBLE, [4]),
        "LATEST_INT64_TYPE": latest(INT, 1, 1),
        "LATEST_DOUBLE_TYPE": latest(DOUBLE, 1, 1),
        "SUM_INT64_TYPE": INT.encode(3),
        "SUM_DOUBLE_TYPE": DOUBLE.encode(3),
    }.get(name, TEXTS.encode(["a"]) if "STRING" in name else INTS.encode([]))
    bad = b"\0\0\0\x01" if good == INTS.encode([]) else good[:-1] + b"\x80"
    bad = bad[:-1] if "DOUBLE_TYPE" in name and len(bad) > 4 else bad
    with caplog.at_level(logging.WARNING):
        assert joined(urn_of(name), good, bad) == good
        assert joined(urn_of(name), bad, good) == good
    (told_once,) = caplog.records
    assert urn_of(name) in told_once.getMessage()


@pytest.mark.parametrize("number", [INT, DOUBLE])
def test_a_client_can_read_a_distribution_of_nothing(number):
    name = "DISTRIBUTION_INT64_TYPE" if number is INT else "DISTRIBUTION_DOUBLE_TYPE"
    (info,) = shown([of_type(name, b"\0")])
    assert monitoring_infos._decode_distribution(number, info.payload) == (0, 0, 0, 0)


def test_texts_and_numbers_of_an_iterable_without_a_count_are_read():
    unknown = b"\xff\xff\xff\xff\x02\x01a\x01b\x01\x01c\x00"
    found = joined(urn_of("SET_STRING_TYPE"), unknown, TEXTS.encode([]))
    assert TEXTS.decode(found) == ["a", "b", "c"]


def test_payloads_are_encoded_as_beams_own_python_encodes_them():
    gauge = monitoring_infos.int64_user_gauge("ns", "g", GaugeData(7, timestamp=3))
    assert gauge.payload == latest(INT, 3000, 7)
    data = DistributionData(5, 2, 1, 4)
    assert monitoring_infos.int64_user_distribution("ns", "d", data).payload == distribution(
        INT, [1, 4]
    )
