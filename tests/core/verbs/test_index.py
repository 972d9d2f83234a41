from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.build import Told, a_dataset, a_shard, codes, rewritten, samples, some_shards, tree
from tests.core.dumps import catalog_of, dump, query, split_of
from wdsctl.core.catalog.catalog import Catalog
from wdsctl.core.catalog.quick import current_generation
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import locate
from wdsctl.core.verbs.index import IndexReport, Missing, index
from wdsctl.core.verbs.split import split

AsNobody = Callable[[Callable[[], Any]], Any]


def offsets(root: str) -> Offsets:
    place = locate(root)
    with Catalog(place.catalog) as catalog:
        return Offsets(place.offsets(int(catalog.facts()["generation"])))


def contents(root: str) -> list[tuple[str, list[tuple[str, bytes]]]]:
    """Every sample by the offsets file, its parts read from the shards."""
    found = []
    columns = offsets(root)
    for row in range(columns.samples):
        data = Path(root, columns.shards[columns.shard_of(row)].path).read_bytes()
        found.append((columns.key(row), [(name, data[at : at + size]) for name, at, size in columns.parts(row)]))
    return found


def expected(first: int, count: int) -> list[tuple[str, list[tuple[str, bytes]]]]:
    files = samples(first, count)
    return [(f"{i:06d}", [(part, files[f"{i:06d}.{part}"]) for part in ("jpg", "txt")]) for i in range(first, count)]


def leftovers(root: str) -> list[str]:
    names = os.listdir(Path(root, ".wdsctl"))
    return [name for name in names if not name.startswith(("catalog.sqlite", "ledger.sqlite", "offsets-", "dataset"))]


def test_a_first_index_holds_every_sample_and_part(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    report = index(root)

    assert (report.shards, report.samples, report.parts, report.added, report.generation) == (3, 15, 30, 3, 1)
    assert report.size_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.tar"))
    assert (report.findings, report.up_to_date) == ((), False)
    assert contents(root) == expected(0, 15)
    assert leftovers(root) == []


def test_ids_are_the_shards_number_and_the_place_in_it(tmp_path: Path) -> None:
    index(some_shards(tmp_path, 2, 3))

    rows = query(catalog_of(tmp_path), "SELECT id, key FROM sample ORDER BY id")
    assert [row[0] for row in rows] == [shard << 28 | i for shard in (1, 2) for i in range(3)]
    assert [row[1] for row in rows] == [f"{i:06d}" for i in range(6)]


def test_the_views_tell_where_each_part_is(tmp_path: Path) -> None:
    index(some_shards(tmp_path, 2, 3))

    for key, part, shard, offset, size in query(
        catalog_of(tmp_path), "SELECT key, part, shard, offset, size FROM v_part"
    ):
        assert (tmp_path / shard).read_bytes()[offset : offset + size] == samples(0, 6)[f"{key}.{part}"]
    assert query(catalog_of(tmp_path), "SELECT shard, position FROM v_sample WHERE key = '000004'") == [
        ("shard-001.tar", 1)
    ]


def test_nothing_changed_is_up_to_date_and_writes_no_catalog(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    before = tree(root)
    report = index(root)

    assert (report.up_to_date, report.unchanged, report.generation, report.samples) == (True, 2, 1, 10)
    after = tree(root)
    assert {name for name in after if after[name] != before.get(name)} <= {".wdsctl", ".wdsctl/ledger.sqlite"}


def test_new_shards_are_appended_and_only_they_are_read(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2, first=1)
    index(root)
    before = dump(root)["sample"]
    some_shards(tmp_path, 1)
    told = Told()
    report = index(root, progress=told)

    assert (report.added, report.unchanged, report.samples, report.generation) == (1, 2, 15, 2)
    assert told.items == 1
    assert [row for row in dump(root)["sample"] if row[0] < 3 << 28] == before
    assert [shard.path for shard in offsets(root).shards] == ["shard-001.tar", "shard-002.tar", "shard-000.tar"]
    assert sorted(contents(root)) == expected(0, 15)


def test_a_changed_shard_gets_a_new_number_and_its_old_row_says_when_it_went(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    rewritten(tmp_path / "shard-000.tar", samples(100, 3))
    report = index(root)

    assert (report.changed, report.unchanged, report.samples) == (1, 1, 8)
    rows = query(catalog_of(tmp_path), "SELECT id, path, added, removed FROM shard ORDER BY id")
    assert rows == [
        (1, "shard-000.tar", 1, 2),
        (2, "shard-001.tar", 1, None),
        (3, "shard-000.tar", 2, None),
    ]
    assert sorted(contents(root)) == expected(5, 10) + [
        (f"{i:06d}", v) for i, (_, v) in enumerate(expected(100, 103), 100)
    ]


@pytest.mark.parametrize(("missing", "samples_left", "removed"), [("keep", 15, 0), ("drop", 10, 1)])
def test_vanished_shards_are_kept_or_dropped_as_asked(
    tmp_path: Path, missing: Missing, samples_left: int, removed: int
) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    (tmp_path / "shard-001.tar").unlink()
    report = index(root, missing=missing)

    assert (report.samples, report.removed) == (samples_left, removed)
    assert index(root, missing=missing).up_to_date


def test_vanished_shards_are_an_error_that_changes_nothing_unless_asked_otherwise(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    before = dump(root)
    (tmp_path / "shard-001.tar").unlink()

    with pytest.raises(InputError, match="1 of 3 shards has vanished: shard-001") as caught:
        index(root)
    assert caught.value.code == "WDS306"
    assert "--missing drop" in caught.value.hint
    assert dump(root) == before


def status_of(root: str) -> dict[str, str]:
    return dict(query(catalog_of(root), "SELECT path, status FROM v_shard"))


@pytest.mark.parametrize("rebuild", [False, True])
def test_a_shard_that_was_kept_as_missing_is_known_to_be_missing_and_stops_no_later_run(
    tmp_path: Path, *, rebuild: bool
) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    (tmp_path / "shard-001.tar").unlink()
    index(root, missing="keep")
    assert status_of(root) == {"shard-000.tar": "ok", "shard-001.tar": "missing", "shard-002.tar": "ok"}
    report = index(root, rebuild=rebuild)
    assert [(each.code, each.severity, each.shard) for each in report.findings] == [
        ("WDS306", "warning", "shard-001.tar")
    ]
    assert (report.samples, report.up_to_date) == (15, not rebuild)
    assert status_of(root)["shard-001.tar"] == "missing"


def test_a_shard_that_vanishes_after_another_was_kept_is_an_error_again(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    (tmp_path / "shard-001.tar").unlink()
    index(root, missing="keep")
    (tmp_path / "shard-002.tar").unlink()
    with pytest.raises(InputError, match="1 of 3 shards has vanished: shard-002"):
        index(root)
    assert index(root, missing="drop").samples == 5


@pytest.mark.parametrize("name", ["shard-001.tar", "other.tar"])
def test_a_missing_shard_that_is_there_again_is_what_it_was(tmp_path: Path, name: str) -> None:
    root = some_shards(tmp_path / "d", 3)
    index(root)
    split(root, {"train": 1, "val": 1}, by="sample")
    before = split_of(root)
    os.rename(f"{root}/shard-001.tar", tmp_path / "away")
    index(root, missing="keep")
    os.rename(tmp_path / "away", f"{root}/{name}")
    report = index(root)
    assert (report.findings, report.generation, report.samples) == ((), 1, 15)
    assert status_of(root) == {"shard-000.tar": "ok", name: "ok", "shard-002.tar": "ok"}
    assert {(path.replace("other", "shard-001"), i): part for (path, i), part in split_of(root).items()} == before
    assert index(root).up_to_date


def test_a_missing_shard_whose_place_another_has_taken_is_read_anew(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    (tmp_path / "shard-001.tar").unlink()
    index(root, missing="keep")
    a_dataset(tmp_path, {"shard-001.tar": samples(90, 2)})
    assert (index(root).samples, status_of(root)["shard-001.tar"]) == (7, "ok")


def test_a_rebuild_does_not_forget_vanished_shards_unasked(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    before = dump(root)
    (tmp_path / "shard-001.tar").unlink()

    with pytest.raises(InputError, match="1 of 3 shards has vanished: shard-001") as caught:
        index(root, rebuild=True)
    assert caught.value.code == "WDS306"
    assert dump(root) == before


@pytest.mark.parametrize("by", ["shard", "sample"])
def test_a_rebuild_keeps_the_rows_of_vanished_shards_where_asked(tmp_path: Path, by: Any) -> None:
    root = some_shards(tmp_path, 4)
    index(root)
    split(root, {"train": 3, "val": 1}, by=by)
    before, where = dump(root), split_of(root)
    parts = {offsets(root).key(row): offsets(root).parts(row) for row in range(20)}
    (tmp_path / "shard-001.tar").unlink()
    report = index(root, rebuild=True, missing="keep")

    assert (report.samples, report.removed, report.generation) == (20, 0, 2)
    assert [row[:6] for row in dump(root)["shard"]] == [row[:6] for row in before["shard"]]
    assert [row[6] for row in dump(root)["shard"]] == ["ok", "missing", "ok", "ok"]
    assert {table: dump(root)[table] for table in ("ext", "sample", "shard_part")} == {
        table: before[table] for table in ("ext", "sample", "shard_part")
    }
    assert split_of(root) == where
    assert {offsets(root).key(row): offsets(root).parts(row) for row in range(20)} == parts
    assert index(root, missing="keep").up_to_date


def test_a_rebuild_drops_vanished_shards_where_asked(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    (tmp_path / "shard-001.tar").unlink()
    report = index(root, rebuild=True, missing="drop")

    assert (report.samples, report.removed) == (10, 1)
    assert index(root).up_to_date


def test_numbers_are_never_given_out_twice(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    (tmp_path / "shard-001.tar").unlink()
    index(root, missing="drop")
    index(root, rebuild=True)
    some_shards(tmp_path, 1, first=2)
    index(root)

    assert query(catalog_of(root), "SELECT id, path FROM shard WHERE removed IS NULL ORDER BY id") == [
        (1, "shard-000.tar"),
        (3, "shard-002.tar"),
    ]


def test_kept_rows_of_vanished_shards_outlive_the_loss_of_the_offsets_file(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    before = [offsets(root).parts(row) for row in range(15)]
    (tmp_path / "shard-001.tar").unlink()
    Path(locate(root).offsets(1)).unlink()
    report = index(root, missing="keep")

    assert not report.up_to_date
    assert [offsets(root).parts(row) for row in range(15)] == before
    assert [offsets(root).key(row) for row in range(15)] == [f"{i:06d}" for i in range(15)]


def test_a_bad_shard_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    good = a_shard(samples(0, 5))
    root = a_dataset(
        tmp_path,
        {"a.tar": good, "b.tar": b"not a tar", "c.tar": good[: 5 * 1024 + 600], "d.tar": b"", "e.tar": samples(9, 1)},
    )
    report = index(root)

    assert codes(report) == ["WDS101", "WDS102", "WDS101"]
    assert (report.shards, report.samples) == (5, 8)
    rows = query(catalog_of(root), "SELECT path, status, code, samples FROM shard ORDER BY id")
    assert rows == [
        ("a.tar", "ok", None, 5),
        ("b.tar", "bad", "WDS101", 0),
        ("c.tar", "partial", "WDS102", 2),
        ("d.tar", "bad", "WDS101", 0),
        ("e.tar", "ok", None, 1),
    ]


def test_what_was_wrong_is_said_again_until_it_is_mended(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 2), "b.tar": b"not a tar"})
    index(root)

    (again,) = index(root).findings
    assert (again.code, again.shard) == ("WDS101", "b.tar")
    assert again.message == f"found when it was indexed, and not mended: `wdsctl validate {root}` tells all"
    rewritten(tmp_path / "b.tar", samples(2, 2))
    assert index(root).findings == ()


def test_a_shard_that_may_not_be_read_is_read_when_it_may(public_path: Path, as_nobody: AsNobody) -> None:
    root = some_shards(public_path / "data", 2)
    Path(root).chmod(0o777)
    closed = Path(root, "shard-000.tar")
    closed.chmod(0)
    first = as_nobody(lambda: index(root))
    closed.chmod(0o644)
    second = as_nobody(lambda: index(root))

    assert isinstance(first, IndexReport)
    assert (codes(first), first.samples) == (["WDS402"], 5)
    assert (codes(second), second.samples, second.changed) == ([], 10, 1)


@pytest.mark.parametrize(
    ("files", "there"),
    [
        ({"readme": b"1", "licence": b"2"}, "2 members whose names make no key, such as 'readme'"),
        ({}, "no members at all"),
    ],
)
def test_a_dataset_without_samples_is_an_error_that_says_what_is_there_instead(
    tmp_path: Path, files: dict[str, bytes], there: str
) -> None:
    root = a_dataset(tmp_path, {"a.tar": files})
    first, again = index(root), index(root)

    (finding,) = (finding for finding in first.findings if finding.code == "WDS119")
    assert finding.severity == "error"
    assert finding.message == f"no samples in 1 shard: {there} (`wdsctl validate {root}` tells more)"
    assert (codes(again), again.up_to_date) == (["WDS119"], True)
    assert again.findings[0].message == f"no samples in 1 shard (`wdsctl validate {root}` tells more)"


def test_a_catalog_that_is_a_folder_is_set_aside_by_a_rebuild_which_says_so(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    Path(locate(root).catalog).mkdir(parents=True)
    told = Told()

    assert index(root, rebuild=True, progress=told).samples == 5
    assert told.notes == [f"the catalog was damaged; it is now {locate(root).catalog}.damaged-1, and a new one is made"]


def test_a_dataset_of_bad_shards_alone_has_an_empty_catalog(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": b"", "b.tar": b"?"})
    report = index(root)

    assert (report.shards, report.samples) == (2, 0)
    assert offsets(root).samples == 0
    assert index(root).up_to_date


@pytest.mark.parametrize(
    ("files", "code"), [({}, "WDS003"), ({"a.txt": b"x"}, "WDS003"), ({"a.tar.gz": b"x"}, "WDS113")]
)
def test_a_folder_without_shards_is_refused_and_left_alone(tmp_path: Path, files: dict[str, bytes], code: str) -> None:
    root = a_dataset(tmp_path, files)
    before = tree(root)

    with pytest.raises(InputError) as caught:
        index(root)
    assert (caught.value.code, caught.value.where) == (code, root)
    assert tree(root) == before


def test_no_such_folder_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist") as caught:
        index(str(tmp_path / "nothing"))
    assert caught.value.where == str(tmp_path / "nothing")


def test_a_dry_run_says_what_it_would_do_and_writes_nothing(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    before = tree(root)
    report = index(root, dry_run=True)

    assert (report.added, report.dry_run, report.up_to_date) == (2, True, False)
    assert (report.shards, report.samples) == (2, 0)
    assert report.size_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.tar"))
    assert tree(root) == before
    index(root)
    some_shards(tmp_path, 1, first=2)
    before = tree(root)
    report = index(root, dry_run=True)
    assert (report.added, report.unchanged, report.shards, report.samples) == (1, 2, 3, 10)
    assert tree(root) == before


def test_excluded_shards_are_left_out(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a/1.tar": samples(0, 2), "b/1.tar": samples(2, 2), "b/2.tar": samples(4, 2)})

    progress = Told()
    assert index(root, exclude=["b/*", "none*"], progress=progress).samples == 2
    assert progress.notes == ["nothing matches --exclude none*"]
    with Catalog(locate(root).catalog) as catalog:
        assert catalog.exclude() == ("b/*", "none*")


@pytest.mark.parametrize("unsaid", [None, []])
def test_what_was_excluded_stays_so_until_other_patterns_are_given(tmp_path: Path, unsaid: list[str] | None) -> None:
    root = a_dataset(tmp_path, {"a/1.tar": samples(0, 2), "b/1.tar": samples(2, 2), "b/2.tar": samples(4, 2)})
    index(root, exclude=["b/*"])

    assert index(root, exclude=unsaid).up_to_date
    assert index(root, exclude=unsaid, rebuild=True).samples == 2
    assert index(root, exclude=["b/1.tar"]).samples == 4
    assert index(root, exclude=[""]).samples == 6


@pytest.mark.parametrize("rebuild", [False, True])
def test_shards_that_become_excluded_go_and_have_not_vanished(tmp_path: Path, rebuild: bool) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    report = index(root, exclude=["*-001.tar"], missing="keep", rebuild=rebuild)

    assert (report.removed, report.samples, report.generation) == (1, 10, 2)
    assert index(root).up_to_date


def test_another_set_of_patterns_is_stored_though_it_leaves_out_nothing_more(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    report = index(root, exclude=["later/*"])

    assert (report.up_to_date, report.generation, report.samples) == (False, 1, 10)
    with Catalog(locate(root).catalog) as catalog:
        assert catalog.exclude() == ("later/*",)
    a_dataset(tmp_path, {"later/1.tar": samples(50, 2)})
    assert index(root).up_to_date


def test_the_last_three_generations_stay_for_trainings_under_way(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    first = Offsets(locate(root).offsets(1))
    for i in range(1, 5):
        some_shards(tmp_path, 1, first=i)
        index(root)

    kept = sorted(name for name in os.listdir(tmp_path / ".wdsctl") if name.startswith("offsets-"))
    assert kept == ["offsets-3.bin", "offsets-4.bin", "offsets-5.bin"]
    assert Offsets(locate(root).offsets(3)).samples == 15
    assert first.key(4) == "000004"


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def swapped(path: Path) -> None:
    path.write_bytes(b"?" * path.stat().st_size)


@pytest.mark.parametrize("damage", [Path.unlink, cut_short, swapped])
def test_an_offsets_file_that_is_lost_or_damaged_is_made_again_as_it_was(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    root = some_shards(tmp_path, 2, first=1)
    index(root)
    some_shards(tmp_path, 1)
    index(root)
    path = Path(locate(root).offsets(2))
    before = path.read_bytes()
    damage(path)
    report = index(root)

    assert (report.up_to_date, report.generation, report.findings) == (False, 2, ())
    assert path.read_bytes() == before
    assert index(root).up_to_date


@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_workers_changes_nothing(tmp_path: Path, workers: int) -> None:
    shards = {f"{i}.tar": samples(i * 10, 3 + i, *("jpg", "txt", "cls")[: 1 + i % 3]) for i in range(7)}
    one, many = a_dataset(tmp_path / "one", shards), a_dataset(tmp_path / "many", shards)
    for path in (tmp_path / "one").glob("*.tar"):
        shutil.copystat(path, tmp_path / "many" / path.name)
    index(one)
    index(many, workers=workers)

    assert dump(one) == dump(many)
    assert Path(locate(one).offsets(1)).read_bytes() == Path(locate(many).offsets(1)).read_bytes()


def test_keys_that_are_sql_are_keys(tmp_path: Path) -> None:
    keys = ["'; DROP TABLE sample; --", 'a"b', "%s", "?", ":key", "[1]", "漢字", "x\ny", "{}"]
    root = a_dataset(tmp_path, {"a.tar": {f"{key}.txt": b"x" for key in keys}})
    index(root)

    assert [row[0] for row in query(catalog_of(root), "SELECT key FROM sample ORDER BY id")] == keys
    assert [offsets(root).key(row) for row in range(len(keys))] == keys


def test_names_of_shards_may_hold_anything_and_those_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a b/'é'%?#.tar": samples(0, 2)})
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.tar")).write_bytes(a_shard(samples(2, 2)))
    report = index(root)

    assert report.samples == 2
    assert [(found.code, found.shard) for found in report.findings] == [("WDS116", "\\xff.tar")]


# -- damage, versions, locks ------------------------------------------------------------------------------------------


def damaged(root: str, content: bytes) -> Path:
    path = catalog_of(root)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("content", [b"", b"garbage" * 100, b"SQLite format 3\0" + bytes(5000)])
def test_a_damaged_catalog_is_named_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    path = damaged(root, content)

    with pytest.raises(CatalogError) as caught:
        index(root)
    assert (caught.value.code, caught.value.where) == ("WDS302", str(path))
    assert "--rebuild" in caught.value.hint
    assert path.read_bytes() == content


def test_a_catalog_cut_short_is_damaged(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    damaged(root, catalog_of(root).read_bytes()[:-4096])

    with pytest.raises(CatalogError, match="shorter than it says"):
        index(root)


def test_a_catalog_with_rubbish_inside_is_damaged(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    good = catalog_of(root).read_bytes()
    damaged(root, good[:4096] + b"\x5a" * (len(good) - 4096))

    with pytest.raises(CatalogError) as caught:
        index(root)
    assert caught.value.code == "WDS302"
    index(root, rebuild=True)
    assert (tmp_path / ".wdsctl" / "catalog.sqlite.damaged-1").exists()
    assert index(root).up_to_date


def test_a_rebuild_keeps_the_damaged_file_and_the_split_of_dataset_yaml(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 10)
    index(root)
    Path(locate(root).dataset_yaml).write_text("sample_type: CrudeSample\n")
    split(root, {"train": 8, "val": 1, "test": 1}, seed=3)
    before, where = dump(root), split_of(root)
    for content in (b"first", b"second"):
        damaged(root, content)
        report = index(root, rebuild=True)

    assert [(tmp_path / f".wdsctl/catalog.sqlite.damaged-{i}").read_bytes() for i in (1, 2)] == [b"first", b"second"]
    assert report.generation == 3
    assert split_of(root) == where
    assert dump(root)["sample"] == before["sample"]


def test_a_rebuild_of_a_sound_catalog_moves_nothing(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 6, first=3)
    index(root)
    split(root, {"train": 3, "val": 1}, by="sample")
    some_shards(tmp_path, 3)
    index(root)
    before, where = dump(root), split_of(root)
    assert where
    report = index(root, rebuild=True)

    assert report.generation == 3
    assert split_of(root) == where
    assert [row[:2] for row in dump(root)["shard"]] == [row[:2] for row in before["shard"]]
    assert dump(root)["sample"] == before["sample"]
    assert not list((tmp_path / ".wdsctl").glob("*damaged*"))


def test_a_catalog_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    with closing(sqlite3.connect(catalog_of(root))) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = catalog_of(root).read_bytes()

    for rebuild in (False, True):
        with pytest.raises(CatalogError, match="version 99") as caught:
            index(root, rebuild=rebuild)
        assert caught.value.code == "WDS303"
    assert catalog_of(root).read_bytes() == before


def test_a_database_of_something_else_is_no_catalog(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    (tmp_path / ".wdsctl").mkdir()
    with closing(sqlite3.connect(catalog_of(root))) as connection:
        connection.execute("CREATE TABLE mine (x)")

    with pytest.raises(CatalogError, match="something else"):
        index(root)


HOLD = """
import sys, time
from wdsctl.core.lock import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_writer_is_kept_out_while_the_first_lives_and_takes_over_when_it_is_dead(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    with subprocess.Popen([sys.executable, "-c", HOLD, locate(root).lock], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(CatalogError, match=f"process {holder.pid}") as caught:
            index(root)
        assert (caught.value.code, caught.value.where) == ("WDS304", locate(root).lock)
        holder.kill()

    assert index(root).samples == 5
    assert leftovers(root) == []


def test_a_writer_that_lost_its_lock_publishes_nothing(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    before = tree(Path(root, ".wdsctl"))
    some_shards(tmp_path, 1, first=1)
    told = Told(at_advance=lambda: Path(locate(root).lock).unlink())

    with pytest.raises(CatalogError, match="taken over") as caught:
        index(root, progress=told)
    assert caught.value.code == "WDS304"
    after = tree(Path(root, ".wdsctl"))
    assert {name: after[name] for name in ("catalog.sqlite", "offsets-1.bin")} == {
        name: before[name] for name in ("catalog.sqlite", "offsets-1.bin")
    }
    assert not Path(locate(root).offsets(2)).exists()


def test_what_killed_runs_began_is_swept_but_not_the_lock_that_somebody_is_about_to_take(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root)
    meta = tmp_path / ".wdsctl"
    young, old, partial = meta / f"lock.{'a' * 32}", meta / f"lock.{'b' * 32}", meta / ".catalog.sqlite.9.partial"
    claim = meta / "lock.unreadable.dead"
    for path in (young, old, claim, partial):
        path.write_bytes(b"")
    for path in (old, claim):
        os.utime(path, (0, 0))
    some_shards(tmp_path, 1, first=1)
    index(root)

    assert [path.exists() for path in (young, old, claim, partial)] == [True, False, False, False]


# -- killed in the middle ----------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from tests.build import Told
from wdsctl.core.verbs.index import index

told = Told()
def die():
    if told.items == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
told._at_advance = die
index(sys.argv[1], progress=told)
"""


def kill_after(root: str, shards: int) -> None:
    """Index in another process, which is killed when so many shards have been scanned."""
    command = [sys.executable, "-c", KILLED, root, str(shards)]
    assert subprocess.run(command, cwd=Path(__file__).parents[3], check=False).returncode == -9


def test_small_shards_of_a_killed_run_lie_together_and_are_found_again(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "data", 40, 1)
    kill_after(root, 20)
    kept = {path: path.stat().st_mtime_ns for path in Path(root, ".wdsctl", "work").glob("*.scan")}
    kill_after(root, 35)
    units = {path: path.stat().st_mtime_ns for path in Path(root, ".wdsctl", "work").glob("*.scan")}

    assert len(kept) == 2
    assert len(units) == 5
    assert kept.items() <= units.items()
    assert index(root).samples == 40
    assert contents(root) == expected(0, 40)
    assert leftovers(root) == []


@pytest.mark.parametrize("after", [1, 2, 4])
def test_a_killed_run_leaves_the_old_catalog_and_its_finished_shards_are_not_read_again(
    tmp_path: Path, after: int
) -> None:
    root = some_shards(tmp_path / "data", 2)
    index(root)
    before = dump(root)
    some_shards(tmp_path / "data", 4, first=2)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, root, str(after)], cwd=Path(__file__).parents[3], check=False
    )

    assert killed.returncode == -9
    assert dump(root) == before
    units = {path.name: path.stat().st_mtime_ns for path in Path(root, ".wdsctl", "work").glob("*.scan")}
    assert len(units) == after
    told = Told()
    report = index(root, progress=told)
    assert (report.added, report.samples, report.findings) == (4, 30, ())
    assert told.items == 4
    assert contents(root) == expected(0, 30)
    assert leftovers(root) == []


def test_finished_units_of_a_dead_run_are_used(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    kill_after(root, 1)
    path = tmp_path / "shard-000.tar"
    stat = path.stat()
    path.write_bytes(bytes(stat.st_size))  # nobody can read its samples any more
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

    assert index(root).samples == 10


def test_damaged_units_of_a_dead_run_are_made_again(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    kill_after(root, 2)
    for i, unit in enumerate(sorted((tmp_path / ".wdsctl" / "work").glob("*.scan"))):
        unit.write_bytes(unit.read_bytes()[: 0 if i else 300])

    assert index(root).samples == 10


# -- where nothing can be written --------------------------------------------------------------------------------------


def test_a_read_only_dataset_gets_its_catalog_elsewhere_and_says_so_once(
    public_path: Path, as_nobody: AsNobody, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = some_shards(public_path / "data", 2)
    Path(root).chmod(0o555)
    monkeypatch.setenv("XDG_DATA_HOME", str(public_path / "home"))
    before = tree(root)

    def twice() -> tuple[IndexReport, list[str], IndexReport, list[str], str, int]:
        first, second = Told(), Told()
        return (
            index(root, progress=first),
            first.notes,
            index(root, progress=second),
            second.notes,
            locate(root).catalog,
            current_generation(locate(root).catalog),
        )

    outcome = as_nobody(twice)
    assert isinstance(outcome, tuple), outcome
    made, said, again, said_again, found, generation = outcome
    assert made.catalog.startswith(str(public_path / "home" / "wdsctl" / "data-"))
    assert (len(said), said_again, again.up_to_date) == (1, [], True)
    assert (found, generation) == (made.catalog, 1)  # as the loader looks for it
    assert tree(root) == before


def test_a_full_disk_is_said_and_what_was_there_is_unchanged(tmp_path: Path, a_disk: Callable[[str], Path]) -> None:
    tiny_disk = a_disk("600k")
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 100)})
    catalog = str(tiny_disk / "meta")
    index(root, catalog=catalog)
    kept = {name: (tiny_disk / "meta" / name).read_bytes() for name in ("catalog.sqlite", "offsets-1.bin")}
    a_dataset(tmp_path / "data", {f"{i}.tar": samples(i * 10_000, 3000, size=1) for i in range(1, 4)})

    with pytest.raises(OSError, match="WDS401") as caught:
        index(root, catalog=catalog)
    assert getattr(caught.value, "code", "") == "WDS401"
    assert {name: (tiny_disk / "meta" / name).read_bytes() for name in kept} == kept
    with Catalog(str(tiny_disk / "meta" / "catalog.sqlite")) as published:
        assert len(published.shards()) == 1
    assert not list((tiny_disk / "meta").glob("*.partial"))
    subprocess.run(["mount", "-o", "remount,size=20m", str(tiny_disk)], check=True)
    assert index(root, catalog=catalog).samples == 9100


@pytest.mark.slow
def test_memory_does_not_grow_with_the_dataset(tmp_path: Path) -> None:
    # Not by getrusage: a child begins with the peak of its parent.
    measure = (
        "import sys; from wdsctl.core.verbs.index import index; index(sys.argv[1]);"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    shard = a_shard(samples(0, 20_000, size=1))
    peaks = []
    for count in (2, 20):
        root = a_dataset(tmp_path / str(count), {f"{i}.tar": shard for i in range(count)})
        said = subprocess.run([sys.executable, "-c", measure, root], capture_output=True, text=True, check=True)
        peaks.append(int(said.stdout) // 1024)

    assert peaks[1] < 300
    assert peaks[1] - peaks[0] < 100
