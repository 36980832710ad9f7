"""A driver that waits gets ready when it may lead soon, and gives back what it took for that."""

from __future__ import annotations

from types import SimpleNamespace

from sparkdrain.rounds.driver.contender import DurableContender


def test_executors_are_summoned_while_the_leader_is_silent_and_dismissed_when_it_is_not():
    told: list[str] = []
    executors = SimpleNamespace(
        summon=lambda: told.append("summon"), dismiss=lambda: told.append("dismiss")
    )
    contender = DurableContender(SimpleNamespace(), lambda: True, executors)
    for is_next in (False, True, True, False):
        contender.expect(is_next=is_next)
    assert told == ["dismiss", "summon", "summon", "dismiss"]
