from __future__ import annotations

import pytest

from sparkdrain.coordination.backends.kafka import CONFIG, Backend, client_settings
from sparkdrain.errors import BadSetup


def test_without_a_file_there_are_no_settings():
    assert client_settings({}) == {}


def test_a_file_is_read_as_kafkas_own_tools_read_it(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text(
        "# a remark = none\n\nsecurity.protocol = SASL_SSL\nsasl.mechanism=PLAIN\n"
        "sasl.username=me\nsasl.password=a=b\n"
    )
    assert client_settings({CONFIG: str(path)}) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "me",
        "sasl_plain_password": "a=b",
    }


def test_a_file_that_cannot_be_used_is_named_and_no_line_of_it_is_told(tmp_path):
    with pytest.raises(BadSetup, match=f"{CONFIG} names .*/away.* FileNotFoundError"):
        client_settings({CONFIG: str(tmp_path / "away")})
    (tmp_path / "bad").write_text("security.protocol=SSL\nsesame\n")
    with pytest.raises(BadSetup, match=r"Line 2 of .*/bad is no setting") as told:
        client_settings({CONFIG: str(tmp_path / "bad")})
    assert "sesame" not in str(told.value)


def test_a_store_that_everybody_may_change_is_told_of(monkeypatch, tmp_path):
    monkeypatch.delenv(CONFIG, raising=False)
    (complaint,) = Backend().prepare("h:1/runs", group=False)
    assert "Everybody who reaches Kafka at h:1/runs may read and change" in complaint
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SASL_SSL\nsasl.password=sesame\n")
    path.chmod(0o600)
    monkeypatch.setenv(CONFIG, str(path))
    assert Backend().prepare("h:1/runs", group=False) == []
    path.chmod(0o644)
    (complaint,) = Backend().prepare("h:1/runs", group=False)
    assert f"Other users may read {path}" in complaint
