"""Refuses DoFns that cannot wait as they are asked to, before their pipeline is submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apache_beam import ParDo
from apache_beam.pipeline import Pipeline, PipelineVisitor
from apache_beam.transforms.userstate import is_stateful_dofn
from apache_beam.typehints.typecheck import AbstractDoFnWrapper

from sparkdrain.concurrency.concurrently import check_carried, check_stateful, given
from sparkdrain.concurrency.results import waits_anywhere
from sparkdrain.concurrency.settings import Concurrency
from sparkdrain.errors import BadOption, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkdrain.concurrency.settings import AsyncStep


def refuse_impossible(pipeline: Pipeline, async_steps: Mapping[str, AsyncStep]) -> None:
    """Look at all DoFns of a pipeline.

    Args:
        async_steps: what an option says of steps, by their names.

    Raises:
        BadOption: the option names a DoFn that can have one element in flight only.
        Unsupported: a DoFn that waits is of a kind that this runner does not have.
    """
    pipeline.visit(_Look(async_steps))


class _Look(PipelineVisitor):
    def __init__(self, async_steps: Mapping[str, AsyncStep]) -> None:
        self._async_steps = async_steps

    def visit_transform(self, transform_node: Any) -> None:
        transform = transform_node.transform
        if isinstance(transform, ParDo):
            name = transform_node.full_label
            _check(name, transform, self._async_steps.get(name))


def _check(name: str, transform: ParDo, chosen: AsyncStep | None) -> None:
    dofn = transform.fn
    is_looked_at = isinstance(dofn, AbstractDoFnWrapper)
    while isinstance(dofn, AbstractDoFnWrapper):
        dofn = dofn.dofn
    made = given(dofn)
    if not (chosen or made or waits_anywhere(dofn)):
        return
    if is_looked_at and (chosen or made is None):
        msg = (
            f"{name!r} has many elements in flight, which --runtime_type_check cannot look at: "
            "leave that option out"
        )
        raise Unsupported(msg)
    own, settings = made or (dofn, Concurrency())
    if transform.get_restriction_coder() is not None:
        msg = (
            f"{name!r} is splittable, and would have many elements in flight, which this runner "
            "does not have together: put the call that waits into a ParDo behind it"
        )
        raise Unsupported(msg)
    if chosen is None:
        return
    try:
        if chosen.carry_over:
            check_carried(own)
        if is_stateful_dofn(own):
            check_stateful(own, chosen.over(settings))
    except (TypeError, ValueError) as error:
        msg = f"--async_steps cannot name {name!r} so: {error}"
        raise BadOption(msg) from None
