"""An S3 server behind a proxy that has moods; see ``MoodyProxy``."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
from typing import TYPE_CHECKING

import boto3

from tests.support.moody_proxy import Mood, MoodyProxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REGION = "us-east-1"
_BUCKETS = itertools.count()


class ObjectStore:
    """A bucket, and the way to it. ``ask`` says what becomes of each request."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.ask: Callable[[str], Mood] = lambda what: Mood.WELL
        self.bucket = f"bucket-{next(_BUCKETS)}"
        self.root = f"s3://{self.bucket}/checkpoints"
        self.proxy = MoodyProxy(server, self._mood)
        self._client = boto3.client(
            "s3",
            endpoint_url=f"http://{server[0]}:{server[1]}",
            region_name=REGION,
            aws_access_key_id="id",
            aws_secret_access_key="planted-password",
        )
        self._client.create_bucket(Bucket=self.bucket)

    def _mood(self, what: str) -> Mood:
        return self.ask(what)

    @property
    def flags(self) -> list[str]:
        """Options of a job that uses it."""
        return [
            f"--s3_endpoint_url={self.proxy.url}",
            f"--s3_region_name={REGION}",
            "--s3_access_key_id=id",
            "--s3_secret_access_key=planted-password",
        ]

    def names(self) -> list[str]:
        """Paths of all objects, whatever mood the proxy has."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        return [found["Key"] for page in pages for found in page.get("Contents", ())]

    def content(self, name: str) -> bytes:
        return self._client.get_object(Bucket=self.bucket, Key=name)["Body"].read()

    def manifests(self) -> list[str]:
        return sorted(name for name in self.names() if name.endswith(".manifest"))


# It ends when the tests do, also if they are killed: then its input is closed.
_SERVER = """
import sys
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(*server.get_host_and_port(), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def s3_server() -> Iterator[tuple[str, int]]:
    """The address of an S3 server that keeps all in memory, in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin
        assert server.stdout
        host, port = server.stdout.readline().split()
        try:
            yield host, int(port)
        finally:
            server.stdin.close()
