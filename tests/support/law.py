"""How laws are tested whose every example is a whole job."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings


def law(examples: int, *suppressed: HealthCheck) -> settings:
    """Settings for so many examples, ten times as many in a search.

    None is made smaller if it fails: that takes minutes, and they are short enough to read.

    Args:
        examples: how many on every change.
        suppressed: health checks that do not apply, beside that of being slow.
    """
    return settings(
        max_examples=examples * settings().max_examples // 100,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, *suppressed],
        phases=[Phase.explicit, Phase.generate],
    )
