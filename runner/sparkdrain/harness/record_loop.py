"""Writes the loop that feeds keys which are records, and have one element each, to a DoFn.

In a stream of many keys most of them have one element in a round. What there is to do for it is
little, and calls would cost more than that: so the loop has it all in it, written for the states
and timers that ``process`` asks for.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from apache_beam import DoFn
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from sparkdrain.harness.call_writer import ELEMENT, Given, Side
from sparkdrain.harness.cells import UNREAD, ValueCell
from sparkdrain.harness.timers import ProcessingTimer, timer_of
from sparkdrain.shuffle.keyed_blocks import NO_CHUNK

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkdrain.harness.call_writer import Argument
    from sparkdrain.harness.small_place import SmallPlace

_MARKERS: Final = {
    **ELEMENT,
    DoFn.ElementParam: "(key, value)",
    DoFn.PaneInfoParam: "pane",
}
_NUMBERS = itertools.count()

# {begin} and {end} are lines for each cell and timer, {entered} is one for each side input. {timed}
# is for timestamps, if the DoFn asks for them. {ready} is for what elements share with the one
# before.
_LOOP: Final = """
def loop(groups, decode_key, chunks, feed_key, tell):
    decode_value, start_of = chunks.decode_value, chunks.start
    start, skip, pane = NO_CHUNK, 0, UNKNOWN
    key = value = known = window = timestamp = section = None
    count = 0
    place.bound.is_on = False
    {ready}
    for encoded, chunk in groups:
        is_alone = type(chunk) is bytes
        if is_alone and not chunk.startswith(start):
            found = start_of(chunk)
            is_alone = found is not None
            if is_alone:
                start, known = found
                skip, pane = len(start), known.pane_info
                if window is None or known.windows[0] != window:
                    (window,) = known.windows
                    section = encode_window(window)
                    try:
                        {entered}
                    except Exception:  # it is raised again where a key is fed alone
                        start, window, is_alone = NO_CHUNK, None, False
                {ready}
                {timed}
        if is_alone:
            if records.room < 0:
                borrow()
            head = head_of(encoded)
            if head is not None or records.is_complete:
                key = decode_key(encoded)
                records.in_use = encoded  # what user code reads may need room
                try:
                    value = decode_value(chunk[skip:])
                    record = head
                    while record is not None and record.window != section:
                        record = record.more
                    if record is None:
                        record = add(encoded, section)
                    place.key = key
                    place.record = record
                    {begin}
                    try:
                        results = method({arguments})
                        if results is not None:
                            handle_results(known, results)
                    except BaseException as error:
                        reraise(error)
                    {end}
                except BaseException as error:
                    tell(error, key, window)
                    raise
                record.recent = True
                if place.is_outgrown:
                    place.go_beyond(encoded)
                elif record.values is no_values and record.times is no_times:
                    end_record(record)
                count += 1
                continue
        feed_key(encoded, chunk)
        {ready}
    return count, key, None if known is None else known.with_value(value)
"""


def record_loop(
    place: SmallPlace,
    method: Any,
    passed: list[Argument],
    handle_results: Callable[..., None],
    reraise: Callable[[BaseException], Any],
) -> Any:
    """The loop for a method of a DoFn: ``loop(groups, decode_key, chunks, feed_key, tell)``.

    It takes pairs of an encoded key and its chunk, or an iterable of chunks; ``KeyedChunks`` to
    decode them; ``feed_key(encoded, chunk)`` for the keys that are not for this loop; and what
    notes down where an error was raised. It answers how many elements it has fed, and the last key
    and element, or None.

    Args:
        place: where records of the DoFn have their turns.
        method: ``process``.
        reraise: names the step in an error of user code.
    """
    records = place.records
    names: dict[str, Any] = {
        "NO_CHUNK": NO_CHUNK,
        "UNKNOWN": PANE_INFO_UNKNOWN,
        "UNREAD": UNREAD,
        "add": records.add,
        "borrow": records.borrow,
        "encode_window": place.encode_window,
        "end_record": records.end,
        "handle_results": handle_results,
        "head_of": records.heads.get,
        "method": method.method_value,
        "no_times": records.empty[1],
        "no_values": records.empty[0],
        "place": place,
        "records": records,
        "reraise": reraise,
    }
    arguments: list[str] = []
    ready, begin, end, entered = ["place.window = window"], ["pass"], ["pass"], ["pass"]
    is_timed = False
    for number, each in enumerate(passed):
        name, what = f"asked{number}", each.what
        if isinstance(what, Given):
            names[name] = what.value
        elif isinstance(what, Side):
            names[f"views{number}"] = what.views
            entered.append(f"{name} = views{number}[window]")
        elif isinstance(what, DoFn.StateParam):
            cell = names[name] = place.cells[what.state_spec.name]
            part = f"part{number}"
            names[part] = cell.part
            plain = isinstance(cell, ValueCell)
            begin.append(f"{part}.value = UNREAD" if plain else f"{part}.renew()")
            end += [f"if {part}.is_changed:", f"    {part}.store()"]
        elif isinstance(what, DoFn.TimerParam):
            timer = names[name] = timer_of(place, what.timer_spec)
            if isinstance(timer, ProcessingTimer):
                begin.append(f"{name}.set_at(timestamp, pane)")
                is_timed = True
            else:
                ready.append(f"{name}.set_in(pane)")
        else:
            name = _MARKERS[what]
            is_timed |= name == "timestamp"
        arguments.append(each.written(name))
    source = _filled(
        arguments=[", ".join(arguments)],
        ready=ready,
        begin=begin,
        end=end,
        entered=entered,
        timed=["timestamp = known.timestamp" if is_timed else "pass"],
    )
    filename = f"<compiled loop over records of a stateful DoFn {next(_NUMBERS)}>"
    exec(compile(source, filename, "exec"), names)  # noqa: S102 - our own
    return names["loop"]


def _filled(**parts: list[str]) -> str:
    """The loop with these lines in it, each as far to the right as its place."""
    lines = []
    for line in _LOOP.splitlines():
        name = line.strip().strip("{}")
        if line.strip() == f"{{{name}}}":
            indent = line[: len(line) - len(line.lstrip())]
            lines += [indent + part for part in parts[name]]
        else:
            lines.append(line.replace("{arguments}", parts["arguments"][0]))
    return "\n".join(lines)
