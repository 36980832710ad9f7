"""Fetches the jars of Kafka and Hadoop, unless they are there."""

from __future__ import annotations

import signal
import sys

from kafka_jars import kafka_jars
from yarn_cluster import yarn_jars


def main() -> None:
    # What is half done is taken away, and Ivy's process ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    kafka_jars()
    yarn_jars()


if __name__ == "__main__":
    main()
