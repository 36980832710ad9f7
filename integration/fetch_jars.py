"""Fetches the jars of Kafka, unless they are there."""

from __future__ import annotations

import signal
import sys

from kafka_jars import kafka_jars


def main() -> None:
    # What is half done is taken away, and Ivy's process ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    kafka_jars()


if __name__ == "__main__":
    main()
