"""Owns: how a drain is asked for, watched for, limited and told about; pure but for the monitor.

Never: cuts sources, fires timers or commits; that is `rounds/`, which is handed a `DrainSignal`.
Start at `notification.py`, then `signal.py` and `monitor.py`. For users: `caused_by_drain`.
"""

from __future__ import annotations

from sparkdrain.drain.caused import caused_by_drain

__all__ = ["caused_by_drain"]
