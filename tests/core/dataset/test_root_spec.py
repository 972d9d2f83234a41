from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from wdsctl.core.dataset.root_spec import ALL_SHARDS, RootSpec, ShardSelection, parse_root_spec
from wdsctl.core.errors import InputError


def set_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


@pytest.mark.parametrize(
    ("text", "root", "selection"),
    [
        ("/d/x-{0..2}.tar", "/d", ShardSelection(braces=("x-{0..2}.tar",))),
        ("/d/{train,val}/x-{0..2}.tar", "/d", ShardSelection(braces=("{train,val}/x-{0..2}.tar",))),
        ("/d/{a,b}/*.tar", "/d", ShardSelection(globs=("a/*.tar", "b/*.tar"))),
        ("glob:/d/*/x.tar", "/d", ShardSelection(globs=("*/x.tar",))),
        ("/d/**/t-*.tar", "/d", ShardSelection(globs=("**/t-*.tar",))),
        ("/d/**", "/d", ALL_SHARDS),
        ("s3://b/d/x-{0..2}.tar", "s3://b/d", ShardSelection(braces=("x-{0..2}.tar",))),
        ("s3://b/*.tar", "s3://b", ShardSelection(globs=("*.tar",))),
        ("https://h/d?token=1", "https://h/d?token=1", None),
        ("/d", "/d", None),
    ],
)
def test_root_spec_names_root_and_shards(text: str, root: str, selection: ShardSelection | None) -> None:
    assert parse_root_spec(text) == RootSpec(root, selection)


def test_existing_path_wins_over_pattern(tmp_path: Path) -> None:
    for name in ("a{1..2}", "b*", "@c"):
        (tmp_path / name).mkdir()
        assert parse_root_spec(str(tmp_path / name)) == RootSpec(str(tmp_path / name))


@pytest.mark.parametrize(
    "data",
    [b"d/a.tar\nd/e/b{1,2}.tar\n", b"\xef\xbb\xbfd/a.tar\r\n\r\nd/e/b{1,2}.tar", b"d/a.tar\0./d/e/b{1,2}.tar\0"],
)
def test_list_has_one_path_per_line_relative_to_working_folder(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = RootSpec(str(tmp_path / "d"), ShardSelection(names=("a.tar", "e/b{1,2}.tar")))
    (tmp_path / "list").write_bytes(data)
    set_stdin(monkeypatch, data)

    assert parse_root_spec("@list") == expected
    assert parse_root_spec("-") == expected


@pytest.mark.parametrize(
    ("data", "words", "code"),
    [
        (b"\n \n", "has no shards", "WDS008"),
        (b"/d/a.tar\n/d/b.tar\n/d/./a.tar\n", "1 shard listed more than once, such as a.tar", "WDS008"),
        (b"/d/a.tar\ns3://b/a.tar\ns3://b/c.tar", "in 2 different stores: 2 in s3://b, 1 in local paths", "WDS008"),
        (b"/d/\xff.tar\n", "not in UTF-8", "WDS116"),
    ],
)
def test_invalid_list_is_refused_with_counts(
    data: bytes, words: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_stdin(monkeypatch, data)
    with pytest.raises(InputError, match=words) as caught:
        parse_root_spec("-")
    assert caught.value.code == code


def test_missing_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="list of shards does not exist"):
        parse_root_spec(f"@{os.fspath(tmp_path)}/none")
