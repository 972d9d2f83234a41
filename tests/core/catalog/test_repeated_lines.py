"""Keys that come in several files of lines are told as if the catalog had rows of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_folder
from wdsctl.core.catalog.consistency import RepeatedKey, find_repeated_keys
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError
from wdsctl.core.index.index import index


def named(*names: str) -> bytes:
    return "".join(f'{{"id": "{name}"}}\n' for name in names).encode()


def repeated(root: str, limit: int = 20) -> tuple[int, list[RepeatedKey]]:
    with Catalog(locate(root).catalog) as catalog:
        first = find_repeated_keys(catalog, limit)
        assert find_repeated_keys(catalog, limit) == first
    return first


FILES = {
    "a.jsonl": named("x", "y", "y", "é", "Z"),
    "b/c.jsonl": named("é", "z", "w", "x"),
    "d.jsonl": named("v", "x", "u"),
    "e.jsonl": named("x"),
    "none.jsonl": b"",
}


@pytest.mark.parametrize("limit", [0, 1, 20])
@pytest.mark.parametrize("sample_rows", [None, True])
def test_keys_of_a_field_that_come_in_several_files_are_told(
    tmp_path: Path, limit: int, *, sample_rows: bool | None
) -> None:
    root = a_folder(tmp_path, FILES)
    assert index(root, key="id", sample_rows=sample_rows).sample_rows is bool(sample_rows)

    told = [RepeatedKey("x", ("a.jsonl", "b/c.jsonl", "d.jsonl")), RepeatedKey("é", ("a.jsonl", "b/c.jsonl"))]
    assert repeated(root, limit) == (2, told[:limit])


@pytest.mark.parametrize("sample_rows", [None, True])
def test_numbers_repeat_only_where_two_files_are_called_alike(tmp_path: Path, *, sample_rows: bool | None) -> None:
    root = a_folder(tmp_path, {"a.jsonl": named(*"xyz"), "a.ndjson": named("x"), "b.jsonl": named("x")})
    index(root, sample_rows=sample_rows)
    assert repeated(root) == (1, [RepeatedKey("a/0", ("a.jsonl", "a.ndjson"))])


def test_numbers_of_files_that_are_called_otherwise_cost_no_look_at_a_key(tmp_path: Path) -> None:
    root = a_folder(tmp_path, FILES)
    index(root)
    next(Path(locate(root).meta).glob("offsets-*.bin")).unlink()
    assert repeated(root) == (0, [])
    index(root, key="id", rebuild=True)
    next(Path(locate(root).meta).glob("offsets-*.bin")).unlink()
    with pytest.raises(CatalogError, match="missing"):
        repeated(root)
