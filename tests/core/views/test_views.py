from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.build import rewritten, samples, some_shards, tree
from tests.core.catalog.test_schema import rebuilt
from tests.core.pictures import ODD, a_gallery, rows_of
from wdsctl.core.catalog.ledger import Ledger, read_view, read_views
from wdsctl.core.catalog.read import read_catalog_shards
from wdsctl.core.catalog.splits import sample_flags
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.split_rules import SplitRule
from wdsctl.core.errors import CatalogError, InputError, PermissionDenied, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.progress import SILENT_PROGRESS
from wdsctl.core.split.split import SplitRequest, split_dataset
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.select import evaluate_definition
from wdsctl.core.views.selections import intersect_selections, read_view_samples
from wdsctl.core.views.show import iter_exported_names
from wdsctl.core.views.sql import sql
from wdsctl.core.views.views import create_view, delete_view, refresh_views

Sample = tuple[str, int]


def asked(root: str, text: str) -> list[tuple[Any, ...]]:
    with sql(root, text) as answer:
        return list(answer.rows)


def held(root: str, name: str) -> set[Sample]:
    """The samples of a view, by shard and place."""
    place = locate(root)
    shards = {shard.id: shard for shard in read_catalog_shards(place.catalog)}
    found = read_view_samples(place, name).items()
    return {
        (shards[i].path, at) for i, part in found for at in sample_flags(part, shards[i].samples).nonzero()[0].tolist()
    }


def of(root: str, definition: ViewDefinition) -> int:
    return evaluate_definition(locate(root), definition, SILENT_PROGRESS).samples


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    return a_gallery(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def gallery(whole: str, tmp_path: Path) -> str:
    shutil.copytree(whole, tmp_path / "gallery")
    return str(tmp_path / "gallery")


def a_thousand(root: Path) -> str:
    path = some_shards(root, 10, 100)
    index(path)
    return path


def test_a_view_has_the_samples_that_fit_all_conditions(gallery: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("\n".join([*ODD, "0010", "0011", "0013", "0016"]), encoding="utf-8")
    sql = "SELECT id FROM v_part WHERE part = 'txt' AND size > 5"
    made = ViewDefinition(where="width >= 40", sql=sql, keys=str(keys), split="train")
    report = create_view(gallery, "all", made)

    rows = rows_of(gallery)
    wide = {(row["shard"], row["position"]) for row in rows if (row["width"] or 0) >= 40}
    long = {(row["shard"], row["position"]) for row in rows if row["part"] == "txt" and row["size"] > 5}
    known = {(row["shard"], row["position"]) for row in rows if row["key"] in {*ODD, "0010", "0011", "0013", "0016"}}
    train = {(row["shard"], row["position"]) for row in rows if row["split"] == "train"}
    assert held(gallery, "all") == wide & long & known & train != set()
    assert report.samples == len(wide & long & known & train)
    assert {each.name: each.samples for each in report.splits} == {"train": report.samples, "val": 0}


def test_a_view_is_kept_with_its_hash_and_how_it_was_made(gallery: str) -> None:
    report = create_view(gallery, "wide", ViewDefinition(where="width >= 40"))
    found = read_view(locate(gallery).ledger, "wide")

    assert found is not None
    assert (found[0].samples, found[0].hash, found[0].generation) == (report.samples, report.hash, 1)
    assert found[0].definition == '{"where": "width >= 40"}'
    with Ledger.open_for_reading(locate(gallery).ledger) as ledger:
        assert (ledger.runs()[-1]["command"], ledger.runs()[-1]["status"]) == ("view create", "ok")


def test_the_shards_and_the_catalog_are_not_touched(gallery: str) -> None:
    before = tree(gallery)
    create_view(gallery, "wide", ViewDefinition(where="width >= 40"))
    after = tree(gallery)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed <= {".wdsctl", ".wdsctl/ledger.sqlite"}


def test_a_dry_run_writes_nothing(gallery: str) -> None:
    create_view(gallery, "old", ViewDefinition(where="width < 40"))
    before = tree(gallery)
    assert create_view(gallery, "wide", ViewDefinition(where="width >= 40"), dry_run=True).state == "created"
    report = create_view(gallery, "old", ViewDefinition(where="width < 60"), replace=True, dry_run=True)
    assert (report.state, report.removed) == ("replaced", 0)
    refresh_views(gallery, dry_run=True)
    delete_view(gallery, "old", dry_run=True)
    assert tree(gallery) == before


def test_another_view_of_the_name_is_refused_unless_it_is_to_be_replaced(gallery: str) -> None:
    create_view(gallery, "wide", ViewDefinition(where="width >= 40"))
    assert create_view(gallery, "wide", ViewDefinition(where="width > 39")).state == "unchanged"
    with pytest.raises(UsageError, match="the view 'wide' exists") as raised:
        create_view(gallery, "wide", ViewDefinition(where="width >= 60"))
    assert raised.value.code == "WDS333"
    report = create_view(gallery, "wide", ViewDefinition(where="width >= 60"), replace=True)
    assert (report.state, report.added) == ("replaced", 0)
    assert report.removed


@pytest.mark.parametrize(
    "wanted",
    [
        {"where": "width > 99999"},
        {"sql": "SELECT id FROM v_sample WHERE key = 'zz'"},
        {"keys": os.devnull},
    ],
)
def test_a_view_without_samples_is_refused(gallery: str, wanted: dict[str, str]) -> None:
    with pytest.raises(InputError, match="no sample matches the selection"):
        create_view(gallery, "none", ViewDefinition(**wanted))  # type: ignore[arg-type]
    assert read_views(locate(gallery).ledger) == []


def test_keys_that_repeat_are_all_meant_and_places_tell_them_apart(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "data", 1)
    shutil.copy(tmp_path / "data" / "shard-000.tar", tmp_path / "data" / "copy.tar")
    index(root)
    keys, places = tmp_path / "keys.txt", tmp_path / "places.jsonl"
    keys.write_text("000001\n", encoding="utf-8")
    places.write_text('{"key": "000001", "shard": "copy.tar", "position": 1}\n', encoding="utf-8")

    create_view(root, "both", ViewDefinition(keys=str(keys)))
    create_view(root, "one", ViewDefinition(keys=str(places)))
    assert held(root, "both") == {("copy.tar", 1), ("shard-000.tar", 1)}
    assert held(root, "one") == {("copy.tar", 1)}


def test_unknown_keys_are_an_error_unless_they_are_to_be_skipped(gallery: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("it's\nnobody\nnothing\n", encoding="utf-8")
    with pytest.raises(InputError, match="2 keys of the list are not in the dataset: nobody, nothing"):
        create_view(gallery, "some", ViewDefinition(keys=str(keys)))
    assert create_view(gallery, "some", ViewDefinition(keys=str(keys)), skip_unknown=True).unknown_keys == 2


@pytest.mark.parametrize("form", ["txt", "jsonl"])
def test_a_view_of_exported_keys_is_the_view(gallery: str, tmp_path: Path, form: str) -> None:
    report = create_view(gallery, "wide", ViewDefinition(where="width >= 40"))
    path = tmp_path / f"keys.{form}"
    path.write_bytes(b"".join(iter_exported_names(gallery, "wide", "jsonl" if form == "jsonl" else "txt")))
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
def test_a_query_that_gives_no_ids_is_refused(gallery: str, sql: str) -> None:
    with pytest.raises(UsageError) as raised:
        create_view(gallery, "odd", ViewDefinition(sql=sql))
    assert raised.value.code == "WDS332"


@pytest.mark.parametrize(("sample", "count"), [("1%", 10), ("0.25%", 2), ("37", 37), ("5000", 1000), ("100%", 1000)])
def test_a_sample_has_exactly_its_share(tmp_path: Path, sample: str, count: int) -> None:
    assert of(a_thousand(tmp_path), ViewDefinition(sample=sample, seed=3)) == count


def test_a_sample_of_a_few_has_at_least_one(tmp_path: Path) -> None:
    assert of(a_thousand(tmp_path), ViewDefinition(where="position < 1", sample="0.1%", seed=3)) == 1


def test_a_small_sample_lies_within_a_larger_one_and_seeds_differ(tmp_path: Path) -> None:
    root = a_thousand(tmp_path)
    for name, sample, seed in (("few", "5%", 1), ("many", "10%", 1), ("others", "5%", 2)):
        create_view(root, name, ViewDefinition(sample=sample, seed=seed))
    few, many, others = (held(root, name) for name in ("few", "many", "others"))
    assert few < many
    assert few != others
    assert len({shard for shard, _ in many}) >= 5


@pytest.mark.usefixtures("place")
def test_a_sample_is_drawn_of_what_fits(tmp_path: Path) -> None:
    root = a_thousand(tmp_path)
    create_view(root, "even", ViewDefinition(where="position % 2 = 0", sample="10%"))
    assert len(held(root, "even")) == 50
    assert all(position % 2 == 0 for _, position in held(root, "even"))


def test_other_sets_of_splits_are_columns_of_their_own(gallery: str) -> None:
    split_dataset(gallery, SplitRequest(split_set="folds", rule=SplitRule({"a": 1.0, "b": 1.0}, "sample", 0)))
    place = locate(gallery)
    for short in ("a", "b"):
        create_view(gallery, short, ViewDefinition(where=f"split_folds = '{short}'"))
        create_view(gallery, f"s{short}", ViewDefinition(split=f"folds/{short}"))
        assert read_view_samples(place, short) == read_view_samples(place, f"s{short}")
    assert intersect_selections(read_view_samples(place, "a"), read_view_samples(place, "b")) == {}


@pytest.mark.usefixtures("place")
def test_a_view_is_brought_up_to_date_where_it_is_asked(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    for name, where in (("even", "position % 2 = 0"), ("first", "shard = 'shard-000.tar'")):
        create_view(root, name, ViewDefinition(where=where))
    some_shards(tmp_path, 1, first=3)
    index(root)
    assert len(held(root, "even")) == 9

    states = {view.name: (view.state, view.samples, view.added) for view in refresh_views(root).views}
    assert states == {"even": ("replaced", 12, 3), "first": ("unchanged", 5, 0)}
    assert len(held(root, "even")) == 12


@pytest.mark.usefixtures("place")
def test_a_view_of_shards_that_changed_is_made_again(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    create_view(root, "even", ViewDefinition(where="position % 2 = 0"))
    rewritten(tmp_path / "shard-001.tar", samples(100, 7))
    index(root)
    with pytest.raises(CatalogError, match="changed"):
        held(root, "even")

    (view,) = refresh_views(root, ["even"]).views
    assert (view.state, view.samples, view.added) == ("replaced", 7, None)
    assert len(held(root, "even")) == 7


def test_a_view_that_has_become_empty_is_refused_and_stays_as_it_was(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    for name, where in (("even", "position % 2 = 0"), ("first", "shard = 'shard-000.tar'")):
        create_view(root, name, ViewDefinition(where=where))
    before = read_view(locate(root).ledger, "first")
    (tmp_path / "shard-000.tar").unlink()
    index(root, missing="drop")

    for dry_run in (True, False):
        with pytest.raises(InputError, match="no sample matches the selection") as error:
            refresh_views(root, ["first"], dry_run=dry_run)
        assert f"to delete it, run `wdsctl view delete {root} first`" in error.value.hint
    assert read_view(locate(root).ledger, "first") == before


def test_keys_from_stdin_cannot_be_read_again(gallery: str) -> None:
    place = locate(gallery)
    create_view(gallery, "piped", ViewDefinition(where="width >= 40"))
    with Ledger.open(place.ledger) as ledger, ledger.transaction() as connection:
        connection.execute("""UPDATE view SET expression = '{"keys": "-"}'""")
    with pytest.raises(UsageError, match="from stdin"):
        refresh_views(gallery)


def test_a_view_that_is_deleted_is_gone(gallery: str) -> None:
    create_view(gallery, "wide", ViewDefinition(where="width >= 40"))
    assert delete_view(gallery, "wide").definition == ViewDefinition(where="width >= 40")
    with pytest.raises(InputError, match="it has none yet"):
        delete_view(gallery, "wide")


def test_a_definition_that_does_not_parse_is_told(gallery: str) -> None:
    create_view(gallery, "wide", ViewDefinition(where="width >= 40"))
    with Ledger.open(locate(gallery).ledger) as ledger, ledger.transaction() as connection:
        connection.execute("UPDATE view SET expression = 'nonsense'")
    with pytest.raises(CatalogError, match="the stored definition of the view 'wide'"):
        refresh_views(gallery)
    assert held(gallery, "wide")  # training goes on


def test_a_dataset_without_a_catalog_says_so(tmp_path: Path) -> None:
    with pytest.raises(CatalogError) as raised:
        create_view(some_shards(tmp_path, 1), "x", ViewDefinition(split="train"))
    assert raised.value.code == "WDS301"
    assert not os.path.exists(tmp_path / ".wdsctl")


def test_a_dataset_of_others_takes_no_view_and_shows_those_it_has(
    public_path: Path, as_nobody: Callable[[Callable[[], Any]], Any]
) -> None:
    root = some_shards(public_path / "data", 1)
    index(root)
    create_view(root, "even", ViewDefinition(where="position % 2 = 0"))
    for folder, _, names in os.walk(root):
        Path(folder).chmod(0o555)
        for name in names:
            Path(folder, name).chmod(0o444)

    assert as_nobody(lambda: held(root, "even")) == {("shard-000.tar", i) for i in (0, 2, 4)}
    assert as_nobody(lambda: create_view(root, "x", ViewDefinition(where="position = 1"), dry_run=True)).samples == 1
    refused = as_nobody(lambda: create_view(root, "x", ViewDefinition(where="position = 1")))
    assert isinstance(refused, PermissionDenied)
    assert "--catalog" in refused.hint


def test_the_catalog_of_a_release_has_views(tmp_path: Path) -> None:
    (tmp_path / ".wdsctl").mkdir()
    rebuilt(tmp_path / ".wdsctl")
    report = create_view(str(tmp_path), "some", ViewDefinition(where="ext = 'jpg' AND split = 'train'"))
    assert report.samples == sum(each.samples for each in report.splits if each.name == "train") > 0
    assert asked(str(tmp_path), "SELECT count(*) FROM v_part") == asked(str(tmp_path), "SELECT sum(parts) FROM v_shard")


def test_a_list_that_the_ledger_names_elsewhere_is_read_only_where_the_user_allows_it(
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
