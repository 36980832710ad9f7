from __future__ import annotations

from sparkdrain.jobs.local import without_fork_support

NAME = "GRPC_ENABLE_FORK_SUPPORT"


def test_programs_that_are_started_later_do_not_inherit_the_setting():
    environ = {"OTHER": "1"}
    with without_fork_support(environ):
        assert environ[NAME] == "false"
    assert environ == {"OTHER": "1"}


def test_what_the_user_says_stays():
    environ = {NAME: "true"}
    with without_fork_support(environ):
        assert environ[NAME] == "true"
    assert environ == {NAME: "true"}
