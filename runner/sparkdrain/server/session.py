"""Which Spark session a driver process has, or is about to start."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sparkdrain import redaction

if TYPE_CHECKING:
    from typing_extensions import Self

    from sparkdrain.options import JobSettings


@dataclass(frozen=True, slots=True)
class Session:
    """What a Spark session is made from, as ``JobSettings`` has it.

    Two jobs of equal sessions can have the same driver.
    """

    spark_master_url: str | None
    spark_conf: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, settings: JobSettings) -> Self:
        """The session that a job needs."""
        return cls(settings.spark_master_url, settings.spark_conf)

    def encode(self) -> bytes:
        """One line of JSON."""
        return json.dumps([self.spark_master_url, self.spark_conf]).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Self:
        """The inverse of ``encode``."""
        master, conf = json.loads(line)
        redaction.remember(conf)
        return cls(master, tuple((key, value) for key, value in conf))
