"""What a folder says about its primary and its media."""

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


def test_a_folder_names_its_parts(tmp_path: Path) -> None:
    path = a_folder(tmp_path / "a", {**GOOD, "shared": True})

    found = find_polylithic_folder(f"{path}@view")

    assert found == read_polylithic_folder(path)
    assert found == (f"{path}/primary", f"{path}/media", "tar", f"{path}/monolithic.yaml", True)


def test_other_paths_are_none(tmp_path: Path) -> None:
    assert not is_polylithic(str(tmp_path))
    assert find_polylithic_folder("s3://bucket/folder") is None


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "3", {**GOOD, "form": "zip"}, {**GOOD, "media": 3}, {"version": 1}, {**GOOD, "primary": ""}],
)
def test_bad_records_are_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(InputError, match=r"polylithic\.json"):
        read_polylithic_folder(a_folder(tmp_path / "a", content))


@pytest.mark.parametrize("name", ["../other", "/etc", "link"])
def test_records_that_lead_out_of_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "other").mkdir()
    path = a_folder(tmp_path / "a", {**GOOD, "media": name})
    (tmp_path / "a" / "link").symlink_to(tmp_path / "other")

    with pytest.raises(PermissionDenied):
        read_polylithic_folder(path)


def test_the_folder_is_followed_to_its_primary(tmp_path: Path) -> None:
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


def test_a_primary_knows_its_folder(tmp_path: Path) -> None:
    path = a_folder(tmp_path / "a", GOOD)

    assert find_folder_of_primary(f"{path}/primary") == read_polylithic_folder(path)
    assert find_folder_of_primary(f"{path}/media") is None
    assert find_folder_of_primary(str(tmp_path)) is None
