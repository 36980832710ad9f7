"""What an SDK harness is called where others may read it."""

from __future__ import annotations

import hashlib

_DIGITS = 16


def public_name(worker_id: str) -> str:
    """The name of a harness, which tells nothing of its id; hexadecimal digits.

    Args:
        worker_id: the secret by which the harness is admitted.
    """
    return hashlib.sha256(worker_id.encode()).hexdigest()[:_DIGITS]


def thread_group(worker_id: str) -> str:
    """The name of the group of a harness's threads, which is no secret as the id is."""
    return f"sparkdrain-{public_name(worker_id)}"
