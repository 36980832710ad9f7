"""Writes the source of a chain: one function, depth first per element.

Maps are nested as calls on lines of their own, generators as ``for`` loops, filters as ``if``.
Which step is at work can be told from the line, which is how errors and metrics find their step.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import TimestampedValue, WindowedValue

from sparkdrain.harness.compiled.steps import StepKind
from sparkdrain.harness.compiled.unwrap import Unwrap, main_receiver
from sparkdrain.harness.sampling import SampleSchedule, size_sampler
from sparkdrain.shuffle.grouping import PLAIN_KEYS
from sparkdrain.shuffle.keys import refuse_pair

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from sparkdrain.harness.compiled.steps import Step, Steps

# CPython allows 20 nested blocks; what is deeper goes on in a function of its own.
_DEEPEST = 12
# A step is emitted by a few nested calls; Python allows about a thousand.
_LONGEST = 100
WRAPPED = frozenset({TaggedOutput, TimestampedValue, WindowedValue})
_NUMBERS = itertools.count()


@dataclass(slots=True)
class Chain:
    """A generated function ``run(values, context)`` and what its lines stand for."""

    run: Callable[[Any, Any], None]
    code: CodeType
    lines: dict[int, Step]
    """The step whose user code a line runs; other lines leave the chain."""
    leaving: dict[int, Step]
    """The step that has made an element, by the line that takes the element out of the chain."""
    first: str
    """Id of the transform that it starts with."""


@dataclass(slots=True)
class Emitter:
    """Collects source lines and the names they refer to.

    Args:
        steps: the step that a transform is, or None.
        entry: the operation that takes the elements of a transform that is no step.
        observe: gives, when values are run, the observer that hears of the context of each result
            of the first step before anything else does; None if there is no observer.
    """

    steps: Steps
    entry: Callable[[str], Any]
    observe: Callable[[], Callable[[Any], None] | None] | None
    names: dict[str, Any] = field(
        default_factory=lambda: {
            "WRAPPED": WRAPPED,
            "TIMED": TimestampedValue,
            "NOT_RESULTS": frozenset({str, bytes, dict}),
            "refuse": refuse,
            "refuse_pair": refuse_pair,
        }
    )
    body: list[str] = field(default_factory=list)
    lines: dict[int, Step] = field(default_factory=dict)
    leaving: dict[int, Step] = field(default_factory=dict)
    maker: Step | None = None
    """The step whose result the present value is."""
    counters: list[tuple[str, Callable[[int], None]]] = field(default_factory=list)
    samples: list[tuple[str, Step]] = field(default_factory=list)
    """Statements that sample sizes of what a step has made."""
    starts: list[str] = field(default_factory=list)
    """Statements to run before the first element."""
    numbers: Any = field(default_factory=itertools.count)
    length: int = 0
    """How many steps there are from the root to the present one."""

    def line(self, indent: int, text: str, step: Step | None = None) -> None:
        self.body.append("    " * indent + text)
        if step is not None:
            self.lines[len(self.body)] = step

    def leave_line(self, indent: int, text: str) -> None:
        self.line(indent, text)
        if self.maker is not None:
            self.leaving[len(self.body)] = self.maker

    def name(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{next(self.numbers)}"
        self.names[name] = value
        return name

    def fresh(self, prefix: str) -> str:
        return f"{prefix}{next(self.numbers)}"

    def subtree(
        self, ids: list[str], v: str, c: str, depth: int, blocks: int, *, last: bool
    ) -> None:
        """Emit all consumers of a value; ``last``: nothing follows in the enclosing loop."""
        if not ids:
            self.line(depth, "pass")
        self.length += 1
        for number, id_ in enumerate(ids):
            step = self.steps[id_]
            final = last and number == len(ids) - 1
            if step is None or blocks > _DEEPEST or self.length > _LONGEST:
                leave = self.name("leave", self.entry(id_).process)
                self.leave_line(depth, f"{leave}({c}.with_value({v}))")
            else:
                self.step(step, v, c, depth, blocks, last=final)
        self.length -= 1

    def step(self, step: Step, v: str, c: str, depth: int, blocks: int, *, last: bool) -> None:
        f = "" if step.kind is StepKind.IDENTITY else self.name("f", step.function)
        match step.kind:
            case StepKind.FOLD:
                self.fold(step, f, v, c, depth)
            case StepKind.END:
                self.leave_line(depth, f"{f}({v}, {c})")
            case StepKind.IDENTITY:
                self.after(step, v, c, depth, blocks, last=last, fresh=False)
            case StepKind.MAP | StepKind.MAP_TUPLE:
                out = self.fresh("v")
                star = "*" if step.kind is StepKind.MAP_TUPLE else ""
                self.line(depth, f"{out} = {f}({star}{v})", step)
                self.after(step, out, c, depth, blocks, last=last, fresh=True)
            case StepKind.MAP_VALUE:
                out = self.fresh("v")
                self.line(depth, f"{out} = {v}[0], {f}({v}[1])", step)
                self.after(step, out, c, depth, blocks, last=last, fresh=False)
            case StepKind.ASSIGN_WINDOWS:
                context = self.assigned(step, f, v, c, depth)
                self.after(step, v, context, depth, blocks, last=last, fresh=False)
            case StepKind.RESULTS:
                self.after(step, v, c, depth, blocks, last=last, fresh=True)
            case StepKind.FILTER:
                out = self.fresh("v")
                self.line(depth, f"if {f}({v}):", step)
                self.line(depth + 1, f"{out} = {v}")
                self.after(step, out, c, depth + 1, blocks, last=last, fresh=False)
            case StepKind.FLAT_MAP | StepKind.GENERATOR:
                self.results(step, f, v, c, depth, blocks)

    def results(self, step: Step, f: str, v: str, c: str, depth: int, blocks: int) -> None:
        """Emit the loop over what a step makes of one value."""
        out = self.fresh("v")
        results = f"{f}({v})"
        if step.kind is StepKind.FLAT_MAP:
            results = self.fresh("r")
            self.line(depth, f"{results} = {f}({v})", step)
            if step.checks_results:
                self.line(depth, f"if type({results}) in NOT_RESULTS:")
                self.line(depth + 1, f"refuse({results})", step)
            self.line(depth, f"if {results} is not None:")
            depth += 1
        self.line(depth, f"for {out} in {results}:", step)
        self.after(step, out, c, depth + 1, blocks + 1, last=True, fresh=True)

    def fold(self, step: Step, f: str, v: str, c: str, depth: int) -> None:
        """Emit a precombine: the accumulator of a known key in a single window is at hand.

        The table is asked for again whenever the context changes and after every other add,
        which may have flushed it.
        """
        key, item, table, known = (self.fresh(prefix) for prefix in "kxto")
        self.starts += [f"{table} = {known} = None"]
        table_of = self.name("table", step.operation.table_of)
        plain = self.name("PLAIN", PLAIN_KEYS)
        add_input = self.name("add", step.operation.add_input)
        self.line(depth, f"try: {key}, {item} = {v}")
        self.leave_line(depth, f"except (TypeError, ValueError): refuse_pair({v})")
        self.line(depth, f"if {c} is not {known}:")
        self.line(depth + 1, f"{table} = {table_of}({c}); {known} = {c}")
        self.line(depth, f"if type({key}) in {plain} and {key} in {table}:")
        self.line(depth + 1, f"{table}[{key}] = {add_input}({table}[{key}], {item})", step)
        self.line(depth, "else:")
        self.line(depth + 1, f"{f}({v}, {c})", step)
        self.line(depth + 1, f"{table} = {table_of}({c})")

    def assigned(self, step: Step, f: str, v: str, c: str, depth: int) -> str:
        """Emit the assignment of windows; the name of the new context."""
        assigned = self.fresh("c")
        if not step.function.is_by_time:  # type: ignore[union-attr]
            self.line(depth, f"{assigned} = {f}({c}, {v})", step)
            return assigned
        known = self.fresh("o")
        self.starts += [f"{assigned} = {known} = None"]
        self.line(depth, f"if {c} is not {known}:")
        self.line(depth + 1, f"{assigned} = {f}({c}, {v}); {known} = {c}", step)
        return assigned

    def observer(self, step: Step) -> str:
        """The name of the observer that hears of results of a step; empty if there can be none."""
        if step.kind is not StepKind.RESULTS or self.observe is None:
            return ""
        observe = self.fresh("b")
        self.starts += [f"{observe} = {self.name('observe', self.observe)}()"]
        return observe

    def unwrapped(self, step: Step, v: str, c: str, depth: int, observe: str, *, last: bool) -> str:
        """Emit what takes ``v`` apart; the name of the context, None if ``v`` went elsewhere.

        A timestamped value goes on in a context of its own, which is known already if it is of
        the same time as the one before.
        """
        context = self.fresh("c")
        take_apart = Unwrap(step, _asked(self.observe) if observe else None)
        unwrap = self.name("unwrap", take_apart)
        self.line(depth, f"{context} = {c}")
        case = "if"
        if take_apart.is_by_time:
            at = self.name("at", take_apart.at)
            time, of, timed = (self.fresh(prefix) for prefix in "toc")
            self.starts += [f"{time} = {of} = {timed} = None"]
            self.line(depth, f"if type({v}) is TIMED:")
            self.line(depth + 1, f"if {v}.timestamp is not {time} or {c} is not {of}:")
            self.line(depth + 2, f"{timed} = {at}({v}, {c})")
            self.line(depth + 2, f"{time} = {v}.timestamp; {of} = {c}")
            self.line(depth + 1, f"{v} = {v}.value; {context} = {timed}")
            case = "elif"
        self.line(depth, f"{case} type({v}) in WRAPPED:")
        self.line(depth + 1, f"{v}, {context} = {unwrap}({v}, {c})")
        if last:
            self.line(depth + 1, f"if {context} is None: continue")
        return context

    def after(
        self, step: Step, v: str, c: str, depth: int, blocks: int, *, last: bool, fresh: bool
    ) -> None:
        """Emit what becomes of a step's result ``v``."""
        if fresh and step.may_yield_wrapped:
            observe = self.observer(step)
            context = self.unwrapped(step, v, c, depth, observe, last=last)
            if not last:
                self.line(depth, f"if {context} is not None:")
                depth += 1
            c = context
            if observe:
                self.line(depth, f"if {observe} is not None: {observe}({c})")
            if step.has_tags:
                # Names that hold to the last value of the main output.
                kept, c = self.fresh("v"), self.fresh("c")
                self.line(depth, f"{kept}, {c} = {v}, {context}")
                v = kept
        receiver = main_receiver(step)
        if receiver is not None:
            counter = self.fresh("n")
            self.counters.append((counter, receiver.opcounter.element_counter.update))
            self.line(depth, f"{counter} += 1")
            sizer = size_sampler(receiver)
            if sizer is not None:
                # Sampled once a run: the last value stands in its variable still.
                size = self.name("size", sizer)
                sample = f"if {counter} and {c} is not None: {size}({v}, {c})"
                self.samples.append((sample, step))
        before, self.maker = self.maker, step
        self.subtree(step.consumers, v, c, depth, blocks, last=last)
        self.maker = before


def refuse(results: Any) -> None:
    """What is to be iterated over must not be one of the values that a user forgot to wrap.

    Raises:
        TypeError: it is.
    """
    msg = (
        f"Returning a {type(results).__name__} from a ParDo or FlatMap is not allowed. "
        f"Please use list({results!r}) if you really want this behavior."
    )
    raise TypeError(msg)


def _asked(observe: Any) -> Callable[[Any], None]:
    def ask(context: Any) -> None:
        hears = observe()
        if hears is not None:
            hears(context)

    return ask


def generate(root: Step, emitter: Emitter) -> Chain:
    """The function that runs ``root`` and everything behind it."""
    emitter.line(0, "def run(values, c):")
    start = len(emitter.body)
    emitter.line(1, "pass")  # what is to be set first, once it is known
    emitter.line(1, "for v in values:", root if root.kind is StepKind.RESULTS else None)
    emitter.step(root, "v", "c", 2, 1, last=True)
    for counter, count in emitter.counters:
        emitter.line(1, f"{emitter.name('count', count)}({counter})")
    if emitter.samples:
        emitter.line(1, f"if {emitter.name('due', SampleSchedule())}():")
        for sample, step in emitter.samples:
            emitter.maker = step
            emitter.leave_line(2, sample)
    starts = [*emitter.starts, *(f"{counter} = 0" for counter, _ in emitter.counters)]
    emitter.body[start] = f"    {'; '.join(starts) or 'pass'}"
    source = "\n".join(emitter.body) + "\n"
    filename = f"<compiled chain {next(_NUMBERS)} from {root.transform}>"
    exec(compile(source, filename, "exec"), emitter.names)  # noqa: S102 - our own source
    run = emitter.names["run"]
    return Chain(run, run.__code__, emitter.lines, emitter.leaving, root.transform)
