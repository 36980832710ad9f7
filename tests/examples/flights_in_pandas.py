"""What `examples/flights.py` has to find, computed from the same tables without Beam."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from pathlib import Path

EDGES = {
    "wind": [-np.inf, 5, 10, 15, 20, 25, 30, np.inf],
    "rain": [-np.inf, 0.01, 0.05, 0.1, 0.2, 0.4, np.inf],
    "visibility": [-np.inf, 0.5, 1, 2, 5, 10, np.inf],
}
COLUMNS = {"wind": "wind_speed", "rain": "precip", "visibility": "visib"}


@cache
def read_flights(tables: Path) -> pd.DataFrame:
    flights = pd.read_csv(tables / "flights.csv")
    flights["day"] = pd.to_datetime(flights[["year", "month", "day"]])
    return flights[["origin", "dest", "carrier", "day", "time_hour", "dep_delay", "arr_delay"]]


def statistics(delays: pd.Series) -> dict[str, float | None]:
    known = np.sort(delays.dropna().to_numpy(dtype=int))
    counts = {"flights": len(delays), "missing": len(delays) - len(known)}
    if len(known) == 0:
        return {**counts, "mean": None, "p90": None, "worst": None, "late": None}
    nine_in_ten = (9 * len(known) + 9) // 10
    return {
        **counts,
        "mean": known.mean(),
        "p90": known[nine_in_ten - 1],
        "worst": known[-1],
        "late": (known >= 15).mean(),
    }


def by(frame: pd.DataFrame, keys: list[str], delay: str) -> pd.DataFrame:
    groups = frame.groupby(keys, dropna=False)[delay]
    return pd.DataFrame(
        [{**dict(zip(keys, key, strict=True)), **statistics(delays)} for key, delays in groups]
    )


def daily(tables: Path) -> pd.DataFrame:
    found = by(read_flights(tables), ["origin", "day"], "dep_delay")
    found = found.rename(columns={"origin": "airport", "day": "start"})
    return found.assign(end=found["start"] + pd.Timedelta(days=1))


def weekly(tables: Path) -> pd.DataFrame:
    flights = read_flights(tables)
    weeks = [
        flights.assign(start=flights["day"] - pd.Timedelta(days=before)) for before in range(7)
    ]
    found = by(pd.concat(weeks), ["origin", "start"], "dep_delay")
    found = found.rename(columns={"origin": "airport"})
    return found.assign(end=found["start"] + pd.Timedelta(days=7))


def routes(tables: Path, top: int, arrivals: int) -> pd.DataFrame:
    found = by(read_flights(tables), ["origin", "dest"], "arr_delay")
    found = found[found["flights"] - found["missing"] >= arrivals]
    found = found.sort_values(["mean", "origin", "dest"], ascending=[False, True, True]).head(top)
    names = pd.read_csv(tables / "airports.csv").set_index("faa")["name"]
    found = found.rename(columns={"dest": "destination"})
    named = found["destination"].map(names).fillna(found["destination"])
    return found.assign(name=named, rank=range(1, len(found) + 1))


def airlines(tables: Path) -> pd.DataFrame:
    names = pd.read_csv(tables / "airlines.csv")
    return by(read_flights(tables), ["carrier"], "arr_delay").merge(names, on="carrier")


def weather(tables: Path) -> pd.DataFrame:
    readings = pd.read_csv(tables / "weather.csv")
    flights = read_flights(tables).merge(readings, on=["origin", "time_hour"], how="left")
    found = []
    for measure, edges in EDGES.items():
        step = pd.IntervalIndex(pd.cut(flights[COLUMNS[measure]], edges, right=False))
        steps = flights.assign(measure=measure, low=step.left, high=step.right)
        found.append(by(steps, ["measure", "low", "high"], "dep_delay"))
    return pd.concat(found).replace([np.inf, -np.inf], None)
