"""Beam's suite for runners that speak the Fn API, and what its own runner is tested for beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from apache_beam.metrics import monitoring_infos
from apache_beam.portability.api import beam_job_api_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner, fn_runner_test
from marked import slow
from pipelines import OnSparkDrain

from sparkdrain.metrics.merge import Metrics

if TYPE_CHECKING:
    from sparkdrain.stages.telling.report import SlotReport


@pytest.mark.slow
class FnApiRunnerSuite(OnSparkDrain, fn_runner_test.FnApiRunnerTest):
    """Without compiled stages.

    On every change, the portable suite has the same tests with compiled stages, and
    ``FnApiRunnerSuiteInRounds`` without them.
    """

    compiled = "off"

    # They wait for a quarter of a minute each.
    test_pardo_et_timer_with_no_firing = slow(
        fn_runner_test.FnApiRunnerTest.test_pardo_et_timer_with_no_firing
    )
    test_pardo_et_timer_with_no_reset = slow(
        fn_runner_test.FnApiRunnerTest.test_pardo_et_timer_with_no_reset
    )
    test_pardo_et_timer_with_no_reset_and_no_clear = slow(
        fn_runner_test.FnApiRunnerTest.test_pardo_et_timer_with_no_reset_and_no_clear
    )


@pytest.mark.slow
class FnApiRunnerSuiteCompiled(FnApiRunnerSuite):
    """With compiled stages."""

    compiled = "on"


class StateBackedCoderSuite(OnSparkDrain, fn_runner_test.FnApiBasedStateBackedCoderTest):
    """Values of a key that must not be in memory together."""


class FnApiRunnerMetricsSuite(OnSparkDrain, fn_runner_test.FnApiRunnerMetricsTest):
    """The results answer the two questions that only FnApiRunner's result knows.

    Metrics by stage are those that the slots of the stage's level have reported.
    """

    compiled = "off"

    @pytest.fixture(autouse=True)
    def _by_level(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_level: dict[int, Metrics] = {}
        add = Metrics.add

        def add_and_keep(metrics: Metrics, report: SlotReport) -> None:
            add(metrics, report)
            add(self.by_level.setdefault(report.level, Metrics()), report)

        monkeypatch.setattr(Metrics, "add", add_and_keep)

    def create_pipeline(self, is_drain: bool = False) -> Any:
        self.by_level.clear()
        pipeline = super().create_pipeline(is_drain)
        run = pipeline.run

        def run_and_add_metrics(*args: Any, **kwargs: Any) -> Any:
            result = run(*args, **kwargs)
            result.wait_until_finish()
            infos = _infos(result)
            result.monitoring_metrics = lambda: fn_runner.FnApiMetrics(
                {"all": infos}, user_metrics_only=False
            )
            by_level = {str(level): found.committed() for level, found in self.by_level.items()}
            # Beam's runner has an entry without a name, for what belongs to no stage.
            result._monitoring_infos_by_stage = {"": [], **by_level}
            return result

        pipeline.run = run_and_add_metrics
        return pipeline


class FnApiRunnerMetricsSuiteCompiled(FnApiRunnerMetricsSuite):
    """With compiled stages."""

    compiled = "on"


def _infos(result: Any) -> list[Any]:
    request = beam_job_api_pb2.GetJobMetricsRequest(job_id=result.job_id)
    metrics = result._job_service.GetJobMetrics(request).metrics
    assert sorted(map(monitoring_infos.to_key, metrics.attempted), key=str)
    return list(metrics.committed)
