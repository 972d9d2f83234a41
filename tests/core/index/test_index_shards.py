"""Selection of shards, hashes of shards, and catalogs without sample rows."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import RecordingProgress, a_dataset, a_folder, a_shard, codes, rewrite_shard, samples, some_shards
from tests.core.dumps import catalog_of, dump, query
from wdsctl.core.catalog.browse import NameLookup
from wdsctl.core.catalog.consistency import find_repeated_keys
from wdsctl.core.catalog.read import Catalog
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import CatalogError, InputError
from wdsctl.core.index.index import index
from wdsctl.core.views.sql import sql


def paths(root: str | Path) -> list[str]:
    return [path for (path,) in query(catalog_of(Path(root)), "SELECT path FROM shard WHERE removed IS NULL")]


def hashes(root: str | Path) -> dict[str, str | None]:
    return dict(query(catalog_of(Path(root)), "SELECT path, sha256 FROM v_shard"))


def sha256(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_index_of_shard_range_selects_shards_for_later_runs(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 5)
    report = index(f"{root}/shard-{{001..003}}.tar")
    progress = RecordingProgress()
    later = index(root, progress=progress)

    assert paths(root) == ["shard-001.tar", "shard-002.tar", "shard-003.tar"]
    assert report.selection == later.selection == "shard-{001..003}.tar"
    assert later.up_to_date
    assert any("only the shards that an earlier run selected: shard-{001..003}.tar" in note for note in progress.notes)


def test_deselected_shards_are_removed_and_double_star_selects_all(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 4)
    index(root)
    narrowed = index(f"{root}/shard-00[01].tar")
    widened = index(f"{root}/**")

    assert (narrowed.removed, narrowed.shards, widened.added, widened.shards) == (2, 2, 2, 4)
    assert widened.selection == ""
    assert index(root).up_to_date


def test_glob_selection_adds_new_matches_except_excluded(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"t/a.tar": samples(0, 2), "t/b.tar": samples(2, 2), "v/a.tar": samples(4, 2)})
    index(f"glob:{root}/[t]/*.tar", exclude=["*/b.tar"])
    (tmp_path / "t" / "c.tar").write_bytes(a_shard(samples(6, 2)))
    report = index(root)

    assert (report.added, paths(root)) == (1, ["t/a.tar", "t/c.tar"])


def test_missing_shards_of_range_are_error_unless_dropped(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    with pytest.raises(InputError, match=r"2 of 5 shards that you named are missing: shard-003\.tar") as caught:
        index(f"{root}/shard-{{000..004}}.tar")
    assert caught.value.code == "WDS008"
    assert not catalog_of(tmp_path).exists()

    report = index(f"{root}/shard-{{000..004}}.tar", missing="drop")
    assert (report.shards, codes(report)) == (3, ["WDS008"])
    assert [finding.count for finding in report.findings] == [2]
    later = index(root)
    assert (later.up_to_date, codes(later)) == (True, ["WDS008"])


@pytest.mark.parametrize("notation", ["none-*.tar", "{none,never}/*.tar", "glob:**/none.tar"])
def test_index_refuses_glob_without_matches(notation: str, tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    prefix, _, rest = notation.rpartition("glob:")
    with pytest.raises(InputError, match="nothing matches glob:") as caught:
        index(f"{prefix}{'glob:' if 'glob:' in notation else ''}{root}/{rest}")
    assert caught.value.code == "WDS008"


def test_deleted_shard_of_selected_range_has_vanished(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(f"{root}/shard-{{000..002}}.tar")
    (tmp_path / "shard-001.tar").unlink()

    with pytest.raises(InputError, match=r"1 of 3 shards has vanished: shard-001\.tar"):
        index(root)


def test_compressed_shards_are_reported_with_convert_command(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 1), "b.tar.gz": b"x", "c.tgz": b"x"})
    report = index(f"{root}/**/[ab].*")

    assert [(finding.code, finding.shard) for finding in report.findings] == [("WDS113", "b.tar.gz")]
    assert "wdsctl convert" in report.findings[0].message


def test_hashes_cover_whole_shards_and_are_kept(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    report = index(root, hashed=True, workers=2)
    second_progress = RecordingProgress()

    assert (report.hashed, report.generation, report.up_to_date) == (2, 1, False)
    assert hashes(root) == {f"shard-00{i}.tar": sha256(tmp_path / f"shard-00{i}.tar") for i in range(2)}
    assert index(root, progress=second_progress).up_to_date
    assert second_progress.items == 0


def test_new_and_changed_shards_are_hashed_after_first_request(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, hashed=True)
    rewrite_shard(tmp_path / "shard-000.tar", samples(50, 3))
    some_shards(tmp_path, 1, first=2)
    index(root)
    assert hashes(root) == {path: sha256(tmp_path / path) for path in paths(root)}

    some_shards(tmp_path, 1, first=3)
    report = index(root, hashed=False)
    assert (report.hashed, hashes(root)["shard-003.tar"]) == (3, None)


def test_hashes_detect_changed_bytes_in_unchanged_layout(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, hashed=True)
    data = Path(root, "shard-000.tar").read_bytes().replace(b"0 jpg", b"9 jpg")
    rewrite_shard(tmp_path / "shard-000.tar", data)
    report = index(root)

    assert (report.changed, report.generation) == (1, 2)
    assert hashes(root)["shard-000.tar"] == hashlib.sha256(data).hexdigest()


def test_hash_of_touched_shard_is_dropped_unless_recomputed(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root, hashed=True)
    os.utime(tmp_path / "shard-000.tar", (5, 5))
    assert index(root, hashed=False).hashed == 0
    assert index(root, hashed=True).hashed == 1


def test_index_without_sample_rows_has_same_offsets_and_hints_at_option(tmp_path: Path) -> None:
    root = some_shards(tmp_path / "with", 3)
    without_rows = some_shards(tmp_path / "without", 3)
    index(root)
    report = index(without_rows, sample_rows=False)

    assert (report.samples, report.parts, report.sample_rows) == (15, 30, False)
    assert dump(without_rows)["sample"] == []
    assert Path(locate(without_rows).offsets_path(1)).read_bytes() == Path(locate(root).offsets_path(1)).read_bytes()
    for query_rows in (
        lambda: NameLookup(str(catalog_of(Path(without_rows)))).find("000001.jpg"),
        lambda: _repeated(without_rows),
    ):
        with pytest.raises(CatalogError, match="no sample rows") as caught:
            query_rows()
        assert caught.value.code == "WDS307"
        assert "--sample-rows" in caught.value.hint


def _repeated(root: str) -> None:
    with Catalog.open(str(catalog_of(Path(root)))) as catalog:
        find_repeated_keys(catalog)


@pytest.mark.parametrize("workers", [1, 2])
def test_sample_rows_are_added_only_on_request_and_equal_original_rows(workers: int, tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    before = dump(root)["sample"]
    without_rows_report = index(root, sample_rows=False)
    some_shards(tmp_path, 1, first=3)
    index(root)
    rows_after_update = dump(root)["sample"]
    (tmp_path / "shard-003.tar").unlink()
    index(root, missing="drop")
    report = index(root, sample_rows=True, workers=workers)

    assert (without_rows_report.generation, rows_after_update) == (1, [])
    assert dump(root)["sample"] == before
    assert (report.added, report.unchanged, report.sample_rows) == (0, 3, True)


def test_lost_offsets_are_rebuilt_from_shards_without_sample_rows(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root, sample_rows=False)
    offsets = Path(locate(root).offsets_path(1))
    before = offsets.read_bytes()
    offsets.unlink()
    index(root)
    assert offsets.read_bytes() == before

    offsets.unlink()
    (tmp_path / "shard-001.tar").unlink()
    with pytest.raises(CatalogError, match="the offsets of a shard are lost"):
        index(root, missing="keep")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_index_of_100000_shards_needs_little_memory(tmp_path: Path) -> None:
    data = a_shard({"0.txt": b"x"})[:2048]
    for i in range(100_000):
        if i % 1_000 == 0:
            (tmp_path / f"{i // 1_000:02d}").mkdir()
        (tmp_path / f"{i // 1_000:02d}" / f"{i:06d}.tar").write_bytes(data)
    script = (
        "import sys; from wdsctl.core.index.index import index; from wdsctl.core.inspect.inspect import inspect; "
        "root = sys.argv[1]; index(root, workers=2); again = index(root); "
        # Not by getrusage: its peak begins with the memory of the parent process.
        "(peak,) = [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')]; "
        "print(inspect(root).samples, int(again.up_to_date), peak)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, capture_output=True, text=True)
    samples, is_current, memory = map(int, done.stdout.split())

    assert samples == 100_000
    assert is_current
    assert memory < 400 << 10


def test_jsonl_default_of_no_sample_rows_does_not_apply_to_tars(tmp_path: Path) -> None:
    lines = Path(a_folder(tmp_path, {"a.jsonl": b"{}\n" * 3})) / "a.jsonl"
    assert not index(str(tmp_path)).sample_rows
    lines.unlink()
    a_dataset(tmp_path, {"b.tar": samples(0, 5)})

    assert not index(str(tmp_path), missing="keep").sample_rows  # rows of a missing shard cannot be added
    assert index(str(tmp_path), missing="drop").sample_rows
    with sql(str(tmp_path), "SELECT count(*) FROM v_sample") as answer:
        assert list(answer.rows) == [(5,)]


def test_tars_without_sample_rows_keep_that_setting(tmp_path: Path) -> None:
    a_dataset(tmp_path, {"a.tar": samples(0, 5)})
    assert not index(str(tmp_path), sample_rows=False).sample_rows
    a_dataset(tmp_path, {"b.tar": samples(5, 9)})
    assert not index(str(tmp_path)).sample_rows
    (tmp_path / "a.tar").unlink()
    (tmp_path / "b.tar").unlink()
    assert not index(str(tmp_path), missing="keep").sample_rows


def status_of(root: str) -> dict[str, str]:
    return dict(query(catalog_of(Path(root)), "SELECT path, status FROM v_shard"))


def test_missing_jsonl_file_stays_missing_when_key_changes(tmp_path: Path) -> None:
    root = a_folder(tmp_path, dict.fromkeys(("a.jsonl", "b.jsonl"), b'{"id": "x"}\n'))
    index(root)
    (tmp_path / "b.jsonl").unlink()
    index(root, missing="keep", key="id")
    assert status_of(root) == {"a.jsonl": "ok", "b.jsonl": "missing"}
    report = index(root)
    assert (codes(report), report.up_to_date) == (["WDS306"], True)


@pytest.mark.parametrize("rebuild", [False, True])
def test_sample_rows_of_missing_shard_are_refused(tmp_path: Path, *, rebuild: bool) -> None:
    root = a_folder(tmp_path, dict.fromkeys(("a.jsonl", "b.jsonl"), b"{}\n"))
    index(root)
    (tmp_path / "b.jsonl").unlink()
    index(root, missing="keep")
    with pytest.raises(InputError, match="cannot add sample rows") as caught:
        index(root, sample_rows=True, rebuild=rebuild)
    assert (caught.value.code, caught.value.exit_code) == ("WDS306", 3)
