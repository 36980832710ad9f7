"""One element of a step that is in flight, or waits for that, or is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio


class ElementInFlight:
    """An element from its arrival until its results have left.

    Attributes:
        context: has the timestamp, windows and pane that its results get.
        args, kwargs: what ``process`` is called with.
        key: elements of one key are processed one after the other; None: it has none.
        results: what was made of it, if it is complete.
        task, began, is_armed, is_overdue: see ``Limited``.
        thread: where it runs, if in a thread of the pool.
        failed: how many attempts have failed.
        updates: changes of metrics, which count when its results leave; None: they count at once.
        number: under which it is kept beyond its bundle; None: it is not.
    """

    results: Any = None
    is_complete = False
    began = 0.0
    is_armed = False
    is_overdue = False
    task: asyncio.Task[None] | None = None
    thread: int | None = None
    failed = 0
    number: int | None = None
    updates: list[tuple[Any, Any]] | None = None

    # Most elements need nothing but these: what is above costs them no time.
    def __init__(self, context: Any, args: tuple[Any, ...], kwargs: Any, key: Any = None) -> None:
        self.context = context
        self.args = args
        self.kwargs = kwargs
        self.key = key

    @property
    def windowed(self) -> Any:
        """The element as it came in: a windowed value."""
        return self.context if self.kwargs is not None else self.context.with_value(self.args[0])
