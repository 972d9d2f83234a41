"""What a folder says about its primary and its media."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wdsctl.core.dataset.polylithic import find_polylithic_folder, is_polylithic, read_polylithic_folder
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
