"""polylithic.json names the primary and the media of a polylithic folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wdsctl.core.dataset.polylithic import (
    find_folder_of_primary,
    find_polylithic_folder,
    follow_to_primary,
    is_polylithic,
    read_polylithic_folder,
)
from wdsctl.core.errors import InputError, PermissionDenied

GOOD: dict[str, Any] = {"version": 1, "primary": "primary", "media": "media", "form": "tar"}


def a_folder(root: Path, content: Any) -> str:
    root.mkdir(exist_ok=True)
    (root / "polylithic.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return str(root)


def test_find_polylithic_folder_returns_its_datasets(tmp_path: Path) -> None:
    path = a_folder(tmp_path / "a", {**GOOD, "shared": True})

    folder = find_polylithic_folder(f"{path}@view")

    assert folder == read_polylithic_folder(path)
    assert folder == (f"{path}/primary", f"{path}/media", "tar", f"{path}/monolithic.yaml", True)


def test_other_paths_are_no_polylithic_folder(tmp_path: Path) -> None:
    assert not is_polylithic(str(tmp_path))
    assert find_polylithic_folder("s3://bucket/folder") is None


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "3", {**GOOD, "form": "zip"}, {**GOOD, "media": 3}, {"version": 1}, {**GOOD, "primary": ""}],
)
def test_invalid_polylithic_json_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(InputError, match=r"polylithic\.json"):
        read_polylithic_folder(a_folder(tmp_path / "a", content))


@pytest.mark.parametrize("name", ["../other", "/etc", "link"])
def test_paths_outside_folder_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "other").mkdir()
    path = a_folder(tmp_path / "a", {**GOOD, "media": name})
    (tmp_path / "a" / "link").symlink_to(tmp_path / "other")

    with pytest.raises(PermissionDenied):
        read_polylithic_folder(path)


def test_follow_to_primary_resolves_folder_and_view(tmp_path: Path) -> None:
    path = a_folder(tmp_path / "a", GOOD)

    assert follow_to_primary(path) == f"{path}/primary"
    assert follow_to_primary(f"{path}@view") == f"{path}/primary@view"
    assert [follow_to_primary(other) for other in (str(tmp_path), f"{path}/media", "s3://bucket/a", "none")] == [
        str(tmp_path),
        f"{path}/media",
        "s3://bucket/a",
        "none",
    ]
    assert follow_to_primary(path, "elsewhere") == path


def test_find_folder_of_primary_returns_folder(tmp_path: Path) -> None:
    path = a_folder(tmp_path / "a", GOOD)

    assert find_folder_of_primary(f"{path}/primary") == read_polylithic_folder(path)
    assert find_folder_of_primary(f"{path}/media") is None
    assert find_folder_of_primary(str(tmp_path)) is None
