"""Decision records have one format, a status and a place in the index."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT

FOLDER = ROOT / "docs/decisions"
RECORDS = sorted(FOLDER.glob("[0-9]*.md"))
SECTIONS = ["Context", "Decision", "Consequences", "Measured", "Rejected", "Open", "Shown by"]
OTHER = r"\[decision (\d+)\]\((\d{4})-[\w-]+\.md\)"
STATUS = re.compile(rf"Accepted\.|Accepted, changed by {OTHER}: .+\.|Superseded by {OTHER}\.")
_each_record = pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name[:4])


def test_records_are_numbered_without_a_gap():
    assert [int(record.name[:4]) for record in RECORDS] == list(range(1, len(RECORDS) + 1))


@_each_record
def test_a_record_begins_with_its_number_and_a_status(record):
    title, empty, status, *_ = record.read_text(encoding="utf-8").split("\n")
    number = int(record.name[:4])
    assert re.fullmatch(rf"# {number}\. \S.*", title)
    assert empty == ""
    found = STATUS.fullmatch(status.removeprefix("**Status.** "))
    assert found, status
    later = [int(other) for other in found.groups() if other]
    assert all(number < other <= len(RECORDS) for other in later)
    assert later[::2] == later[1::2], "the text of the link and its target differ"


@_each_record
def test_a_record_has_the_sections_in_their_order(record):
    text = record.read_text(encoding="utf-8")
    found = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert found[:2] == SECTIONS[:2]
    assert found == [section for section in SECTIONS if section in found]
    assert all(part.strip() for part in re.split(r"^## .*$", text, flags=re.MULTILINE))


@_each_record
def test_a_record_stands_in_the_index_under_its_number_and_title(record):
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    title = record.read_text(encoding="utf-8").partition("\n")[0].partition(". ")[2]
    assert index.count(f"| [{record.name[:4]}](decisions/{record.name}) | {title} |\n") == 1
