"""Keys that repeat across JSONL files are found even without sample rows in the catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_folder
from wdsctl.core.catalog.consistency import RepeatedKey, find_repeated_keys
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index


def make_lines(*names: str) -> bytes:
    return "".join(f'{{"id": "{name}"}}\n' for name in names).encode()


def find_repeated(root: str, limit: int = 20) -> tuple[int, list[RepeatedKey]]:
    with Catalog.open(locate(root).catalog_path) as catalog:
        first = find_repeated_keys(catalog, limit)
        assert find_repeated_keys(catalog, limit) == first
    return first


FILES = {
    "a.jsonl": make_lines("x", "y", "y", "é", "Z"),
    "b/c.jsonl": make_lines("é", "z", "w", "x"),
    "d.jsonl": make_lines("v", "x", "u"),
    "e.jsonl": make_lines("x"),
    "none.jsonl": b"",
}


@pytest.mark.parametrize("limit", [0, 1, 20])
@pytest.mark.parametrize("sample_rows", [None, True])
def test_repeated_field_keys_are_found_across_files(tmp_path: Path, limit: int, *, sample_rows: bool | None) -> None:
    root = a_folder(tmp_path, FILES)
    assert index(root, key="id", sample_rows=sample_rows).sample_rows is bool(sample_rows)

    expected = [RepeatedKey("x", ("a.jsonl", "b/c.jsonl", "d.jsonl")), RepeatedKey("é", ("a.jsonl", "b/c.jsonl"))]
    assert find_repeated(root, limit) == (2, expected[:limit])


@pytest.mark.parametrize("sample_rows", [None, True])
def test_line_numbers_repeat_only_in_files_of_same_name(tmp_path: Path, *, sample_rows: bool | None) -> None:
    root = a_folder(tmp_path, {"a.jsonl": make_lines(*"xyz"), "a.ndjson": make_lines("x"), "b.jsonl": make_lines("x")})
    index(root, sample_rows=sample_rows)
    assert find_repeated(root) == (1, [RepeatedKey("a/0", ("a.jsonl", "a.ndjson"))])


def test_unique_file_names_need_no_offsets_to_exclude_repeats(tmp_path: Path) -> None:
    root = a_folder(tmp_path, FILES)
    index(root)
    next(Path(locate(root).meta).glob("offsets-*.bin")).unlink()
    assert find_repeated(root) == (0, [])
    index(root, key="id", rebuild=True)
    next(Path(locate(root).meta).glob("offsets-*.bin")).unlink()
    with pytest.raises(CatalogError, match="missing"):
        find_repeated(root)
