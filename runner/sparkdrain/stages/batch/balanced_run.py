"""A level with restrictions, and the tasks that help its slots with them."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from sparkdrain.errors import TruncatedInput
from sparkdrain.stages.batch.balance import Balancer, Gift
from sparkdrain.stages.batch.task import Helper
from sparkdrain.stages.cluster.driver_address import driver_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.lines.line import Endpoint
    from sparkdrain.stages.spark.exchange import Exchange
    from sparkdrain.stages.telling.report import SlotReport

_PATIENCE_SECONDS = 30.0


class BalancedRun:
    """Starts a task for every gift that a slot makes, and waits for all of them.

    Args:
        context: for what the cluster has.
        slots: how many slots the level has; helpers are numbered from there.
        exchange: makes the exchange of a helper.
        reports: runs the exchange of a helper.
        enter: prepares a thread for running Spark jobs of the level.
    """

    def __init__(
        self,
        context: Any,
        slots: int,
        exchange: Callable[[Helper], Exchange],
        reports: Callable[[Exchange, Helper], list[SlotReport]],
        enter: Callable[[], None],
    ) -> None:
        self._exchange = exchange
        self._reports = reports
        self._enter = enter
        self._numbers = itertools.count(slots)
        self._lock = threading.Lock()
        self._helpers: list[Future[list[SlotReport]]] = []
        self._arrived = threading.Condition(self._lock)
        self.exchanges: list[Exchange] = []
        cores = context.defaultParallelism
        self._balancer = Balancer(driver_address(context), cores, self._accept)
        self._balancer.expect(slots)
        self._threads = ThreadPoolExecutor(cores, "helper")

    @property
    def endpoint(self) -> Endpoint:
        """Where slots find the balancer."""
        return self._balancer.endpoint

    def _accept(self, gift: Gift) -> None:
        self._balancer.expect(1)
        with self._arrived:
            helper = Helper(next(self._numbers), gift)
            self._helpers.append(self._threads.submit(self._help, helper))
            self._arrived.notify_all()

    def _help(self, helper: Helper) -> list[SlotReport]:
        self._enter()
        exchange = self._exchange(helper)
        with self._lock:
            self.exchanges.append(exchange)
        return self._reports(exchange, helper)

    def wait(self, reports: list[SlotReport]) -> list[SlotReport]:
        """The reports of the slots and of all that helped them, once all have ended.

        Raises:
            TruncatedInput: a gift that a slot reports has not arrived.
        """
        reports = list(reports)
        done = 0
        while True:
            self._await(sum(report.gifts for report in reports))
            with self._lock:
                helpers = self._helpers[done:]
            if not helpers:
                return reports
            wait(helpers)
            for helper in helpers:
                reports += helper.result()
            done += len(helpers)

    def _await(self, gifts: int) -> None:
        with self._arrived:
            arrived = self._arrived.wait_for(lambda: len(self._helpers) >= gifts, _PATIENCE_SECONDS)
            if not arrived:
                msg = f"{gifts - len(self._helpers)} of {gifts} gifts of restrictions were lost"
                raise TruncatedInput(msg)

    def __enter__(self) -> BalancedRun:
        return self

    def __exit__(self, *error: object) -> None:
        self._balancer.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
