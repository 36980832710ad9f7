"""New York's departures of 2013 as a stream, each with the wind that a slow HTTP service tells.

    python examples/enrich_live.py --runner=SparkDrainRunner --days 7 --days_per_second 0.5

The service is a part of this program. It knows the weather of each airport and hour, takes its
time over an answer, now and then seconds, and refuses one call in fifty. Up to 200 calls are in
flight in each slot. One that takes long is carried over: rounds go on without it, and the day that
it belongs to stays open until it has its answer. Beside the mean delays of each day there is a
table of calls in flight:

    day         airport  flights   mean delay   pane
    2013-01-01  EWR calm     148     14.9 min   on time

    18 calls in flight, 2,031 answered, 40 refused
        2.31 s  EWR 2013-01-02 11:00
        0.07 s  JFK 2013-01-03 05:00

Every option that `--help` does not list goes to Beam and the runner, such as `--round_ms=500`.
"""

# No `from __future__ import annotations`: Beam chooses coders by the annotations' types.
import argparse
import asyncio
import contextlib
import csv
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows
from flights_files import check_tables, unpack_tables
from flights_live import DAY, Departure, MeanDelay, Replay, Show, departures, follow

import sparkdrain

HOUR = 60 * 60  # seconds
WINDY = 12.0  # miles an hour
# How many of the calls in flight the table shows, those first that wait longest.
SHOWN = 5


def winds(weather: Path) -> dict[str, float]:
    """The speed of the wind, in miles an hour, by the path at which the service has it."""
    found = {}
    with weather.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["wind_speed"].strip("NA"):
                hour = datetime.fromisoformat(row["time_hour"].replace("Z", "+00:00"))
                time_of = hour.replace(tzinfo=timezone.utc).timestamp()
                found[path_of(row["origin"], time_of)] = float(row["wind_speed"])
    return found


def path_of(airport: str, left: float) -> str:
    """Where the service has the weather of an airport at a time, in seconds since 1970."""
    return f"/{airport}/{int(left // HOUR * HOUR)}"


class WeatherService:
    """Answers ``GET /AIRPORT/TIME`` with the wind, slowly; use it as a context manager.

    Args:
        known: winds by path.
        seconds: draws how long an answer takes.
        refuses: draws whether a call is refused.
    """

    def __init__(self, known: dict[str, float], seconds: Any, refuses: Any) -> None:
        self._known = known
        self._seconds = seconds
        self._refuses = refuses
        self._lock = threading.Lock()
        self._calls: dict[int, tuple[float, str]] = {}
        self._numbers = 0
        self._statuses = {200: 0, 503: 0}
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with service.answering(self.path) as (status, body), contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 500

        self._server = Server(("127.0.0.1", 0), Handler)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @contextlib.contextmanager
    def answering(self, path: str) -> Iterator[tuple[int, bytes]]:
        """Status and body of the answer to one call, after a while."""
        with self._lock:
            self._numbers += 1
            number = self._numbers
            self._calls[number] = time.time(), path
        status = 503 if self._refuses() else 200
        try:
            time.sleep(self._seconds())
            yield status, json.dumps({"wind": self._known.get(path)}).encode()
        finally:
            with self._lock:
                del self._calls[number]
                self._statuses[status] += 1

    def table(self, now: float) -> str:
        """The calls in flight, those first that wait longest."""
        with self._lock:
            calls = list(self._calls.values())
            answered, refused = self._statuses[200], self._statuses[503]
        lines = [f"\n{len(calls)} calls in flight, {answered:,} answered, {refused:,} refused"]
        for since, path in calls[:SHOWN]:
            _, airport, left = path.split("/")
            hour = datetime.fromtimestamp(int(left), timezone.utc)
            lines.append(f"{now - since:>10.2f} s  {airport} {hour:%Y-%m-%d %H:%M}")
        return "\n".join(lines) + "\n\n"

    def __enter__(self) -> "WeatherService":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class AskForWind(beam.DoFn):
    """Tells windy and calm departures apart.

    It speaks HTTP by itself so that the example needs no package. A job would have a client such as
    aiohttp's, which keeps its connections: make it in ``setup``.
    """

    def __init__(self, port: int) -> None:
        self._port = port

    async def process(
        self, departure: tuple[str, int], left: Any = beam.DoFn.TimestampParam
    ) -> AsyncIterator[tuple[str, int]]:
        airport, delay = departure
        wind = json.loads(await self._get(path_of(airport, float(left))))["wind"]
        kind = "unknown" if wind is None else "windy" if wind >= WINDY else "calm"
        yield f"{airport} {kind}", delay

    async def _get(self, path: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        status = head.partition(b"\r\n")[0].decode()
        if " 200 " not in status:
            msg = f"the service has answered GET {path} with {status!r}"
            raise ConnectionError(msg)
        return body


def build(
    pipeline: beam.Pipeline, told: list[Departure], pace: float, board: Path, port: int
) -> None:
    """Delays per airport, wind and day."""
    ask = sparkdrain.Concurrently(
        AskForWind(port), max_in_flight=200, timeout=20, retries=5, carry_over=True
    )
    _ = (
        pipeline
        | beam.Impulse()
        # Not when the program begins: what it takes to start would be days of the replay.
        | "Begin" >> beam.Map(lambda _: time.time()).with_output_types(float)
        | "Replay" >> beam.ParDo(Replay(told, pace)).with_output_types(tuple[str, int])
        | "Ask for wind" >> beam.ParDo(ask).with_output_types(tuple[str, int])
        | beam.WindowInto(FixedWindows(DAY))
        | "Mean delay" >> beam.CombinePerKey(MeanDelay())
        | "Show" >> beam.ParDo(Show(board))
    )


def seconds_drawn() -> float:
    """How long an answer takes: mostly 50 ms, one in 200 takes 3 s."""
    return 3.0 if random.random() < 0.005 else random.expovariate(1 / 0.05)


def tell(service: WeatherService, over: threading.Event) -> None:
    """Prints the table of calls in flight until the job is over."""
    while not over.wait(2):
        sys.stdout.write(service.table(time.time()))
        sys.stdout.flush()


def main(argv: list[str]) -> None:
    """Replays, asks, and shows what is in flight."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=7, help="days of January to replay (1-31)")
    parser.add_argument("--days_per_second", type=float, default=0.5, help="how fast")
    parser.add_argument("--input", type=Path, help="a folder with flights.csv and weather.csv")
    known, rest = parser.parse_known_args(argv)
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="enrich-live-")))
        tables = check_tables(known.input) if known.input else unpack_tables(scratch / "in")
        told = departures(tables / "flights.csv", known.days)
        board, over = scratch / "board.jsonl", threading.Event()
        board.touch()
        service = stack.enter_context(
            WeatherService(
                winds(tables / "weather.csv"), seconds_drawn, lambda: random.random() < 0.02
            )
        )
        readers = [
            threading.Thread(target=follow, args=(board, over)),
            threading.Thread(target=tell, args=(service, over)),
        ]
        for reader in readers:
            reader.start()
        try:
            options = PipelineOptions(rest, streaming=True, save_main_session=True)
            with beam.Pipeline(options=options) as pipeline:
                build(pipeline, told, known.days_per_second, board, service.port)
        finally:
            over.set()
            for reader in readers:
                reader.join()


if __name__ == "__main__":
    main(sys.argv[1:])
