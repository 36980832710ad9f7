"""What a store in Azure's tables decides before any service is asked."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkdrain.coordination.backends import azure
from sparkdrain.coordination.backends.azure import (
    ACCOUNT,
    CONNECTION_STRING,
    AzureStore,
    row_name,
    table_name,
)
from sparkdrain.errors import BadSetup

CONTAINERS = st.from_regex(r"[a-z0-9](-?[a-z0-9]){2,31}", fullmatch=True)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)


@example("a-bc", "ab-c")
@example("a-bc", "abc")
@example("1abc", "abc")
@given(CONTAINERS, CONTAINERS)
def test_each_container_has_a_table_of_its_own_with_a_name_that_azure_takes(one, other):
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9]{2,62}", table_name(one))
    assert (table_name(one) == table_name(other)) == (one == other)


@example("a_b", "a/b")
@example("é" * 200, "é" * 199 + "è")
@given(KEYS, KEYS)
def test_each_key_has_a_row_of_its_own_with_a_name_that_azure_takes(one, other):
    assert (row_name(one) == row_name(other)) == (one == other)
    assert re.fullmatch(r"[A-Za-z0-9._h-]{1,500}", row_name(one))


@given(KEYS, KEYS)
def test_rows_of_keys_with_a_prefix_are_in_one_range(prefix, rest):
    begin = azure._escaped(prefix)[:400]
    assert begin <= row_name(prefix + rest) < begin + "~"


def test_an_account_must_be_told():
    with pytest.raises(BadSetup, match=f"azure:jobs needs an account: set {CONNECTION_STRING}"):
        AzureStore("jobs", {})


def test_what_is_no_connection_string_is_not_told():
    with pytest.raises(BadSetup, match=f"{CONNECTION_STRING} is no connection string") as told:
        AzureStore("jobs", {CONNECTION_STRING: "sesame"})
    assert "sesame" not in str(told.value)
    assert told.value.__cause__ is None


def test_who_names_an_account_uses_an_identity(monkeypatch):
    made = []

    class Identity:
        pass

    def client(endpoint, credential, **more):
        made.append((endpoint, credential))
        raise BadSetup

    monkeypatch.setattr(azure, "DefaultAzureCredential", Identity)
    monkeypatch.setattr(azure, "TableServiceClient", client)
    with pytest.raises(BadSetup):
        AzureStore("jobs", {ACCOUNT: "mine"})
    ((endpoint, credential),) = made
    assert endpoint == "https://mine.table.core.windows.net"
    assert isinstance(credential, Identity)
