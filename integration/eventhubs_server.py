"""A stand-in for Azure Event Hubs on this machine: AMQP 1.0, as azure-eventhub speaks it.

The real service cannot be had from packages. This one knows what the client library asks for: a
token that is always good, questions for hubs and partitions, senders, and receivers with a filter.
It keeps events in memory. The broker is Qpid Proton, which leaves out trailing nulls of frames;
the client library reads fields by their places and fails then. So connections go through a relay
that puts the nulls back.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import struct
import sys
import tempfile
import threading
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from proton import UNDESCRIBED, Array, Condition, Data, Delivery, Message, int32, symbol, timestamp
from proton.handlers import MessagingHandler
from proton.reactor import Container
from spark_cluster import Service, free_ports

KEY = "a-key-that-nobody-may-see"
START_SECONDS = 60.0
CREDIT = 1000
BATCH_FORMAT_SECTION = 0x75
# How many fields each performative has, by the number in its descriptor.
FIELDS = {16: 10, 17: 8, 18: 14, 19: 11, 20: 11, 21: 6, 22: 3, 23: 1, 24: 1}
NULL = b"\x40"


class EventHubsServer:
    """The stand-in in a process of its own; use it as a context manager.

    Args:
        hubs: their names, with the number of partitions.
        begin: the first sequence number of each partition, as if those before had been deleted.
    """

    def __init__(self, hubs: dict[str, int], begin: int = 0) -> None:
        (self._port,) = free_ports(1)
        self._hubs = hubs
        self._begin = begin

    @property
    def connection_string(self) -> str:
        """What clients connect by."""
        return (
            f"Endpoint=sb://127.0.0.1:{self._port};SharedAccessKeyName=tests;"
            f"SharedAccessKey={KEY};UseDevelopmentEmulator=true"
        )

    def __enter__(self) -> EventHubsServer:
        descriptor, path = tempfile.mkstemp(prefix="eventhubs-")
        os.close(descriptor)
        self._log = Path(path)
        command = [sys.executable, __file__, f"--port={self._port}", f"--begin={self._begin}"]
        command += [f"--hub={name}:{count}" for name, count in self._hubs.items()]
        self._service = Service(command, os.environ, self._log)
        end = time.monotonic() + START_SECONDS
        while not _listens(self._port):
            if time.monotonic() > end:
                told = self._log.read_text(errors="replace")[-3000:]
                self.__exit__()
                raise TimeoutError("the stand-in did not start:\n" + told)
            time.sleep(0.05)
        return self

    def __exit__(self, *exception: object) -> None:
        self._service.stop()
        self._log.unlink(missing_ok=True)


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


# --- the broker -----------------------------------------------------------------------------------


@dataclass
class StoredEvent:
    taken: float
    data: bytes


@dataclass
class StoredPartition:
    begin: int
    events: list[StoredEvent] = field(default_factory=list)

    @property
    def last(self) -> int:
        return self.begin + len(self.events) - 1

    def first_at(self, filter_text: str) -> int:
        """The sequence number that a receiver with this filter begins with."""
        found = re.search(r"x-opt-(\S+) (>=?) '([^']*)'", filter_text)
        if found is None:
            return self.begin
        what, comparison, value = found.groups()
        if value == "@latest":
            return self.last + 1
        if value == "-1":
            return self.begin
        if what == "enqueued-time":
            millis = float(value)
            later = (
                self.begin + at
                for at, event in enumerate(self.events)
                if (
                    event.taken * 1000 >= millis
                    if comparison == ">="
                    else event.taken * 1000 > millis
                )
            )
            return next(later, self.last + 1)
        return max(self.begin, int(value) + (comparison == ">"))


@dataclass
class Receiver:
    partition: StoredPartition
    next: int


class Broker(MessagingHandler):
    """Hubs in memory."""

    def __init__(self, address: str, hubs: dict[str, int], begin: int, ready) -> None:
        super().__init__(prefetch=0, auto_accept=False, peer_close_is_error=False)
        self._address = address
        self._ready = ready
        self._made = time.time()
        self._turn = 0
        self._hubs = {
            name: [StoredPartition(begin) for _ in range(count)] for name, count in hubs.items()
        }
        self._answers: dict[tuple[object, str], object] = {}
        self._receivers: dict[object, Receiver] = {}

    def on_start(self, event) -> None:
        event.container.listen(self._address)
        event.container.schedule(0, self)

    def on_timer_task(self, event) -> None:
        self._ready()

    def on_link_opening(self, event) -> None:
        link = event.link
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        # A link that sends to us is a receiver here.
        asked = link.remote_target.address if link.is_receiver else link.remote_source.address
        node = _path(asked)
        if node.rpartition("/")[2] in ("$cbs", "$management"):
            if link.is_sender:
                self._answers[event.connection, _path(link.remote_target.address)] = link
        else:
            hub = self._hubs.get(node.partition("/")[0])
            if hub is None:
                text = f"The messaging entity '{node}' could not be found."
                link.condition = Condition("amqp:not-found", text)
                link.open()
                link.close()
                return
            if link.is_sender:
                partition = hub[int(node.rpartition("/")[2])]
                first = partition.first_at(_filter(link))
                self._receivers[link] = Receiver(partition, first)
        link.open()
        if link.is_receiver:
            link.flow(CREDIT)

    def on_link_closing(self, event) -> None:
        self._receivers.pop(event.link, None)
        event.link.close()

    def on_disconnected(self, event) -> None:
        for link in [one for one in self._receivers if one.connection == event.connection]:
            del self._receivers[link]
        for at in [one for one in self._answers if one[0] == event.connection]:
            del self._answers[at]

    def on_sendable(self, event) -> None:
        self._push(event.link)

    def on_delivery(self, event) -> None:
        delivery, link = event.delivery, event.link
        if link is None or not link.is_receiver or not delivery.readable or delivery.partial:
            return
        data = b""
        while chunk := link.recv(max(delivery.pending, 1)):
            data += chunk
        link.advance()
        node = _path(link.remote_target.address)
        if node.rpartition("/")[2] in ("$cbs", "$management"):
            self._answer(event, node.rpartition("/")[2], data)
        else:
            self._store(node, data)
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
        if link.credit < CREDIT // 2:
            link.flow(CREDIT - link.credit)

    def _store(self, node: str, data: bytes) -> None:
        name, _, rest = node.partition("/")
        hub = self._hubs[name]
        events = events_in(data)
        if rest:
            number = int(rest.rpartition("/")[2])
        else:
            first = Message()
            first.decode(events[0])
            key = (first.annotations or {}).get("x-opt-partition-key")
            self._turn += 1
            number = zlib.crc32(str(key).encode()) if key is not None else self._turn
        partition = hub[number % len(hub)]
        partition.events += [StoredEvent(time.time(), one) for one in events]
        for link, receiver in self._receivers.items():
            if receiver.partition is partition:
                self._push(link)

    def _push(self, link) -> None:
        receiver = self._receivers.get(link)
        while receiver is not None and link.credit > 0:
            stored = receiver.partition
            if receiver.next > stored.last:
                return
            event = stored.events[receiver.next - stored.begin]
            message = Message()
            message.decode(event.data)
            message.annotations = {
                **(message.annotations or {}),
                symbol("x-opt-sequence-number"): receiver.next,
                symbol("x-opt-offset"): str(receiver.next),
                symbol("x-opt-enqueued-time"): timestamp(int(event.taken * 1000)),
            }
            delivery = link.delivery(str(receiver.next))
            link.send(message.encode())
            delivery.settle()
            link.advance()
            receiver.next += 1

    def _answer(self, event, node: str, data: bytes) -> None:
        question = Message()
        question.decode(data)
        asked = {str(name): value for name, value in (question.properties or {}).items()}
        body, code = None, 202
        if node == "$management":
            hub = self._hubs.get(str(asked.get("name")))
            code = 404 if hub is None else 200
            if hub is not None:
                body = self._description(asked, hub)
        told = {
            "status-code": int32(code),
            "status-description": "OK" if body or code == 202 else "?",
        }
        answer = Message(body=body, correlation_id=question.id, properties=told)
        if question.id is None:
            answer.correlation_id = question.correlation_id
        link = self._answers.get((event.connection, _path(question.reply_to)))
        if link is None:
            link = next(
                one
                for (connection, _), one in self._answers.items()
                if connection == event.connection
                and _path(one.remote_source.address).endswith(node)
            )
        delivery = link.delivery("answer")
        link.send(answer.encode())
        delivery.settle()
        link.advance()

    def _description(self, asked: dict, hub: list[StoredPartition]) -> dict:
        kind, name = str(asked.get("type")), str(asked.get("name"))
        if not kind.endswith("partition"):
            numbers = Array(UNDESCRIBED, Data.STRING, *map(str, range(len(hub))))
            return {
                "name": name,
                "type": kind,
                "created_at": timestamp(int(self._made * 1000)),
                "partition_count": int32(len(hub)),
                "partition_ids": numbers,
            }
        one = hub[int(str(asked["partition"]))]
        taken = one.events[-1].taken if one.events else 0
        return {
            "name": name,
            "type": kind,
            "partition": str(asked["partition"]),
            "begin_sequence_number": one.begin,
            "last_enqueued_sequence_number": one.last,
            "last_enqueued_offset": str(one.last),
            "last_enqueued_time_utc": timestamp(int(taken * 1000)),
            "is_partition_empty": not one.events,
        }


def _path(address: str | None) -> str:
    return re.sub(r"^\w+://[^/]*/", "", address or "").strip("/")


def _filter(link) -> str:
    filters = link.remote_source.filter
    filters.rewind()
    text = ""
    while filters.next():
        text = str(filters.get_object())
    return text


# --- encoded messages -----------------------------------------------------------------------------


def _end_of_value(data: bytes, at: int) -> int:
    """Where the encoded value that begins at ``at`` ends."""
    code = data[at]
    if code == 0:  # a descriptor and a value
        return _end_of_value(data, _end_of_value(data, at + 1))
    width = code >> 4
    if width <= 9:
        return at + 1 + {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}[width]
    if width in (10, 12, 14):  # a size of one byte
        return at + 2 + data[at + 1]
    return at + 5 + int.from_bytes(data[at + 1 : at + 5], "big")


def events_in(data: bytes) -> list[bytes]:
    """The events of a transfer: a batch has an encoded message in each of its data sections."""
    found, at = [], 0
    while at < len(data):
        begin = _end_of_value(data, at + 1)
        end = _end_of_value(data, begin)
        if data[at + 2] == BATCH_FORMAT_SECTION:
            found.append(data[begin + (2 if data[begin] == 0xA0 else 5) : end])
        at = end
    are_messages = found and all(one[:2] == b"\x00\x53" and 0x70 <= one[2] <= 0x78 for one in found)
    return found if are_messages else [data]


def with_nulls(frame: bytes) -> bytes:
    """A frame whose list of fields is as long as the specification lets it be."""
    begin = 4 * frame[4]
    if len(frame) <= begin or frame[5] != 0 or frame[begin : begin + 2] != b"\x00\x53":
        return frame
    wanted = FIELDS.get(frame[begin + 2])
    if wanted is None:
        return frame
    at = begin + 3
    code = frame[at]
    if code == 0x45:  # an empty list
        count, items, rest = 0, b"", frame[at + 1 :]
    elif code == 0xC0:
        end = at + 2 + frame[at + 1]
        count, items, rest = frame[at + 2], frame[at + 3 : end], frame[end:]
    else:
        size, count = struct.unpack_from(">II", frame, at + 1)
        end = at + 5 + size
        items, rest = frame[at + 9 : end], frame[end:]
    items += NULL * (wanted - count)
    long_list = struct.pack(">BII", 0xD0, len(items) + 4, max(count, wanted))
    whole = frame[4:at] + long_list + items + rest
    return struct.pack(">I", len(whole) + 4) + whole


# --- the relay ------------------------------------------------------------------------------------


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise ConnectionError
        data += chunk
    return data


def _to_client(broker: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while True:
            head = _exactly(broker, 8)
            if head[:4] != b"AMQP":
                size = int.from_bytes(head[:4], "big")
                head = with_nulls(head + _exactly(broker, size - 8))
            client.sendall(head)
    for one in (broker, client):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _to_broker(client: socket.socket, broker: socket.socket) -> None:
    with suppress(OSError):
        while chunk := client.recv(1 << 16):
            broker.sendall(chunk)
    with suppress(OSError):
        broker.shutdown(socket.SHUT_RDWR)


def relay(port: int, inner: int) -> None:
    """Take connections for the broker, each in two threads, until the process ends."""
    listener = socket.create_server(("127.0.0.1", port))
    while True:
        client, _ = listener.accept()
        broker = socket.create_connection(("127.0.0.1", inner))
        for one in (client, broker):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_to_client, args=(broker, client), daemon=True).start()
        threading.Thread(target=_to_broker, args=(client, broker), daemon=True).start()


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Run a stand-in for Event Hubs until it is killed."
    )
    parser.add_argument("--port", type=int, required=True, help="on 127.0.0.1")
    parser.add_argument("--hub", action="append", default=[], help="as name:partitions")
    parser.add_argument("--begin", type=int, default=0, help="the first sequence number")
    given = parser.parse_args()
    pairs = (hub.partition(":") for hub in given.hub)
    hubs = {name: int(count or 1) for name, _, count in pairs}
    (inner,) = free_ports(1)

    def ready() -> None:
        threading.Thread(target=relay, args=(given.port, inner), daemon=True).start()

    Container(Broker(f"127.0.0.1:{inner}", hubs, given.begin, ready)).run()


if __name__ == "__main__":
    main()
