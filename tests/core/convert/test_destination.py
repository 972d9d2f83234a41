"""How a conversion treats the files that it finds in its destination."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, a_folder, some_shards
from tests.core.conversions import convert_to
from wdsctl.core.convert import convert as convert_module
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.errors import DatasetError, InputError, UsageError
from wdsctl.core.importers.shards import ShardsSource
from wdsctl.core.index.index import index
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.progress import SilentProgress


class Killed(BaseException):
    """Like a kill: nothing catches it."""


def read_keys(root: str | Path, split: str) -> set[str]:
    with ShardsSource(locate(str(root)), {"split": split}) as source:
        return {listing.key for listing in source.list_samples()}


def test_file_added_after_refused_conversion_is_not_replaced(tmp_path: Path) -> None:
    dest = tmp_path / "b"
    with pytest.raises(InputError):
        convert_to(dest, a_dataset(tmp_path / "bad", {"x.tar": b"no tar at all"}))
    (dest / "shard-000000.tar").write_bytes(b"precious")

    with pytest.raises(UsageError, match="not empty"):
        convert_to(dest, some_shards(tmp_path / "a", 1))
    assert (dest / "shard-000000.tar").read_bytes() == b"precious"


def test_destination_with_catalog_of_deleted_shards_is_refused(tmp_path: Path) -> None:
    dest = some_shards(tmp_path / "b", 1)
    index(dest)
    for path in Path(dest).glob("*.tar"):
        path.unlink()

    with pytest.raises(UsageError, match="is a dataset already"):
        convert_to(Path(dest), some_shards(tmp_path / "a", 1))


@pytest.mark.parametrize("template", ["shard-{index:06d}.tar", "deep/{index}.tar"])
def test_restart_removes_splits_of_previous_conversion(
    tmp_path: Path, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = some_shards(tmp_path / "a", 4, 10)
    prepare(source, None, PrepareRequest(accept_type=True, split={"train": 1, "val": 1}, split_by="sample"))
    dest = tmp_path / "b"
    options: dict[str, Any] = {"shard_samples": 10, "template": template}

    def raise_killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(
            convert_module, "save_finished", raise_killed
        )  # after everything is written and the splits are copied
        with pytest.raises(Killed):
            convert_to(dest, source, **options)
    convert_to(dest, source, order="shuffle", seed=3, restart=True, **options)

    assert read_keys(dest, "val") == read_keys(source, "val")
    assert read_keys(dest, "train") == read_keys(source, "train")


CLASHING = {"x.tar": {"a.txt": b"one", "a.txt/b.txt": b"two", "c.txt": b"three"}}  # a.txt is a file, and a folder


def test_samples_with_same_file_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        convert_to(tmp_path / "b", a_dataset(tmp_path / "a", CLASHING), to_format="folder", shard_samples=1)
    assert caught.value.code == "WDS237"


def test_files_of_other_conversion_are_not_mixed(tmp_path: Path) -> None:
    dest = tmp_path / "b"
    with pytest.raises(DatasetError):
        convert_to(dest, a_dataset(tmp_path / "a", CLASHING), to_format="folder", shard_samples=1)
    assert (dest / "a.txt").is_file()  # it stopped after some files were moved
    other = a_folder(tmp_path / "c", {f"{i}.txt": b"x" for i in range(6)})

    for restart in (False, True):
        with pytest.raises(UsageError, match="has not finished moving its files"):
            convert_to(dest, other, to_format="folder", restart=restart)
    assert not (dest / "0.txt").exists()


def test_destination_with_missing_file_is_not_up_to_date(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 1)
    convert_to(tmp_path / "b", source)
    (tmp_path / "b" / "shard-000000.tar").unlink()

    with pytest.raises(UsageError, match="of the finished conversion is missing"):
        convert_to(tmp_path / "b", source)


class OtherWriter(SilentProgress):
    """Another process: it holds the lock; when the conversion waits, it writes a file and releases the lock."""

    def __init__(self, dest: Path) -> None:
        self.file = dest / "shard-000000.tar"
        self.lock_stack = ExitStack()
        self.lock_stack.enter_context(hold_lock(locate(str(dest)).lock))

    def note(self, message: str) -> None:
        assert "waiting for another wdsctl" in message
        self.file.write_bytes(b"precious")
        self.lock_stack.close()


def test_file_written_while_waiting_for_lock_is_kept(tmp_path: Path) -> None:
    dest = tmp_path / "b"
    dest.mkdir()
    with pytest.raises(UsageError, match="not empty"):
        convert([some_shards(tmp_path / "a", 1)], str(dest), ConvertRequest(wait=60), progress=OtherWriter(dest))
    assert (dest / "shard-000000.tar").read_bytes() == b"precious"
