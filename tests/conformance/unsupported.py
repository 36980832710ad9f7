"""What Beam's suites test and this runner does not do yet: test -> reason.

A test listed here must fail: one that starts to pass fails the suite until its line is removed.
"""

from __future__ import annotations

_TEST_STREAM = "needs TestStream"
_DRAIN = "needs drain"

UNSUPPORTED: dict[str, str] = {
    # The portable suite skips these by itself.
    "FnApiRunnerSuite.test_draining_sdf_with_sdf_initiated_checkpointing": _DRAIN,
    "FnApiRunnerSuite.test_sdf_default_truncate_when_bounded": _DRAIN,
    "FnApiRunnerSuite.test_sdf_default_truncate_when_unbounded": _DRAIN,
    "FnApiRunnerSuite.test_sdf_with_truncate": _DRAIN,
    "DeduplicateTest.test_deduplication_in_different_windows": _TEST_STREAM,
    "SideInputsTest.test_multi_triggered_gbk_side_input": _TEST_STREAM,
}
