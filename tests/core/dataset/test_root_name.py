from __future__ import annotations

from pathlib import Path

import pytest

from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.view_root import RootAndView, check_view_name
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.opened.opening import open_dataset, parse_root


def test_parse_root_reads_view_after_last_at_sign(tmp_path: Path) -> None:
    for name in ("data", "a@b"):
        (tmp_path / name).mkdir()
    assert parse_root(f"{tmp_path}/data@big") == RootAndView(f"{tmp_path}/data", "big")
    assert parse_root(f"{tmp_path}/data/@big") == RootAndView(f"{tmp_path}/data/", "big")
    assert parse_root(f"{tmp_path}/a@b@big.2") == RootAndView(f"{tmp_path}/a@b", "big.2")


def test_existing_path_wins_over_view(tmp_path: Path) -> None:
    for name in ("data", "data@big"):
        (tmp_path / name).mkdir()
    assert parse_root(f"{tmp_path}/data@big") == RootAndView(f"{tmp_path}/data@big")
    assert parse_root(f"{tmp_path}/data@big/") == RootAndView(f"{tmp_path}/data@big/")


@pytest.mark.parametrize("text", ["data", "@list.txt", "data@", "data@a/b", "data@a b", "nowhere@big", "data@2024/"])
def test_parse_root_returns_text_without_view_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    assert parse_root(text) == RootAndView(text)


def test_url_has_view_after_path_and_user_before_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WDSCTL_CATALOG", str(tmp_path))
    assert parse_root("s3://bucket/shards@big") == RootAndView("s3://bucket/shards", "big")
    assert parse_root("sftp://user@host") == RootAndView("sftp://user@host")
    assert parse_root("s3://bucket/shards@2024/") == RootAndView("s3://bucket/shards@2024/")


def test_url_with_catalog_wins_over_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WDSCTL_CATALOG", str(tmp_path))
    path = Path(locate("s3://bucket/shards@2024").catalog_path)
    path.parent.mkdir(parents=True)
    path.touch()
    assert parse_root("s3://bucket/shards@2024") == RootAndView("s3://bucket/shards@2024")
    assert parse_root("s3://bucket/shards@2024", str(tmp_path)) == RootAndView("s3://bucket/shards", "2024")


def test_missing_root_is_named_as_written(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        open_dataset(f"{tmp_path}/nowhere@big", takes_view=True)
    assert raised.value.where == f"{tmp_path}/nowhere@big"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", ".a", "a" * 65, "a@b", "é"])
def test_invalid_view_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not a valid view name"):
        check_view_name(name)
