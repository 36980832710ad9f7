"""Fetches the jars of Kafka and Hadoop, unless they are there."""

from __future__ import annotations

from kafka_jars import kafka_jars
from yarn_cluster import yarn_jars


def main() -> None:
    kafka_jars()
    yarn_jars()


if __name__ == "__main__":
    main()
