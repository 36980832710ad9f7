"""Frames: what goes in comes out, whatever the sizes and however the bytes are cut."""

from __future__ import annotations

import socket
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkdrain.hosts.frames import (
    ConnectionEnded,
    FrameKind,
    FrameReader,
    FrameWriter,
    records_of,
    sender,
)

SIZES = st.one_of(st.integers(0, 100), st.integers(30_000, 70_000))
PAIRS = st.lists(st.tuples(st.integers(-(2**62), 2**62), SIZES), max_size=30)


def read_all(reader: FrameReader) -> list[tuple[int, bytes]]:
    pairs = []
    while True:
        kind, table, payload = reader.frame()
        if kind is FrameKind.END:
            return pairs
        pairs += records_of(table, payload)


@settings(deadline=None)
@given(PAIRS)
def test_records_come_out_as_they_went_in(shape) -> None:
    sent = [(tag, bytes([tag % 251]) * size) for tag, size in shape]
    left, right = socket.socketpair()
    with left, right:

        def send() -> None:
            writer = FrameWriter(sender(left))
            for tag, record in sent:
                writer.add(tag, record)
            writer.tell(FrameKind.END)

        thread = threading.Thread(target=send)
        thread.start()
        assert read_all(FrameReader(right)) == sent
        thread.join()


@settings(deadline=None)
@given(PAIRS, st.data())
def test_a_connection_that_ends_early_is_noticed(shape, data) -> None:
    whole = bytearray()
    writer = FrameWriter(whole.extend)
    for tag, size in shape[:3]:
        writer.add(tag, bytes(size % 1000))
    writer.tell(FrameKind.END)
    cut = data.draw(st.integers(0, len(whole) - 1))
    left, right = socket.socketpair()
    with right:
        with left:
            left.sendall(whole[:cut])
        with pytest.raises(ConnectionEnded):
            read_all(FrameReader(right))


def test_small_records_share_a_frame() -> None:
    sent: list[bytes] = []
    writer = FrameWriter(lambda data: sent.append(bytes(data)))
    for _ in range(1000):
        writer.add(0, b"record")
    writer.flush()
    assert len(sent) == 1
