"""Elements from a harness that no coder has written."""

from __future__ import annotations

import pytest
from apache_beam.coders.coders import GlobalWindowCoder
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkdrain.fnapi.elements import Metadata, Output, encode_values, prefixed
from sparkdrain.fnapi.errors import HarnessGarbled

METADATA = Metadata(GlobalWindowCoder())
HEAD = METADATA.encode(WindowedValue(None, Timestamp(1), [GlobalWindow()]))


class Writer:
    def __init__(self) -> None:
        self.written: list = []

    def write(self, value, context) -> None:
        self.written.append(value)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("cut", [1, 3, 8])
def test_an_element_that_is_cut_short_is_refused_and_never_written(pairs, cut):
    writer = Writer()
    output = Output(writer, METADATA, pairs=pairs)
    value = prefixed(b"12345") + prefixed(b"67890")
    data = HEAD + value if pairs else encode_values(HEAD, [b"12345"])
    with pytest.raises(HarnessGarbled, match=r"cannot be read: .*harness of the SDK"):
        output.take(data + data[:-cut])
    assert writer.written == [(b"12345", b"67890") if pairs else b"12345"]


@pytest.mark.parametrize("data", [b"\xff" * 100, b"\x80" * 20, HEAD[:-1], HEAD])
def test_rubbish_is_refused(data):
    with pytest.raises(HarnessGarbled):
        Output(Writer(), METADATA, pairs=False).take(data)


@pytest.mark.parametrize("number", [0x10000, -1, 0x7FFFFFFF])
def test_more_windows_than_bytes_are_never_made(number):
    rubbish = HEAD[:8] + number.to_bytes(4, "big", signed=True) + HEAD[12:] + prefixed(b"1")
    with pytest.raises(HarnessGarbled, match=rf"windows, {rubbish[8:12].hex()}, .* 3 bytes after"):
        Output(Writer(), METADATA, pairs=False).take(rubbish)


@pytest.mark.parametrize("length", range(12))
def test_a_head_without_the_number_of_windows_is_never_read(length):
    with pytest.raises(ValueError, match="number of windows"):
        METADATA.decode(HEAD[:length], 0)
