"""What processes of a program listen at; the program has a mark in its environment."""

from __future__ import annotations

import contextlib

import psutil


def processes_of(name: str, mark: str) -> list[psutil.Process]:
    """All processes in whose environment ``name`` has that value."""
    return [each for each in psutil.process_iter() if _is_of(each, name, mark)]


def _is_of(process: psutil.Process, name: str, mark: str) -> bool:
    try:
        return process.environ().get(name) == mark
    except psutil.Error:
        return False


def own_ports(processes: list[psutil.Process]) -> list[tuple[str, int]]:
    """The TCP listeners of all processes that are not Java's."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if "java" not in process.name():
                found += [
                    (one.laddr.ip, one.laddr.port)
                    for one in process.net_connections("inet")
                    if one.status == psutil.CONN_LISTEN
                ]
    return found
