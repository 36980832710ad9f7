"""How laws are tested whose every example is a whole job."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

_TIMES_IN_A_SEARCH = 20


def law(examples: int, *suppressed: HealthCheck) -> settings:
    """Settings for so many examples, twenty times as many in a search.

    None is made smaller if it fails: that takes minutes, and they are short enough to read.

    Args:
        examples: how many on every change.
        suppressed: health checks that do not apply, beside that of being slow.
    """
    is_search = settings().max_examples > settings.get_profile("same").max_examples
    return settings(
        max_examples=examples * (_TIMES_IN_A_SEARCH if is_search else 1),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, *suppressed],
        phases=[Phase.explicit, Phase.generate],
    )
