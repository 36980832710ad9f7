"""Histories as tests make them: record after record, and from their bytes."""

from __future__ import annotations

import struct

from sparkdrain.io.kafka.outbox import History, grow


def grown(history, record):
    """The history with one more record, or its end, and the stamp of that as bytes."""
    _, stamp, state = grow(history.packed(), record)
    return unpacked(state), stamp


def unpacked(state):
    """What ``History.packed`` made bytes of."""
    return History(*struct.unpack(">q8s8s", state))
