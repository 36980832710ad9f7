"""What is kept of a class path for the JVM that waits for the next job."""

from __future__ import annotations

import hashlib
import os

import pytest

from sparkdrain.fnapi import class_paths

LOADED = """java.lang.Object source: shared objects file
org.apache.beam.fn.harness.FnHarness source: file:/a/harness.jar
org.apache.beam.sdk.Made$$Lambda/0x0 source: org.apache.beam.sdk.Made
my.own.Program source: file:/a/mine.jar
org.joda.time.Instant source: file:/a/joda.jar
"""


@pytest.fixture
def jars(tmp_path):
    made = {}
    for name in ("b.jar", "a.jar"):
        made[name] = tmp_path / "job" / name
        made[name].parent.mkdir(exist_ok=True)
        made[name].write_text(f"content of {name}")
    return made


@pytest.fixture
def loaded(tmp_path):
    (tmp_path / "loaded").write_text(LOADED)
    return tmp_path / "loaded"


def test_jars_come_in_their_order_and_beams_classes_alone_are_loaded_ahead(tmp_path, jars, loaded):
    home = tmp_path / "home"
    class_paths.remember(home, jars, {}, loaded)
    known = home / class_paths.digest_of(jars, {})
    assert class_paths.newest(home, known.stat().st_mtime + 5) == known
    copies = class_paths.copied_jars(known, tmp_path / "copies")
    assert [(each.name, each.read_text()) for each in copies] == [
        ("b.jar", "content of b.jar"),
        ("a.jar", "content of a.jar"),
    ]
    names = (known / class_paths.CLASSES).read_text().splitlines()
    assert names == ["org.apache.beam.fn.harness.FnHarness", "org.joda.time.Instant"]


def test_a_jar_that_a_job_has_changed_is_never_given_to_another_job(tmp_path, jars, loaded):
    home = tmp_path / "home"
    class_paths.remember(home, jars, {}, loaded)
    known = home / class_paths.digest_of(jars, {})
    jars["a.jar"].write_text("another content")
    assert not class_paths.copied_jars(known, tmp_path / "copies")
    assert class_paths.newest(home, 0.0) is None


def test_other_contents_names_and_orders_are_other_class_paths(jars):
    digests = {
        class_paths.digest_of(jars, {}),
        class_paths.digest_of(dict(reversed(jars.items())), {}),
    }
    digests.add(class_paths.digest_of({"c.jar": jars["a.jar"], "b.jar": jars["b.jar"]}, {}))
    jars["a.jar"].write_text("another content")
    digests.add(class_paths.digest_of(jars, {}))
    assert len(digests) == 4


def test_a_jar_whose_hash_is_known_is_not_read(jars, tmp_path, loaded):
    hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in jars.items()}
    read = class_paths.digest_of(jars, {})
    unread = dict.fromkeys(jars, tmp_path / "nowhere")
    assert class_paths.digest_of(unread, hashes) == read
    home = tmp_path / "home"
    class_paths.remember(home, jars, {"a.jar": "0" * 64}, loaded)
    assert not class_paths.copied_jars(next(home.iterdir()), tmp_path / "copies"), "it was a lie"


def test_two_class_paths_are_kept_and_one_that_was_not_used_for_long_is_not_waited_for(
    tmp_path, jars, loaded
):
    home = tmp_path / "home"
    digests = []
    for number in range(3):
        jars["a.jar"].unlink(missing_ok=True)
        jars["a.jar"].write_text(f"version {number}")
        class_paths.remember(home, jars, {}, loaded)
        digests.append(class_paths.digest_of(jars, {}))
        os.utime(home / digests[-1], (1000 * number, 1000 * number))
    assert {each.name for each in home.iterdir()} == set(digests[1:])
    assert class_paths.newest(home, 2001.0) == home / digests[2]
    assert class_paths.newest(home, 2001.0 + class_paths.FRESH_SECONDS) is None
    class_paths.use(home, digests[1])
    assert class_paths.newest(home, 0.0) == home / digests[1]


def test_what_cannot_be_kept_is_left_and_no_job_fails_of_it(tmp_path, jars):
    class_paths.remember(tmp_path / "home", jars, {}, tmp_path / "there-is-none")
    assert not list((tmp_path / "home").iterdir())
    assert class_paths.newest(tmp_path / "nowhere", 0.0) is None
