"""Artifacts are whole or absent, named by their content and verified before use."""

import errno
import json
import os
import re
import shutil
import stat
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sentemb_core.errors import CorruptArtifactError, StorageError, UsageError
from sentemb_core.store import disk
from sentemb_core.store.objects import SETTLED, Store, file_digest, verified
from sentemb_core.types import ArtifactRef


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_equal_content_has_one_digest_and_one_folder(store, put):
    assert put(a="1", b="2") == put(b="2", a="1")
    assert len(list(store.objects.glob("*/*"))) == 1
    assert list(store.tmp.iterdir()) == []


def test_kind_file_name_and_content_change_the_digest(put):
    refs = [put("one", a="1"), put("two", a="1"), put("one", b="1"), put("one", a="2")]
    assert len(set(refs)) == 4


def test_a_failed_writer_leaves_nothing(store):
    with pytest.raises(ZeroDivisionError), store.writing("thing") as draft:
        (draft.path / "a").write_text(str(1 / len(list(draft.path.iterdir()))))
    assert files_of(store.root) == []


def test_folders_inside_an_artifact_are_kept(store):
    with store.writing("model") as draft:
        (draft.path / "1_Pooling").mkdir()
        (draft.path / "1_Pooling" / "config.json").write_text("{}")
    assert (store.path(draft.ref) / "1_Pooling" / "config.json").read_text() == "{}"
    assert draft.ref.size == 2


def test_an_unfinished_draft_has_no_reference(store):
    with store.writing("thing") as draft:
        (draft.path / "a").write_text("1")
        with pytest.raises(AttributeError):
            _ = draft.ref


def test_an_artifact_without_files_is_refused(store):
    with pytest.raises(UsageError, match="'thing'"), store.writing("thing"):
        pass


HOSTILE = [".hidden", "-rf", "a b", "naïve", "new\nline", "\u202eltr", "%2e%2e", "a" * 201]
HOSTILE += ["\udce9", "~"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_name_is_refused(store, name):
    part = ascii(name)[1:80].split("/")[0].rstrip("'")
    with pytest.raises(UsageError, match=re.escape(part)), store.writing("thing") as draft:
        (draft.path / name).write_text("x")
    assert files_of(store.root) == []


@pytest.mark.parametrize("name", ["../../evil", "/etc/evil", "..", "a/b", "", "x\0y"])
def test_a_hostile_name_of_a_work_folder_or_lock_is_refused(store, name):
    with pytest.raises(UsageError):
        store.work(name)
    with pytest.raises(UsageError):
        store.lock(name)


def test_links_and_devices_are_refused(store, tmp_path):
    (tmp_path / "secret").write_text("x")
    for make in (lambda path: path.symlink_to(tmp_path / "secret"), os.mkfifo):
        with pytest.raises(UsageError, match="/link"), store.writing("thing") as draft:
            make(draft.path / "link")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def link(path: Path) -> None:
    path.rename(path.parents[1] / "elsewhere")
    path.symlink_to(path.parents[1] / "elsewhere")


def other_kind(manifest: Path) -> None:
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"kind": "other"}))


DAMAGES = {
    "flip": ("data/text", flip),
    "truncate": ("data/text", lambda path: path.write_bytes(path.read_bytes()[:-1])),
    "zeros": ("data/text", lambda path: path.write_bytes(bytes(path.stat().st_size))),
    "delete file": ("data/text", Path.unlink),
    "extra file": ("data/pytorch_model.bin", lambda path: path.write_text("x")),
    "link": ("data/text", link),
    "flip manifest": ("manifest.json", flip),
    "delete manifest": ("manifest.json", Path.unlink),
    "other manifest": ("manifest.json", other_kind),
}
"""Damage as disks and people do: the file in the artifact's folder, and what happens to it."""


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_artifact_is_set_aside_and_replaceable(store, put, kind):
    ref = put(text="the quick brown fox")
    store.path(ref)
    name, damage = DAMAGES[kind]
    damage(store.folder(ref.digest) / name)
    with pytest.raises(CorruptArtifactError) as caught:
        store.path(ref)
    assert str(caught.value).count("E600") == 1
    assert len(list(store.quarantine.iterdir())) == 1
    with pytest.raises(CorruptArtifactError, match=f"{ref} .*{store.root}"):
        store.path(ref)
    assert put(text="the quick brown fox") == ref
    assert store.holds(ref)


def test_a_write_replaces_an_artifact_with_unseen_damage(store, put):
    ref = put(text="fox")
    flip(store.folder(ref.digest) / "data" / "text")
    assert put(text="fox") == ref
    assert (store.path(ref) / "text").read_text() == "fox"
    assert len(list(store.quarantine.iterdir())) == 1


@pytest.mark.parametrize("number", [errno.ENOTEMPTY, errno.EEXIST])
def test_the_second_of_two_writers_keeps_the_first_artifact(store, put, monkeypatch, number):
    """File systems differ in the error for an existing folder."""

    def perform(operation, path, *args):
        if operation.__name__ == "rename_to" and path.is_relative_to(store.tmp):
            shutil.copytree(path, args[0])
            raise OSError(number, os.strerror(number))
        return operation(path, *args)

    monkeypatch.setattr(disk, "perform", perform)
    assert store.holds(put())
    assert list(store.tmp.iterdir()) == []


def test_find_needs_exactly_one_match(store, put):
    one, _ = put(text="one"), put(text="other")
    assert store.find(one.digest[:12]) == one
    for beginning, count in (("", 2), ("x", 0)):
        with pytest.raises(UsageError, match=rf" {count} matches of '{beginning}'"):
            store.find(beginning)


def test_find_refuses_a_broken_manifest_with_one_code(store, put):
    ref = put(text="one")
    flip(store.folder(ref.digest) / "manifest.json")
    with pytest.raises(CorruptArtifactError) as caught:
        store.find(ref.digest[:12])
    assert str(caught.value).count("E600") == 1


def test_an_artifact_that_another_process_set_aside_is_no_failure(store):
    store.set_aside(store.folder("a" * 64), "broken")
    assert list(store.quarantine.iterdir()) == []


def test_two_swapped_artifacts_are_both_found(store, put):
    one, two = put(text="one"), put(text="two")
    first, second = store.folder(one.digest), store.folder(two.digest)
    first.rename(store.root / "aside")
    second.rename(first)
    (store.root / "aside").rename(second)
    assert not store.holds(one)
    assert not store.holds(two)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(position=st.integers(0), bit=st.integers(0, 7), in_manifest=st.booleans())
def test_any_flipped_bit_is_found(store, put, position, bit, in_manifest):
    ref = put(text="the quick brown fox jumps over the lazy dog")
    folder = store.folder(ref.digest)
    path = folder / "manifest.json" if in_manifest else folder / "data" / "text"
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 1 << bit
    path.write_bytes(content)
    with pytest.raises(CorruptArtifactError):
        store.verify(ref)


def test_a_wrong_kind_or_size_in_a_reference_is_refused(store, put):
    ref = put("graph")
    for lie in (ref.model_copy(update={"kind": "model"}), ref.model_copy(update={"size": 1})):
        with pytest.raises(
            CorruptArtifactError, match=f"{lie} of {lie.size} .*{ref} of {ref.size} "
        ):
            store.path(lie)
    assert store.holds(ref)


@pytest.mark.parametrize("digest", ["../../x", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_a_reference_cannot_name_a_path(digest):
    with pytest.raises(ValidationError, match="digest"):
        ArtifactRef(kind="thing", digest=digest, size=0)


def test_an_unchanged_file_is_hashed_once_per_process(store, put, monkeypatch, performed):
    def hashed() -> int:
        return sum(operation == "sha256" for operation, _ in performed)

    ref = put()
    past = 1_000_000_000
    os.utime(store.folder(ref.digest) / "data" / "text", (past, past))
    monkeypatch.setattr("sentemb_core.store.objects.SETTLED", 0)
    performed.clear()
    store.path(ref)
    Store(store.root).path(ref)
    assert hashed() == 1
    verified(store.folder(ref.digest), deep=True)
    assert hashed() == 2


def test_a_change_with_equal_size_and_time_is_found(store, put, monkeypatch):
    ref = put(text="one")
    monkeypatch.setattr("sentemb_core.store.objects.SETTLED", 0)
    store.path(ref)
    path = store.folder(ref.digest) / "data" / "text"
    before = path.stat()
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the file system's clock may be coarse
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not store.holds(ref)


def test_a_file_changed_within_a_clock_tick_is_hashed_again(tmp_path, monkeypatch):
    """A file rewritten within one tick has the same size and times."""
    path = tmp_path / "text"
    path.write_text("one")
    written = path.stat()
    changed = max(written.st_mtime_ns, written.st_ctime_ns)
    monkeypatch.setattr(Path, "stat", lambda *_, **__: written)
    monkeypatch.setattr(time, "time_ns", lambda: changed + SETTLED)
    before = file_digest(path)
    path.write_text("two")
    assert file_digest(path) != before


def test_a_full_disk_in_a_library_is_a_storage_error(store):
    for text in ("No space left on device (os error 28)", "[Errno 28] Error writing bytes"):
        with pytest.raises(StorageError) as caught, store.writing("thing"):
            raise RuntimeError(text)
        assert caught.value.errno == errno.ENOSPC
        assert str(store.tmp) in str(caught.value)
    assert files_of(store.root) == []


def test_a_file_larger_than_the_limit_gives_e601(python, store):
    child = python(
        """
import json, resource
from sentemb_core.errors import StorageError
from sentemb_core.store.objects import Store
import numpy, safetensors.numpy
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
def plain(path): path.write_bytes(bytes(1 << 20))
def tensors(path): safetensors.numpy.save_file({"a": numpy.zeros(1 << 18)}, path)
errors = []
for write in (plain, tensors):
    try:
        with Store.default().writing("model") as draft:
            write(draft.path / "weights")
    except StorageError as error:
        errors.append(str(error))
print(json.dumps(errors))
"""
    )
    errors = child.json()
    assert [text[:4] for text in errors] == ["E601", "E601"]
    assert all(str(store.tmp) in text for text in errors)
    assert files_of(store.root) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_without_permission_gives_e601(store):
    store.root.mkdir(parents=True)
    store.root.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(StorageError) as caught, store.writing("thing"):
        pass
    assert caught.value.errno == errno.EACCES
