from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.build import a_dataset, rewrite_shard, samples, some_shards
from tests.remote import FaultyFileSystem
from wdsctl.core.errors import InputError, PermissionDenied, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.show import diff_views, export_view, iter_exported_names, list_views, show_view
from wdsctl.core.views.views import create_view, refresh_views


@pytest.fixture
def root(tmp_path: Path) -> str:
    path = some_shards(tmp_path / "data", 3)
    index(path)
    create_view(path, "even", ViewDefinition(where="position % 2 = 0"))
    create_view(path, "begin", ViewDefinition(where="position < 2"))
    return path


def change_shard(root: str) -> None:
    rewrite_shard(Path(root) / "shard-001.tar", samples(100, 7))
    index(root)


def test_list_views_returns_names_with_counts_and_changes(root: str) -> None:
    assert [(v.name, v.samples, v.shards, v.changed, v.share) for v in list_views(root).views] == [
        ("begin", 6, 3, 0, 0.4),
        ("even", 9, 3, 0, 0.6),
    ]
    change_shard(root)
    assert [(v.name, v.samples, v.shards, v.changed) for v in list_views(root).views] == [
        ("begin", 6, 3, 1),
        ("even", 9, 3, 1),
    ]


def test_show_view_returns_first_keys(root: str) -> None:
    report = show_view(root, "even", keys=4)
    assert report.first_keys == ("000000", "000002", "000004", "000005")
    assert (report.samples, report.splits, report.changed) == (9, (), ())


def test_show_view_shows_outdated_view(root: str) -> None:
    change_shard(root)
    report = show_view(root, "even", keys=9)
    assert report.changed == ("shard-001.tar",)
    assert report.first_keys == ("000000", "000002", "000004", "000010", "000012", "000014")


def test_diff_views_compares_two_views_by_sample(root: str) -> None:
    report = diff_views(root, "even", "begin")
    assert (report.both, report.only_first, report.only_second) == (3, 6, 3)
    assert report.only_second_keys == ("000001", "000006", "000011")
    assert not report.is_same
    assert diff_views(root, "even", "even").is_same


def test_diff_views_compares_view_with_its_current_definition(root: str) -> None:
    assert diff_views(root, "even").is_same
    some_shards(Path(root), 1, first=3)
    index(root)
    report = diff_views(root, "even")
    assert (report.second, report.both, report.only_second) == ("now", 9, 3)


def test_diff_views_names_changed_shards_and_does_not_count_them(root: str) -> None:
    change_shard(root)
    report = diff_views(root, "even")
    assert (report.both, report.only_first, report.only_second) == (6, 0, 4)
    assert (report.first_changed, report.second_changed) == (("shard-001.tar",), ())


def test_keys_are_exported_in_tar_order(root: str) -> None:
    assert b"".join(iter_exported_names(root, "begin")) == b"000000\n000001\n000005\n000006\n000010\n000011\n"
    first = json.loads(b"".join(iter_exported_names(root, "begin", "jsonl")).splitlines()[3])
    assert (first["key"], first["shard"], first["position"]) == ("000006", "shard-001.tar", 1)
    assert first["id"] & 0xFFFFFFF == 1


def test_export_is_atomic_and_refuses_existing_file(root: str, tmp_path: Path) -> None:
    out = tmp_path / "keys.txt"
    assert export_view(root, "begin", str(out)).samples == 6
    assert len(out.read_text().splitlines()) == 6
    with pytest.raises(UsageError, match="output file exists"):
        export_view(root, "even", str(out))
    export_view(root, "even", str(out), overwrite=True)
    assert len(out.read_text().splitlines()) == 9


def test_key_with_line_break_is_not_exported_as_text(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"s.tar": {"a\nb.txt": b"1", "c.txt": b"2"}})
    index(root)
    create_view(root, "all", ViewDefinition(where="size > 0"))
    out = tmp_path / "keys.txt"
    with pytest.raises(InputError, match="is blank or contains a line break"):
        export_view(root, "all", str(out))
    assert list(tmp_path.iterdir()) == [tmp_path / "data"]
    assert len(b"".join(iter_exported_names(root, "all", "jsonl")).splitlines()) == 2


@pytest.mark.parametrize("name", ["keys.txt", "keys.jsonl"])
def test_keys_exported_to_store_recreate_view(root: str, name: str, tmp_path: Path) -> None:
    FaultyFileSystem.reset()
    url = f"memory://{tmp_path.name}/exports/{name}"
    export_view(root, "even", url, "jsonl" if name.endswith("jsonl") else "txt")

    report = create_view(root, "again", ViewDefinition(keys=url))

    assert report.samples == 9
    assert list(iter_exported_names(root, "again", "jsonl")) == list(iter_exported_names(root, "even", "jsonl"))
    with pytest.raises(PermissionDenied, match="leads out of"):  # a stored definition may be that of a foreign dataset
        refresh_views(root)
