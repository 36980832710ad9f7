"""How long a drain, and what it does, may take; and what follows if it takes longer. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, Literal, Protocol

Policy = Literal["fail", "cancel", "wait"]
"""What becomes of a job in which something takes longer than it may. One that waits is told of."""


class Limiting(Protocol):
    """The options that limit a drain."""

    @property
    def drain_element_limit_ms(self) -> int:
        """The milliseconds of ``LimitKind.ELEMENT``; 0 or less: no limit."""

    @property
    def drain_watermark_limit_ms(self) -> int:
        """The milliseconds of ``LimitKind.WATERMARK``; 0 or less: no limit."""

    @property
    def drain_limit_ms(self) -> int:
        """The milliseconds of ``LimitKind.DRAIN``; 0 or less: no limit."""

    @property
    def drain_limit_policy(self) -> Policy:
        """What follows if one of them is exceeded."""


class LimitKind(enum.Enum):
    """What is limited; the value is the option that limits it. Each has its own limit, or none."""

    ELEMENT = "--drain_element_limit_ms"
    """What a slot does in one round with the elements that it was sent."""
    WATERMARK = "--drain_watermark_limit_ms"
    """What a slot does in one round because time goes on: firing windows and timers."""
    DRAIN = "--drain_limit_ms"
    """A drain from the request to the end."""


_DOING: Final = {
    LimitKind.ELEMENT: "has worked on the elements of one round",
    LimitKind.WATERMARK: "has been firing windows and timers in one round",
    LimitKind.DRAIN: "has been draining",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one job, in seconds; None where there is none.

    Attributes:
        element: see ``LimitKind.ELEMENT``.
        watermark: see ``LimitKind.WATERMARK``.
        drain: see ``LimitKind.DRAIN``.
        policy: what follows if any of them is exceeded.
    """

    element: float | None = None
    watermark: float | None = None
    drain: float | None = None
    policy: Policy = "fail"

    @classmethod
    def of(cls, element_ms: int, watermark_ms: int, drain_ms: int, policy: Policy) -> Limits:
        """Limits as options say them; zero and less mean: no limit."""
        return cls(_seconds(element_ms), _seconds(watermark_ms), _seconds(drain_ms), policy)

    @classmethod
    def in_options(cls, settings: Limiting) -> Limits:
        """The limits of a job, as its settings say them."""
        return cls.of(
            settings.drain_element_limit_ms,
            settings.drain_watermark_limit_ms,
            settings.drain_limit_ms,
            settings.drain_limit_policy,
        )

    def seconds(self, kind: LimitKind) -> float | None:
        """The limit of this kind, and of no other."""
        match kind:
            case LimitKind.ELEMENT:
                return self.element
            case LimitKind.WATERMARK:
                return self.watermark
            case LimitKind.DRAIN:
                return self.drain

    def due(self, kind: LimitKind, told: int = 0) -> float | None:
        """Seconds after which something of this kind has taken too long; None: never.

        Args:
            kind: what it is.
            told: how often that was told already; each time takes twice as long as the last.
        """
        limit = self.seconds(kind)
        return None if limit is None else limit * 2.0**told

    def told(self, kind: LimitKind, who: str, taken: float, more: str = "") -> str:
        """What is said about it.

        Args:
            kind: what it is.
            who: the job, or the slot and what it was at.
            taken: seconds.
            more: what else is known, a sentence.
        """
        doing = f"{who} {_DOING[kind]} for {taken:.1f} s, and {kind.value} allows"
        limit = self.seconds(kind) or 0.0
        return f"{doing} {limit:g} s (--drain_limit_policy={self.policy}). {more}".strip()


def _seconds(milliseconds: int) -> float | None:
    return milliseconds / 1000 if milliseconds > 0 else None
