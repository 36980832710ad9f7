"""What `flights.py` found: tables for the terminal and one picture."""

import json
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Table

Row = dict[str, Any]

COLOURS = {"EWR": "#c8553d", "JFK": "#2a6f97", "LGA": "#c98b12"}
INK, QUIET, BAR = "#2b2d33", "#8a8d96", "#b9c0cc"
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": QUIET,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlepad": 14,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "figure.constrained_layout.h_pad": 0.1,
    "figure.constrained_layout.w_pad": 0.1,
    "legend.frameon": False,
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.3,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.fonttype": "none",
}
UNITS = {"wind": "mph", "rain": "inches an hour", "visibility": "miles"}


class Results(NamedTuple):
    """The rows of every result, sorted for reading."""

    daily: list[Row]
    weekly: list[Row]
    routes: list[Row]
    airlines: list[Row]
    weather: list[Row]


def load(output: Path) -> Results:
    """Reads back what the job has written to the folder."""

    def days(name: str) -> list[Row]:
        rows = pq.read_table(output / f"{name}.parquet").to_pylist()
        return sorted(rows, key=lambda row: (row["airport"], row["start"]))

    def lines(name: str) -> list[Row]:
        return [json.loads(line) for line in (output / f"{name}.jsonl").read_text().splitlines()]

    return Results(
        daily=days("daily"),
        weekly=days("weekly"),
        routes=sorted(lines("routes"), key=lambda row: row["rank"]),
        airlines=sorted(lines("airlines"), key=lambda row: row["mean"] or 0.0, reverse=True),
        weather=sorted(lines("weather"), key=lambda row: (row["measure"], row["low"] or -1.0)),
    )


def show(results: Results, counters: dict[str, int], console: Console) -> None:
    """Prints the worst routes, the airlines, and what the job counted."""
    routes = {f"{row['origin']} → {row['name']}": row for row in results.routes}
    airlines = {row["name"]: row for row in results.airlines}
    for title, rows in (("Worst routes", routes), ("Airlines", airlines)):
        console.print("", delays_table(f"{title}: arrival delay, minutes", rows), sep="\n")
    counted = sorted(counters.items(), key=lambda counter: -counter[1])
    console.print("\nFlights:", ", ".join(f"{count:,} {name}" for name, count in counted))


def delays_table(title: str, rows: dict[str, Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(title, width=38, no_wrap=True)
    for measure in ("flights", "missing", "mean", "p90", "worst", "late"):
        table.add_column(measure, justify="right", no_wrap=True)
    for label, row in rows.items():
        counts = f"{row['flights']:,}", f"{row['missing']:,}"
        if row["mean"] is None:
            table.add_row(label, *counts)
        else:
            delays = f"{row['mean']:.1f}", f"{row['p90']}", f"{row['worst']:,}"
            table.add_row(label, *counts, *delays, f"{row['late']:.0%}")
    return table


def draw(results: Results, path: Path) -> None:
    """Draws the year, its cancellations, the routes, the airlines and the weather."""
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 12.5), layout="constrained")
        figure.suptitle(title(results.daily), x=0.015, ha="left", size=14, weight="bold")
        parts = figure.subfigures(3, 1, squeeze=False, height_ratios=(4.6, 3.6, 2.4))
        days, ranks, weather = parts.flat
        year, cancelled = days.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        draw_year(year, results)
        draw_cancellations(cancelled, results.daily)
        routes, airlines = ranks.subplots(1, 2, width_ratios=(1, 1.25))
        draw_routes(routes, results.routes)
        draw_airlines(airlines, results.airlines)
        for measure, axes in zip(UNITS, weather.subplots(1, 3, sharey=True), strict=True):
            draw_weather(axes, measure, results.weather)
        figure.savefig(path)


def title(daily: list[Row]) -> str:
    flights, missing = (sum(row[count] for row in daily) for count in ("flights", "missing"))
    late = sum(row["late"] * (row["flights"] - row["missing"]) for row in daily if row["mean"])
    return (
        f"New York's {flights:,} flights of 2013: {missing / flights:.1%} cancelled,"
        f" {late / (flights - missing):.0%} of the others 15 minutes late or more"
    )


def draw_year(axes: Axes, results: Results) -> None:
    axes.set_title("Departure delay in minutes: the mean of a day (dots) and of seven days (lines)")
    for airport, colour in COLOURS.items():
        days = [row for row in results.daily if row["airport"] == airport and row["flights"]]
        dates, means = [row["start"] for row in days], [row["mean"] for row in days]
        axes.plot(dates, means, ".", color=colour, markersize=4, alpha=0.5, markeredgewidth=0)
        weeks = [row for row in results.weekly if row["airport"] == airport]
        middle = [row["start"] + timedelta(days=3) for row in weeks]
        smooth = [row["mean"] for row in weeks]
        axes.plot(middle, smooth, color=colour, linewidth=2, label=airport)
    worst = max(results.daily, key=lambda row: row["mean"] or 0.0)
    point(axes, worst["start"], worst["mean"], "")
    axes.legend(loc="upper right", ncols=3)
    axes.grid(axis="y", color=BAR, linewidth=0.5)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)


def draw_cancellations(axes: Axes, daily: list[Row]) -> None:
    axes.set_title("Cancelled departures a day")
    days = sorted({row["start"] for row in daily})
    missing = {(row["airport"], row["start"]): row["missing"] for row in daily}
    layers = [[missing.get((airport, day), 0) for day in days] for airport in COLOURS]
    axes.stackplot(days, layers, colors=COLOURS.values(), step="mid", linewidth=0)
    totals = Counter(dict(zip(days, map(sum, zip(*layers, strict=True)), strict=True)))
    for day, count in totals.most_common(3):
        point(axes, day, count, f": {count}")
    axes.set_xlim(days[0], days[-1])
    firsts = [day for day in days if day.day == 1]
    axes.set_xticks(firsts, [f"{day:%B}" for day in firsts])
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def point(axes: Axes, day: date, height: float, text: str) -> None:
    label = f"{day.day} {day:%B}{text}"
    axes.annotate(label, (day, height), (6, -4), textcoords="offset points", size=8)


def draw_routes(axes: Axes, routes: list[Row]) -> None:
    axes.set_title("Worst routes: mean arrival delay in minutes")
    ranks = list(range(len(routes)))
    colours = [COLOURS[row["origin"]] for row in routes]
    bars(axes, ranks, [row["mean"] for row in routes], colours)
    for rank, row in zip(ranks, routes, strict=True):
        name = row["name"].removesuffix(" Airport").removesuffix(" Intl")
        label = f"{row['origin']} → {name}"
        axes.annotate(label, (0, rank), (6, 0), textcoords="offset points", va="center", color="w")
    axes.tick_params(labelleft=False)


def draw_airlines(axes: Axes, airlines: list[Row]) -> None:
    axes.set_title("Airlines: mean arrival delay in minutes")
    rows = [row for row in airlines if row["mean"] is not None]
    bars(axes, [row["name"] for row in rows], [row["mean"] for row in rows], BAR)


def bars(axes: Axes, labels: list[Any], lengths: list[float], colours: str | list[str]) -> None:
    drawn = axes.barh(labels, lengths, color=colours, height=0.76)
    axes.bar_label(drawn, fmt="%.1f", padding=4)
    axes.invert_yaxis()
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0, labelbottom=False)
    axes.margins(x=0.1, y=0.01)


def draw_weather(axes: Axes, measure: str, weather: list[Row]) -> None:
    axes.set_title(f"Departure delay by {measure}, {UNITS[measure]}")
    rows = [row for row in weather if row["measure"] == measure and row["mean"] is not None]
    rows = [row for row in rows if row["low"] != row["high"]]  # not the unknown
    drawn = axes.bar([step(row) for row in rows], [row["mean"] for row in rows], color=BAR)
    axes.bar_label(drawn, fmt="%.0f", padding=2)
    axes.spines["left"].set_visible(False)
    axes.tick_params(length=0, labelleft=False, labelsize=7.5)


def step(row: Row) -> str:
    low, high = row["low"], row["high"]
    if low is None:
        return f"< {high:g}"
    return f"≥ {low:g}" if high is None else f"{low:g}-{high:g}"
