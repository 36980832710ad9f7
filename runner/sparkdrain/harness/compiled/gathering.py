"""What a stateful DoFn makes goes into a compiled chain, many results at a time."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sparkdrain.harness.compiled.generate import refuse

if TYPE_CHECKING:
    from sparkdrain.harness.compiled.chain import LazyChain

_AT_ONCE: Final = 4096


class Gathering:
    """Gathers results as long as they share time, windows and pane of what they were made of.

    A DoFn is called for one element or timer, and mostly makes one result or none; to run a chain
    costs more than what it does for a result. All results have gone through it after ``flush``.
    """

    def __init__(self, chain: LazyChain) -> None:
        self._chain = chain
        self._values: list[Any] = []
        self._context: Any = None

    def handle_results(self, context: Any, results: Any) -> None:
        """Take what a DoFn has returned for ``context``, an element or the like; not None.

        Raises:
            TypeError: these are no results.
            Exception: what user code raises when it is asked for them, or behind the DoFn.
        """
        known = self._context
        if context is not known and not (
            known is not None
            and known.timestamp_micros == context.timestamp_micros
            and (known.windows is context.windows or known.windows == context.windows)
            and (known.pane_info is context.pane_info or known.pane_info == context.pane_info)
        ):
            self.flush()
            self._context = context
        if type(results) is list and len(results) + len(self._values) < _AT_ONCE:
            self._values += results
            return
        if self._chain.checks_results and isinstance(results, (str, bytes, dict)):
            refuse(results)
        left = iter(results)
        self._values += islice(left, _AT_ONCE)
        while len(self._values) >= _AT_ONCE:
            self.flush()
            self._values += islice(left, _AT_ONCE)

    def flush(self) -> None:
        """Run what was gathered.

        Raises:
            Exception: what user code raises behind the DoFn; it names the step, and has the
                attribute ``is_behind_keys``: it is not known of which key.
        """
        if not self._values:
            return
        values, self._values = self._values, []
        try:
            try:
                self._chain.run(values, self._context)
            except BaseException as error:  # noqa: BLE001 - raised again, with the step's name
                self._chain.reraise(error)
        except BaseException as error:
            error.is_behind_keys = True  # type: ignore[attr-defined]
            raise
