"""`EPath` for local files and URLs, and `MergeTransform`."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.remote import upload_shards
from wdsctl.core.errors import UsageError
from wdsctl.loader.energon.epathlib import EPath
from wdsctl.loader.energon.transforms import MergeTransform


@pytest.mark.parametrize("root", ["/data", "s3://bucket/data", "msc://profile/data"])
def test_epath_joins_and_splits_paths(root: str) -> None:
    path = EPath(root) / "a" / ".." / "shards" / "x.tar"

    assert (str(path), path.name, path.url) == (f"{root}/shards/x.tar", "x.tar", f"{root}/shards/x.tar")
    assert path.parent.parent == EPath(root)
    assert str(path.with_suffix(".tar.idx")) == f"{root}/shards/x.tar.idx"
    assert path.relative_to(EPath(root)) == "shards/x.tar"
    assert os.fspath(EPath(path)) == str(path)
    assert path.is_local() == (root == "/data")
    assert min(EPath(f"{root}/b"), EPath(f"{root}/a")).name == "a"
    assert {pickle.loads(pickle.dumps(path))} == {path}  # noqa: S301 - of this test
    with pytest.raises(ValueError, match="not below"):
        path.relative_to(EPath("/elsewhere"))


def test_epath_writes_reads_and_lists_local_files(tmp_path: Path) -> None:
    folder = EPath(tmp_path)
    (folder / "b" / "x.txt").write_text("one")
    (folder / "a.txt").write_bytes(b"two")

    assert ((folder / "a.txt").read_text(), (folder / "a.txt").size()) == ("two", 3)
    assert [each.relative_to(folder) for each in folder.walk()] == ["a.txt", "b/x.txt"]
    assert [each.name for each in folder.glob("**/*.txt")] == ["a.txt", "x.txt"]
    (folder / "a.txt").copy(folder / "c" / "d.txt")
    (folder / "a.txt").move(folder / "e.txt")
    (folder / "e.txt").unlink()
    assert [(folder / "c" / "d.txt").is_file(), (folder / "a.txt").is_file(), (folder / "c").is_dir()] == [
        True,
        False,
        True,
    ]


def test_epath_reads_files_at_urls(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"three")
    path = EPath(upload_shards(tmp_path, "faulty://store/paths", "*.tar")) / "x.tar"

    assert (path.read_bytes(), path.read_text(), path.size(), path.is_file()) == (b"three", "three", 5, True)
    assert not (path.parent / "y.tar").is_file()
    path.copy(EPath(tmp_path / "copied" / "y.tar"))
    assert (tmp_path / "copied" / "y.tar").read_bytes() == b"three"
    with pytest.raises(UsageError, match="open works on local files only"):
        path.write_text("four")


def test_epath_lists_folders_at_urls(tmp_path: Path) -> None:
    for name in ("x.tar", "sub/y.tar", "sub/more/z.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    root = EPath(upload_shards(tmp_path, "faulty://store/listed", "**/*.*"))

    def names(paths: Iterable[EPath]) -> list[str]:
        return [path.relative_to(root) for path in paths]

    assert names(root.walk()) == ["sub/more/z.txt", "sub/y.tar", "x.tar"]
    assert names(root.glob("**/*.tar")) == ["sub/y.tar", "x.tar"]
    assert (names(root.glob("*.tar")), names(root.glob("sub/*/?.txt"))) == (["x.tar"], ["sub/more/z.txt"])
    assert (root.is_dir(), (root / "sub").is_dir(), (root / "no").is_dir()) == (True, True, False)
    assert ((root / "x.tar").is_file(), (root / "sub").is_file(), (root / "no").is_file()) == (True, False, False)
    assert ((root / "x.tar").open().read(), (root / "x.tar").open("rb").read()) == ("x.tar", b"x.tar")


def test_glob_follows_links_to_folders(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "x.tar").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "shards")

    assert [path.url for path in EPath(tmp_path).glob("**/*.tar")] == [
        f"{tmp_path}/link/x.tar",
        f"{tmp_path}/shards/x.tar",
    ]


def test_default_profile_is_local() -> None:
    assert EPath("msc://default/data/x") == EPath("/data/x")


class Flip(torch.nn.Module):
    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return image.flip(-1) if torch.rand(1) < 0.5 else image


def test_merge_transform_applies_transforms_in_order() -> None:
    image = torch.arange(4).reshape(1, 4)
    merged = MergeTransform([Flip(), lambda each: each * 2])

    torch.manual_seed(1)
    results = [merged(image).tolist() for _ in range(20)]
    torch.manual_seed(1)
    expected: list[Any] = [(Flip()(image) * 2).tolist() for _ in range(20)]

    assert results == expected
    assert len({str(each) for each in results}) == 2
    with pytest.raises(UsageError, match="not a transform"):
        MergeTransform([3])  # type: ignore[list-item]


def test_absolute_path_is_path_itself() -> None:
    assert EPath("/data/x").absolute() == EPath("/data/x")
