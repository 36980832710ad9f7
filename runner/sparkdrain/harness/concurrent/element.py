"""One element of a step that is in flight, or waits for that, or is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from sparkdrain.harness.keyed.keys_in_flight import KeyTurn


class ElementInFlight:
    """An element from its arrival until its results have left.

    Attributes:
        context: has the timestamp, windows and pane that its results get.
        args, kwargs: what ``process`` is called with.
        call: the callback of a timer that fires; None: ``process``.
        turn: of the key that it has state of, if any.
        key: elements of one key are processed one after the other; None: it has none.
        results: what was made of it, if it is complete.
        is_complete: whether it is.
        began: when the present attempt began, in seconds of the loop's clock.
        is_armed: whether that attempt is under a time limit.
        is_overdue: whether that limit has ended the attempt.
        task: what runs the attempt.
        made: the coroutine or generator that user code has made for it.
        thread: where it runs, if in a thread of the pool.
        failed: how many attempts have failed.
        updates: of metrics, which count when its results leave; None: they count at once.
        number: under which it is kept beyond its bundle; None: it is not.
    """

    __slots__ = (
        "args",
        "began",
        "call",
        "context",
        "failed",
        "is_armed",
        "is_complete",
        "is_overdue",
        "key",
        "kwargs",
        "made",
        "number",
        "results",
        "task",
        "thread",
        "turn",
        "updates",
    )

    def __init__(self, context: Any, args: tuple[Any, ...], kwargs: Any, key: Any = None) -> None:
        self.context = context
        self.args = args
        self.kwargs = kwargs
        self.key = key
        self.call: Callable[..., Any] | None = None
        self.turn: KeyTurn | None = None
        self.results: Any = None
        self.is_complete = False
        self.began = 0.0
        self.is_armed = False
        self.is_overdue = False
        self.task: asyncio.Task[None] | None = None
        self.made: Any = None
        self.thread: int | None = None
        self.failed = 0
        self.number: int | None = None
        self.updates: list[tuple[Any, Any]] | None = None

    @property
    def windowed(self) -> Any:
        """The element as it came in: a windowed value."""
        return self.context if self.kwargs is not None else self.context.with_value(self.args[0])
