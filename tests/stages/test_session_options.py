"""A session that is there already warns of options that it cannot follow, and of no other."""

from __future__ import annotations

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from sparkdrain.options import JobSettings
from sparkdrain.stages.cluster.context import warn_of_no_effect


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ([], []),
        (["--spark_master_url=local[2]"], []),
        (["--spark_master_url=local[7]"], ["--spark_master_url=local[7]"]),
        (["--spark_conf=spark.a=b"], ["--spark_conf"]),
    ],
    ids=["nothing", "the same master", "another master", "properties"],
)
def test_what_is_asked_for_in_vain_is_named(flags, named, caplog):
    warn_of_no_effect("local[2]", JobSettings.from_options(PipelineOptions(flags), environ={}))
    assert [record.getMessage().split(" has no effect")[0] for record in caplog.records] == named
