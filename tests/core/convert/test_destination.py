"""What a conversion does about what it finds in its destination."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_dataset, a_folder, some_shards
from tests.core.conversions import to
from wdsctl.core.convert import convert as verb
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


class Stopped(BaseException):
    """As a kill: nothing catches it."""


def keys_in(root: str | Path, split: str) -> set[str]:
    with ShardsSource(locate(str(root)), {"split": split}) as source:
        return {known.key for known in source.list_samples()}


def test_where_a_conversion_was_refused_nothing_that_came_since_is_replaced(tmp_path: Path) -> None:
    dest = tmp_path / "b"
    with pytest.raises(InputError):
        to(dest, a_dataset(tmp_path / "bad", {"x.tar": b"no tar at all"}))
    (dest / "shard-000000.tar").write_bytes(b"precious")

    with pytest.raises(UsageError, match="not empty"):
        to(dest, some_shards(tmp_path / "a", 1))
    assert (dest / "shard-000000.tar").read_bytes() == b"precious"


def test_a_destination_with_the_catalog_of_shards_that_are_gone_is_refused(tmp_path: Path) -> None:
    dest = some_shards(tmp_path / "b", 1)
    index(dest)
    for path in Path(dest).glob("*.tar"):
        path.unlink()

    with pytest.raises(UsageError, match="is a dataset already"):
        to(Path(dest), some_shards(tmp_path / "a", 1))


@pytest.mark.parametrize("template", ["shard-{index:06d}.tar", "deep/{index}.tar"])
def test_splits_of_what_another_conversion_made_are_forgotten_with_it(
    tmp_path: Path, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = some_shards(tmp_path / "a", 4, 10)
    prepare(source, None, PrepareRequest(take_unsure=True, split={"train": 1, "val": 1}, split_by="sample"))
    dest = tmp_path / "b"
    options: dict[str, Any] = {"shard_samples": 10, "template": template}

    def stopped(*_: object) -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(verb, "save_finished", stopped)  # when all is written, and splits were carried over
        with pytest.raises(Stopped):
            to(dest, source, **options)
    to(dest, source, order="shuffle", seed=3, restart=True, **options)

    assert keys_in(dest, "val") == keys_in(source, "val")
    assert keys_in(dest, "train") == keys_in(source, "train")


CLASHING = {"x.tar": {"a.txt": b"one", "a.txt/b.txt": b"two", "c.txt": b"three"}}  # a.txt is a file, and a folder


def test_two_samples_never_become_one_file(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        to(tmp_path / "b", a_dataset(tmp_path / "a", CLASHING), to_format="folder", shard_samples=1)
    assert caught.value.code == "WDS237"


def test_files_of_another_conversion_are_never_mixed_with(tmp_path: Path) -> None:
    dest = tmp_path / "b"
    with pytest.raises(DatasetError):
        to(dest, a_dataset(tmp_path / "a", CLASHING), to_format="folder", shard_samples=1)
    assert (dest / "a.txt").is_file()  # it stopped when some files were in their places
    other = a_folder(tmp_path / "c", {f"{i}.txt": b"x" for i in range(6)})

    for restart in (False, True):
        with pytest.raises(UsageError, match="has not finished moving its files"):
            to(dest, other, to_format="folder", restart=restart)
    assert not (dest / "0.txt").exists()


def test_a_destination_that_lost_a_file_is_not_said_to_be_done(tmp_path: Path) -> None:
    source = some_shards(tmp_path / "a", 1)
    to(tmp_path / "b", source)
    (tmp_path / "b" / "shard-000000.tar").unlink()

    with pytest.raises(UsageError, match="files of the finished conversion are missing"):
        to(tmp_path / "b", source)


class Handed(SilentProgress):
    """Somebody else writes a file into the destination, and lets go of its lock when they are waited for."""

    def __init__(self, dest: Path) -> None:
        self.file = dest / "shard-000000.tar"
        self.held = ExitStack()
        self.held.enter_context(hold_lock(locate(str(dest)).lock))

    def note(self, message: str) -> None:
        assert "waiting for another wdsctl" in message
        self.file.write_bytes(b"precious")
        self.held.close()


def test_what_came_into_the_destination_while_it_waited_stays(tmp_path: Path) -> None:
    dest = tmp_path / "b"
    dest.mkdir()
    with pytest.raises(UsageError, match="not empty"):
        convert([some_shards(tmp_path / "a", 1)], str(dest), ConvertRequest(wait=60), progress=Handed(dest))
    assert (dest / "shard-000000.tar").read_bytes() == b"precious"
