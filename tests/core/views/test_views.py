from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.build import rewrite_shard, samples, some_shards, tree
from tests.core.catalog.readers import read_shards, read_view, read_view_samples, read_views
from tests.core.catalog.test_schema import restore_golden_catalog
from tests.core.pictures import ODD, a_gallery, rows_of
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.splits import sample_flags
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, InputError, PermissionDenied, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.progress import SILENT_PROGRESS
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.split_rules.rule import SplitRule
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.select import evaluate_definition
from wdsctl.core.views.selections import intersect_selections
from wdsctl.core.views.show import iter_exported_names
from wdsctl.core.views.sql import sql
from wdsctl.core.views.views import create_view, delete_view, refresh_views

Sample = tuple[str, int]


def query_rows(root: str, text: str) -> list[tuple[Any, ...]]:
    with sql(root, text) as answer:
        return list(answer.rows)


def view_samples(root: str, name: str) -> set[Sample]:
    """The samples of a view, as shards and positions."""
    place = locate(root)
    shards = {shard.id: shard for shard in read_shards(place.catalog_path)}
    found = read_view_samples(place, name).items()
    return {
        (shards[i].path, at) for i, part in found for at in sample_flags(part, shards[i].samples).nonzero()[0].tolist()
    }


def count_samples(root: str, definition: ViewDefinition) -> int:
    with open_dataset(root) as dataset:
        return evaluate_definition(dataset, definition, SILENT_PROGRESS).samples


@pytest.fixture(scope="module")
def shared_gallery(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_gallery(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def gallery(shared_gallery: str, tmp_path: Path) -> str:
    shutil.copytree(shared_gallery, tmp_path / "gallery")
    return str(tmp_path / "gallery")


def a_thousand(root: Path) -> str:
    path = some_shards(root, 10, 100)
    index(path)
    return path


def test_view_contains_samples_that_meet_all_conditions(gallery: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("\n".join([*ODD, "0010", "0011", "0013", "0016"]), encoding="utf-8")
    sql = "SELECT id FROM v_part WHERE part = 'txt' AND size > 5"
    definition = ViewDefinition(where="width >= 40", sql=sql, keys=str(keys), split="train")
    report = create_view(gallery, "all", definition)

    rows = rows_of(gallery)
    wide = {(row["shard"], row["position"]) for row in rows if (row["width"] or 0) >= 40}
    long = {(row["shard"], row["position"]) for row in rows if row["part"] == "txt" and row["size"] > 5}
    listed = {(row["shard"], row["position"]) for row in rows if row["key"] in {*ODD, "0010", "0011", "0013", "0016"}}
    train = {(row["shard"], row["position"]) for row in rows if row["split"] == "train"}
    assert view_samples(gallery, "all") == wide & long & listed & train != set()
    assert report.samples == len(wide & long & listed & train)
    assert {each.name: each.samples for each in report.splits} == {"train": report.samples, "val": 0}


def test_view_is_stored_with_hash_and_definition(gallery: str) -> None:
    report = create_view(gallery, "wide", ViewDefinition(where="width >= 40"))
    found = read_view(locate(gallery).ledger_path, "wide")

    assert found is not None
    assert (found[0].samples, found[0].hash, found[0].generation) == (report.samples, report.hash, 1)
    assert found[0].definition == '{"where": "width >= 40"}'
    with Ledger.open_for_reading(locate(gallery).ledger_path) as ledger:
        assert (ledger.runs()[-1]["command"], ledger.runs()[-1]["status"]) == ("view create", "ok")


def test_create_view_changes_only_ledger(gallery: str) -> None:
    before = tree(gallery)
    create_view(gallery, "wide", ViewDefinition(where="width >= 40"))
    after = tree(gallery)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed <= {".wdsctl", ".wdsctl/ledger.sqlite"}


def test_dry_run_writes_nothing(gallery: str) -> None:
    create_view(gallery, "old", ViewDefinition(where="width < 40"))
    before = tree(gallery)
    assert create_view(gallery, "wide", ViewDefinition(where="width >= 40"), dry_run=True).state == "created"
    report = create_view(gallery, "old", ViewDefinition(where="width < 60"), replace=True, dry_run=True)
    assert (report.state, report.removed) == ("replaced", 0)
    refresh_views(gallery, dry_run=True)
    delete_view(gallery, "old", dry_run=True)
    assert tree(gallery) == before


def test_create_view_refuses_existing_name_unless_replace(gallery: str) -> None:
    create_view(gallery, "wide", ViewDefinition(where="width >= 40"))
    assert create_view(gallery, "wide", ViewDefinition(where="width > 39")).state == "unchanged"
    with pytest.raises(UsageError, match="the view 'wide' exists") as caught:
        create_view(gallery, "wide", ViewDefinition(where="width >= 60"))
    assert caught.value.code == "WDS333"
    report = create_view(gallery, "wide", ViewDefinition(where="width >= 60"), replace=True)
    assert (report.state, report.added) == ("replaced", 0)
    assert report.removed


def test_replaced_view_has_new_definition_even_with_same_samples(gallery: str) -> None:
    create_view(gallery, "wide", ViewDefinition(where="width >= 40"))
    other = ViewDefinition(where="width > 39")
    assert create_view(gallery, "wide", ViewDefinition(where="width >= 40"), replace=True).state == "unchanged"
    report = create_view(gallery, "wide", other, replace=True)
    assert (report.state, report.added, report.removed) == ("replaced", 0, 0)
    assert refresh_views(gallery).views[0].definition == other


@pytest.mark.parametrize(
    "options",
    [
        {"where": "width > 99999"},
        {"sql": "SELECT id FROM v_sample WHERE key = 'zz'"},
        {"keys": os.devnull},
    ],
)
def test_view_without_samples_is_refused(gallery: str, options: dict[str, str]) -> None:
    with pytest.raises(InputError, match="no sample matches the selection"):
        create_view(gallery, "none", ViewDefinition(**options))  # type: ignore[arg-type]
    assert read_views(locate(gallery).ledger_path) == []


def test_repeated_keys_select_all_samples_unless_positions_are_given(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "data", 1)
    shutil.copy(tmp_path / "data" / "shard-000.tar", tmp_path / "data" / "copy.tar")
    index(root)
    keys, places = tmp_path / "keys.txt", tmp_path / "places.jsonl"
    keys.write_text("000001\n", encoding="utf-8")
    places.write_text('{"key": "000001", "shard": "copy.tar", "position": 1}\n', encoding="utf-8")

    create_view(root, "both", ViewDefinition(keys=str(keys)))
    create_view(root, "one", ViewDefinition(keys=str(places)))
    assert view_samples(root, "both") == {("copy.tar", 1), ("shard-000.tar", 1)}
    assert view_samples(root, "one") == {("copy.tar", 1)}


def test_unknown_keys_are_refused_unless_skipped(gallery: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("it's\nnobody\nnothing\n", encoding="utf-8")
    with pytest.raises(InputError, match="2 keys of the list are not in the dataset: nobody, nothing"):
        create_view(gallery, "some", ViewDefinition(keys=str(keys)))
    assert create_view(gallery, "some", ViewDefinition(keys=str(keys)), skip_unknown=True).unknown_keys == 2


@pytest.mark.parametrize("export_format", ["txt", "jsonl"])
def test_view_of_exported_keys_equals_original(gallery: str, tmp_path: Path, export_format: str) -> None:
    report = create_view(gallery, "wide", ViewDefinition(where="width >= 40"))
    path = tmp_path / f"keys.{export_format}"
    path.write_bytes(b"".join(iter_exported_names(gallery, "wide", "jsonl" if export_format == "jsonl" else "txt")))
    assert create_view(gallery, "again", ViewDefinition(keys=str(path))).hash == report.hash


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT key FROM v_sample",
        "SELECT NULL",
        "SELECT id + 1000 FROM v_sample",
        "SELECT -1",
        "SELECT 1.5",
        "SELECT id FROM sample",
    ],
)
def test_query_without_sample_ids_is_refused(gallery: str, sql: str) -> None:
    with pytest.raises(UsageError) as caught:
        create_view(gallery, "odd", ViewDefinition(sql=sql))
    assert caught.value.code == "WDS332"


def test_query_with_id_after_last_sample_is_refused(gallery: str) -> None:
    with pytest.raises(UsageError, match="no sample has the id") as caught:
        create_view(gallery, "odd", ViewDefinition(sql="SELECT max(id) + 1 FROM v_sample"))
    assert caught.value.code == "WDS332"


@pytest.mark.parametrize(("sample", "count"), [("1%", 10), ("0.25%", 2), ("37", 37), ("5000", 1000), ("100%", 1000)])
def test_sample_has_exact_size(tmp_path: Path, sample: str, count: int) -> None:
    assert count_samples(a_thousand(tmp_path), ViewDefinition(sample=sample, seed=3)) == count


def test_sample_of_few_has_at_least_one(tmp_path: Path) -> None:
    assert count_samples(a_thousand(tmp_path), ViewDefinition(where="position < 1", sample="0.1%", seed=3)) == 1


def test_small_sample_is_subset_of_larger_and_seeds_differ(tmp_path: Path) -> None:
    root = a_thousand(tmp_path)
    for name, sample, seed in (("few", "5%", 1), ("many", "10%", 1), ("others", "5%", 2)):
        create_view(root, name, ViewDefinition(sample=sample, seed=seed))
    few, many, others = (view_samples(root, name) for name in ("few", "many", "others"))
    assert few < many
    assert few != others
    assert len({shard for shard, _ in many}) >= 5


@pytest.mark.usefixtures("place")
def test_sample_is_drawn_from_matching_samples(tmp_path: Path) -> None:
    root = a_thousand(tmp_path)
    create_view(root, "even", ViewDefinition(where="position % 2 = 0", sample="10%"))
    assert len(view_samples(root, "even")) == 50
    assert all(position % 2 == 0 for _, position in view_samples(root, "even"))


def test_other_split_sets_are_separate_columns(gallery: str) -> None:
    split_dataset(gallery, SplitRequest(split_set="folds", rule=SplitRule({"a": 1.0, "b": 1.0}, "sample", 0)))
    place = locate(gallery)
    for short in ("a", "b"):
        create_view(gallery, short, ViewDefinition(where=f"split_folds = '{short}'"))
        create_view(gallery, f"s{short}", ViewDefinition(split=f"folds/{short}"))
        assert read_view_samples(place, short) == read_view_samples(place, f"s{short}")
    assert intersect_selections(read_view_samples(place, "a"), read_view_samples(place, "b")) == {}


@pytest.mark.usefixtures("place")
def test_refresh_updates_view_after_new_shards(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    for name, where in (("even", "position % 2 = 0"), ("first", "shard = 'shard-000.tar'")):
        create_view(root, name, ViewDefinition(where=where))
    some_shards(tmp_path, 1, first=3)
    index(root)
    assert len(view_samples(root, "even")) == 9

    states = {view.name: (view.state, view.samples, view.added) for view in refresh_views(root).views}
    assert states == {"even": ("replaced", 12, 3), "first": ("unchanged", 5, 0)}
    assert len(view_samples(root, "even")) == 12


@pytest.mark.usefixtures("place")
def test_refresh_replaces_view_of_changed_shards(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    create_view(root, "even", ViewDefinition(where="position % 2 = 0"))
    rewrite_shard(tmp_path / "shard-001.tar", samples(100, 7))
    index(root)
    with pytest.raises(CatalogError, match="changed"):
        view_samples(root, "even")

    (view,) = refresh_views(root, ["even"]).views
    assert (view.state, view.samples, view.added) == ("replaced", 7, None)
    assert len(view_samples(root, "even")) == 7


def test_refresh_refuses_view_that_became_empty(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    for name, where in (("even", "position % 2 = 0"), ("first", "shard = 'shard-000.tar'")):
        create_view(root, name, ViewDefinition(where=where))
    before = read_view(locate(root).ledger_path, "first")
    (tmp_path / "shard-000.tar").unlink()
    index(root, missing="drop")

    for dry_run in (True, False):
        with pytest.raises(InputError, match="no sample matches the selection") as error:
            refresh_views(root, ["first"], dry_run=dry_run)
        assert f"to delete it, run `wdsctl view delete {root} first`" in error.value.hint
    assert read_view(locate(root).ledger_path, "first") == before


def test_view_of_keys_from_stdin_cannot_be_refreshed(gallery: str) -> None:
    place = locate(gallery)
    create_view(gallery, "piped", ViewDefinition(where="width >= 40"))
    with Ledger.open(place.ledger_path) as ledger, ledger.transaction() as connection:
        connection.execute("""UPDATE view SET expression = '{"keys": "-"}'""")
    with pytest.raises(UsageError, match="from stdin"):
        refresh_views(gallery)


def test_deleted_view_no_longer_exists(gallery: str) -> None:
    create_view(gallery, "wide", ViewDefinition(where="width >= 40"))
    assert delete_view(gallery, "wide").definition == ViewDefinition(where="width >= 40")
    with pytest.raises(InputError, match="it has none yet"):
        delete_view(gallery, "wide")


def test_unparsable_definition_is_reported(gallery: str) -> None:
    create_view(gallery, "wide", ViewDefinition(where="width >= 40"))
    with Ledger.open(locate(gallery).ledger_path) as ledger, ledger.transaction() as connection:
        connection.execute("UPDATE view SET expression = 'nonsense'")
    with pytest.raises(CatalogError, match="the stored definition of the view 'wide'"):
        refresh_views(gallery)
    assert view_samples(gallery, "wide")  # training can continue


def test_dataset_without_catalog_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError) as caught:
        create_view(some_shards(tmp_path, 1), "x", ViewDefinition(split="train"))
    assert caught.value.code == "WDS301"
    assert not os.path.exists(tmp_path / ".wdsctl")


def test_read_only_dataset_shows_views_and_refuses_new_ones(
    public_path: Path, as_nobody: Callable[[Callable[[], Any]], Any]
) -> None:
    root = some_shards(public_path / "data", 1)
    index(root)
    create_view(root, "even", ViewDefinition(where="position % 2 = 0"))
    for folder, _, names in os.walk(root):
        Path(folder).chmod(0o555)
        for name in names:
            Path(folder, name).chmod(0o444)

    assert as_nobody(lambda: view_samples(root, "even")) == {("shard-000.tar", i) for i in (0, 2, 4)}
    assert as_nobody(lambda: create_view(root, "x", ViewDefinition(where="position = 1"), dry_run=True)).samples == 1
    error = as_nobody(lambda: create_view(root, "x", ViewDefinition(where="position = 1")))
    assert isinstance(error, PermissionDenied)
    assert "--catalog" in error.hint


def test_catalog_of_older_release_supports_views(tmp_path: Path) -> None:
    (tmp_path / ".wdsctl").mkdir()
    restore_golden_catalog(tmp_path / ".wdsctl")
    report = create_view(str(tmp_path), "some", ViewDefinition(where="ext = 'jpg' AND split = 'train'"))
    assert report.samples == sum(each.samples for each in report.splits if each.name == "train") > 0
    assert query_rows(str(tmp_path), "SELECT count(*) FROM v_part") == query_rows(
        str(tmp_path), "SELECT sum(parts) FROM v_shard"
    )


def test_key_list_outside_dataset_is_read_only_when_allowed(
    gallery: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    keys = outside / "keys.txt"
    keys.write_text("0010\n", encoding="utf-8")
    create_view(gallery, "listed", ViewDefinition(keys=str(keys)))
    with pytest.raises(PermissionDenied, match="leads out of"):
        refresh_views(gallery)
    monkeypatch.setenv("WDSCTL_ALLOW_PATH", str(outside))
    (report,) = refresh_views(gallery).views
    assert report.state == "unchanged"
