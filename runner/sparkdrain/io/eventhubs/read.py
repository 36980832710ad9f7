"""``ReadFromEventHubs``."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import uuid4

import apache_beam as beam
from apache_beam.typehints import typehints
from typing_extensions import override

from sparkdrain.errors import BadOption
from sparkdrain.io.eventhubs.events import HubEvent
from sparkdrain.io.eventhubs.service import HubService
from sparkdrain.io.eventhubs.settings import hub_settings
from sparkdrain.io.kafka.discovery import FindPartitions, Topics, WatchPartitions
from sparkdrain.io.kafka.positions import position
from sparkdrain.io.kafka.read_partition import reader
from sparkdrain.io.kafka.records import BadRecord
from sparkdrain.io.kafka.shared import Wanted
from sparkdrain.io.kafka.spans import SpansOf
from sparkdrain.io.kafka.unpack import BAD, UnpackRecords
from sparkdrain.io.kafka.watermarks import Watermarks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from apache_beam.coders import Coder
    from apache_beam.utils.timestamp import Timestamp

NAMESPACE: Final = "sparkdrain.io.eventhubs"


class ReadFromEventHubs(beam.PTransform):
    """Reads a hub: pairs of partition key and body, or `HubEvent` with ``with_metadata``.

    The timestamp of an element is when the service took the event. Without ``stop`` the result is
    unbounded. A position in a partition is a sequence number.

    Args:
        hub: its name; None for the one that the connection string names.
        connection_string: the string that Azure shows for the namespace or the hub; None for the
            environment's ``AZURE_EVENTHUB_CONNECTION_STRING``, as the program finds it.
        namespace: ``NAME.servicebus.windows.net`` instead, for who has an identity.
        consumer_group: whose readers these are; each has five readers of a partition at most.
        start: where to begin: `earliest`, `latest`, a datetime or Timestamp (the first event that
            the service took then or later), or ``{partition: sequence_number}``, which also says
            that no other partitions are read.
        stop: where to end, in the same words; `latest` is what that is when reading starts.
        with_metadata: whether elements are `HubEvent`.
        value_coder: decodes bodies; by default they are bytes.
        watermarks: what events tell of those that are still to come. The service sets the times,
            so by default none is out of order, and an idle partition follows the clock at 1 s.
        discover_every: seconds after which to look for new partitions, which are read from their
            beginning; None never looks again. A hub gets new ones in the larger tiers only.
        on_lost: what to do if events were deleted before they were read: `fail`, or `skip` to the
            first one that there is.
        websockets: whether AMQP goes through port 443, where 5671 is closed.

    Raises:
        BadOption: arguments that contradict each other or mean nothing.
    """

    def __init__(
        self,
        hub: str | None = None,
        *,
        connection_string: str | None = None,
        namespace: str | None = None,
        consumer_group: str = "$Default",
        start: str | datetime | Timestamp | Mapping[int, int] = "earliest",
        stop: str | datetime | Timestamp | Mapping[int, int] | None = None,
        with_metadata: bool = False,
        value_coder: Coder | None = None,
        watermarks: Watermarks | None = None,
        discover_every: float | None = None,
        on_lost: Literal["fail", "skip"] = "fail",
        websockets: bool = False,
    ) -> None:
        super().__init__()
        self._settings = hub_settings(
            hub,
            connection_string,
            namespace,
            consumer_group=consumer_group,
            websockets=websockets,
        )
        self._start = position(self._given(start), "start")
        self._stop = None if stop is None else position(self._given(stop), "stop")
        self._with_metadata = with_metadata
        self._value_coder = value_coder
        self._watermarks = watermarks or Watermarks.log_append_time()
        self._discover_every = discover_every if stop is None else None
        self._skip_lost = on_lost == "skip"
        self._set_aside = False
        self._check(on_lost)

    def _given(self, at: Any) -> Any:
        if isinstance(at, dict):
            return {(self._settings.hub, number): offset for number, offset in at.items()}
        return at

    def _check(self, on_lost: str) -> None:
        kinds = {self._start.kind, self._stop.kind if self._stop else None}
        if "committed" in kinds:
            msg = "Event Hubs keeps no positions of a group: use 'earliest', 'latest' or a time"
            raise BadOption(msg)
        if self._stop is not None and self._stop.kind == "earliest":
            msg = "stop='earliest' is no end: use 'latest', a time, or sequence numbers"
            raise BadOption(msg)
        if on_lost not in ("fail", "skip"):
            msg = f"on_lost={on_lost!r} is neither 'fail' nor 'skip'"
            raise BadOption(msg)
        if self._discover_every is not None and self._discover_every <= 0:
            msg = f"discover_every={self._discover_every} is no number of seconds"
            raise BadOption(msg)

    def with_exception_handling(self) -> ReadFromEventHubs:
        """Sets events aside whose body cannot be decoded, as Beam's transforms do.

        Returns:
            A transform whose result is a pair: the good elements, and `BadRecord` of
            `sparkdrain.io.kafka` for each of the others.
        """
        changed = copy(self)
        changed._set_aside = True  # noqa: SLF001 - its own
        return changed

    @override
    def expand(self, begin: beam.pvalue.PBegin) -> Any:
        properties = self._with_metadata or self._set_aside
        wanted = Wanted(HubService(self._settings), properties, uuid4().hex)
        topics = Topics((self._settings.hub,), None, (self._start, self._stop))
        dofn = reader(
            wanted,
            SpansOf(wanted, self._start, self._stop),
            self._watermarks,
            bounded=self._stop is not None,
            commit=False,
            skip_lost=self._skip_lost,
            namespace=NAMESPACE,
        )
        finder = (
            FindPartitions(wanted, topics)
            if self._discover_every is None
            else WatchPartitions(wanted, topics, self._discover_every, self._watermarks)
        )
        batches = (
            begin
            | "Impulse" >> beam.Impulse()
            | "Partitions" >> beam.ParDo(finder).with_output_types(tuple[str, int, bool])
            | "Fetch" >> beam.ParDo(dofn).with_output_types(typehints.Any)
        )
        return self._unpacked(batches)

    def _unpacked(self, batches: beam.PCollection) -> Any:
        dofn = UnpackRecords(
            None,
            self._value_coder,
            with_metadata=self._with_metadata,
            set_aside=self._set_aside,
            kind=HubEvent,
            namespace=NAMESPACE,
        )
        value = bytes if self._value_coder is None else typehints.Any
        pair = typehints.Tuple[typehints.Optional[bytes], value]
        kind = HubEvent if self._with_metadata else pair
        if not self._set_aside:
            return batches | "Unpack" >> beam.ParDo(dofn).with_output_types(kind)
        outputs = batches | "Unpack" >> beam.ParDo(dofn).with_outputs(BAD, main="good")
        outputs.good.element_type = kind
        outputs[BAD].element_type = BadRecord
        return outputs.good, outputs[BAD]
