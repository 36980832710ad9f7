"""How a producer of confluent-kafka takes records, in transactions and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from sparkdrain.io.kafka.client import Sender

if TYPE_CHECKING:
    from sparkdrain.io.kafka.client import Headers


class ConfluentSender(Sender):
    """Queues records with a producer, which tells how each has ended."""

    _producer: Any

    @override
    def send(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        millis: int | None,
    ) -> None:
        if partition is None and not headers and millis is None:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.05)
            else:
                return
        optional: dict[str, Any] = {"headers": list(headers)} if headers else {}
        if partition is not None:
            optional["partition"] = partition
        if millis is not None:
            optional["timestamp"] = millis
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._delivered, **optional)
            except BufferError:
                self._producer.poll(0.05)
            else:
                return

    def _delivered(self, error: Any, message: Any) -> None:
        """A record has arrived, or will not."""
