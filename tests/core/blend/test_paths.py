from __future__ import annotations

import os
from pathlib import Path

import pytest

from wdsctl.core.blend.yaml_tree import (
    folder_of,
    is_jsonl_reference,
    real_file,
    resolve_aux_path,
    resolve_blend_path,
)
from wdsctl.core.dataset.view_root import is_blend_file


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [
        ("a", "/data", "/data/a"),
        ("./a/", "/data", "/data/a"),
        ("a/../b", "/data", "/data/a/../b"),
        ("/abs/a", "/data", "/abs/a"),
        ("~/a", "/data", "/data/~/a"),
        ("s3://bucket/a", "/data", "s3://bucket/a"),
        ("msc://profile/a/", "s3://bucket", "msc://profile/a"),
        ("file:///abs/a", "/data", "/abs/a"),
        ("a/b.yaml", "s3://bucket/blends", "s3://bucket/blends/a/b.yaml"),
        ("../a", "s3://bucket/blends", "s3://bucket/a"),
        ("../../../a", "s3://bucket/blends", "s3://bucket/a"),
        ("/abs/a", "s3://bucket/blends", "/abs/a"),
    ],
)
def test_resolve_blend_path_is_relative_to_folder_of_file(path: str, folder: str, expected: str) -> None:
    assert resolve_blend_path(path, folder) == expected


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [
        ("stores/a", "/data", "/data/stores/a"),
        ("filesystem://media", "/data", "filesystem:///data/media"),
        ("filesystem:///media", "/data", "filesystem:///media"),
        ("filesystem://media", "s3://bucket/x", "filesystem+s3://bucket/x/media"),
        ("filesystem+msc://profile/media", "/data", "filesystem+msc://profile/media"),
    ],
)
def test_resolve_aux_path_is_relative_to_folder_of_file(path: str, folder: str, expected: str) -> None:
    assert resolve_aux_path(path, folder) == expected


def test_folder_of_drops_query_of_url() -> None:
    assert folder_of("https://host/blends/a.yaml?key=x/y") == "https://host/blends"
    assert folder_of("/blends/a.yaml") == "/blends"


def test_blend_and_jsonl_files_are_detected_by_extension() -> None:
    assert is_blend_file("a.yaml")
    assert is_blend_file("s3://b/a.YML?x=1.tar")
    assert not is_blend_file("a.yaml/shards")
    assert is_jsonl_reference("a.jsonl")
    assert not is_jsonl_reference("a.jsonl.yaml")


def test_real_file_resolves_links(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(".")

    assert real_file(os.path.join(tmp_path, "loop", "a.yaml")) == real_file(os.path.join(tmp_path, "a.yaml"))
    assert real_file("s3://bucket/a.yaml") == "s3://bucket/a.yaml"
