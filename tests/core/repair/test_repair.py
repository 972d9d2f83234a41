from __future__ import annotations

import os
import random
import shutil
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.build import AsNobody, RecordingProgress, a_dataset, a_folder, a_shard, samples, tree
from tests.killing import kill_after_random_delay, kill_moments, run_and_kill
from wdsctl.core.dataset.location import locate
from wdsctl.core.dataset.lock import hold_lock
from wdsctl.core.errors import CatalogError, InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.repair import unit
from wdsctl.core.repair.repair import RepairReport, RepairRequest, repair
from wdsctl.core.validate.validate import validate

GOOD = a_shard(samples(0, 5))
SHARDS = {
    "cut.tar": a_shard(samples(10, 5, "a", "b", size=700))[: 1536 * 7 + 600],
    "deep/twice.tar": a_shard([(f"{key}.{part}", b"1") for key in "zwz" for part in "ab"]),
    "good.tar": GOOD,
    "mixed.tar": a_shard([(name, b"1") for name in ("x.a", "y.a", "x.b", "y.b")]),
    "none.tar": b"no tar at all",
}
LINES = b'\xef\xbb\xbf{"a": 1}\r\n{"a": "\xe9"}\n{"a": }\n{"a": 2}\n'


def make_broken_dataset(root: Path) -> str:
    return a_dataset(root / "shards", SHARDS)


def request_to(root: Path, name: str = "fixed", **more: object) -> RepairRequest:
    return RepairRequest(dest=str(root / name), **more)  # type: ignore[arg-type]


def read_copies(report: RepairReport) -> dict[str, bytes]:
    return {
        os.path.relpath(os.path.join(folder, name), report.dest): Path(folder, name).read_bytes()
        for folder, _, names in os.walk(report.dest)
        for name in names
        if name.endswith((".tar", ".jsonl"))
    }


@pytest.mark.parametrize("workers", [1, 2])
def test_repair_copies_only_fixed_shards(tmp_path: Path, workers: int) -> None:
    root = make_broken_dataset(tmp_path)
    before = tree(root)
    report = repair(root, request_to(tmp_path), workers=workers)

    assert (report.shards, report.sound, report.fixed, report.beyond_repair) == (5, 1, 3, 1)
    assert sorted(read_copies(report)) == ["cut.tar", "deep/twice.tar", "mixed.tar"]
    assert [(each.shard, each.became) for each in report.repaired][-1] == ("none.tar", "lost")
    assert tree(root) == before
    index(report.dest)
    assert validate(report.dest).findings == ()
    errors = [finding for finding in report.findings if finding.severity == "error"]
    assert [(each.code, each.shard) for each in errors] == [("WDS130", "cut.tar"), ("WDS157", "none.tar")]
    assert report.repaired[0].lost == ("000013.a", "000013.b")
    assert report.lost_members == 2


def test_copies_are_independent_of_workers(tmp_path: Path) -> None:
    root = make_broken_dataset(tmp_path)
    one = repair(root, request_to(tmp_path, "one", all_shards=True), workers=1)
    two = repair(root, request_to(tmp_path, "two", all_shards=True), workers=3)
    assert read_copies(one) == read_copies(two)
    assert read_copies(one)["good.tar"] == GOOD


@pytest.mark.usefixtures("place")
def test_repair_continues_after_stop(tmp_path: Path) -> None:
    root = make_broken_dataset(tmp_path)

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repair(root, request_to(tmp_path), progress=RecordingProgress(at_advance=stop))
    done = {name: facts for name, facts in tree(tmp_path / "fixed").items() if name.endswith(".tar")}
    assert list(done) == ["cut.tar"]
    report = repair(root, request_to(tmp_path))
    assert tree(report.dest)["cut.tar"] == done["cut.tar"]
    assert (report.fixed, report.repaired[0].fixes) == (
        3,
        {"incomplete samples removed": 1, "truncated tail removed": 1},
    )


def test_changed_copy_is_rewritten(tmp_path: Path) -> None:
    root = make_broken_dataset(tmp_path)
    first = read_copies(repair(root, request_to(tmp_path)))
    (tmp_path / "fixed" / "cut.tar").write_bytes(b"other")
    assert read_copies(repair(root, request_to(tmp_path))) == first


def test_partial_files_of_killed_run_are_removed(tmp_path: Path) -> None:
    root = make_broken_dataset(tmp_path)
    a_folder(tmp_path / "fixed", {".cut.tar.4711.partial": b"half"})
    report = repair(root, request_to(tmp_path))
    assert sorted(os.listdir(report.dest)) == [".wdsctl", "cut.tar", "deep", "mixed.tar"]


def test_second_repair_into_locked_folder_is_refused(tmp_path: Path) -> None:
    root = make_broken_dataset(tmp_path)
    with hold_lock(str(tmp_path / "fixed" / ".wdsctl" / "lock")), pytest.raises(CatalogError) as caught:
        repair(root, request_to(tmp_path))
    assert caught.value.code == "WDS304"


@pytest.mark.usefixtures("place")
def test_dry_run_reports_fixes_and_writes_nothing(tmp_path: Path) -> None:
    root = make_broken_dataset(tmp_path)
    before = tree(tmp_path)
    report = repair(root, request_to(tmp_path, dry_run=True))
    assert (report.fixed, report.beyond_repair, tree(tmp_path)) == (3, 1, before)


def test_repair_in_place_keeps_backups(tmp_path: Path) -> None:
    root = make_broken_dataset(tmp_path)
    index(root)
    report = repair(root, RepairRequest(in_place=True))
    assert {each.backup for each in report.repaired if each.backup} == {
        "cut.tar.bak",
        "deep/twice.tar.bak",
        "mixed.tar.bak",
    }
    for name in ("cut.tar", "mixed.tar"):
        assert Path(root, f"{name}.bak").read_bytes() == SHARDS[name]
    assert Path(root, "good.tar").read_bytes() == GOOD
    second = repair(root, RepairRequest(in_place=True))
    assert (second.fixed, second.sound) == (0, 4)


def test_repair_in_place_without_backup_leaves_no_other_files(tmp_path: Path) -> None:
    root = make_broken_dataset(tmp_path)
    repair(root, RepairRequest(in_place=True, backup=False))
    assert sorted(os.listdir(root)) == ["cut.tar", "deep", "good.tar", "mixed.tar", "none.tar"]


def test_repair_of_lines_counts_fixes(tmp_path: Path) -> None:
    root = f"{a_folder(tmp_path / 'in', {'qa.jsonl': LINES})}/qa.jsonl"
    report = repair(root, request_to(tmp_path, encoding="latin-1"))
    assert read_copies(report) == {"qa.jsonl": '{"a": 1}\n{"a": "é"}\n{"a": 2}\n'.encode()}
    assert report.repaired[0].fixes == {
        "byte order mark removed": 1,
        "line ends converted": 1,
        "lines re-encoded as UTF-8": 1,
        "lines without a JSON object removed": 1,
    }


def test_removed_lines_are_reported(tmp_path: Path) -> None:
    root = f"{a_folder(tmp_path / 'in', {'qa.jsonl': LINES})}/qa.jsonl"
    report = repair(root, request_to(tmp_path))
    assert [(each.code, each.message) for each in report.findings] == [
        ("WDS157", "non-UTF-8 lines removed: 1"),
        ("WDS157", "lines without a JSON object removed: 1"),
        ("WDS130", "2 lines missing: line 2, line 3"),
    ]
    assert repair(root, request_to(tmp_path)).findings == report.findings


def test_copy_of_single_file_may_be_in_subfolder_but_not_its_folder(tmp_path: Path) -> None:
    root = f"{a_folder(tmp_path / 'in', {'qa.jsonl': LINES})}/qa.jsonl"
    with pytest.raises(UsageError):
        repair(root, request_to(tmp_path, "in"))
    assert read_copies(repair(root, request_to(tmp_path, "in/fixed"))) == {"qa.jsonl": b'{"a": 1}\n{"a": 2}\n'}


@pytest.mark.usefixtures("place")
def test_dataset_yaml_is_copied_to_destination(tmp_path: Path) -> None:
    root = make_broken_dataset(tmp_path)
    index(root)
    Path(locate(root).config_path).write_text("sample_type: CrudeSample\n")
    report = repair(root, request_to(tmp_path))
    assert Path(locate(report.dest).config_path).read_text() == "sample_type: CrudeSample\n"


@pytest.mark.parametrize("dest", ["", "shards", "shards/in", "."])
def test_overlapping_source_and_destination_are_refused(tmp_path: Path, dest: str) -> None:
    root = make_broken_dataset(tmp_path)
    with pytest.raises(UsageError):
        repair(root, RepairRequest(dest=str(tmp_path / dest) if dest else ""))


def test_unreadable_shard_is_reported_and_others_are_repaired(public_path: Path, as_nobody: AsNobody) -> None:
    root = make_broken_dataset(public_path)
    Path(root, "good.tar").chmod(0)
    (public_path / "fixed").mkdir()
    (public_path / "fixed").chmod(0o777)
    report = as_nobody(lambda: repair(root, request_to(public_path)))

    assert sorted(read_copies(report)) == ["cut.tar", "deep/twice.tar", "mixed.tar"]
    assert {each.shard for each in report.repaired if each.became == "lost"} == {"good.tar", "none.tar"}
    assert [(each.code, each.severity) for each in report.findings if each.shard == "good.tar"] == [("WDS402", "error")]


def test_skipped_shards_are_reported_and_others_are_repaired(tmp_path: Path) -> None:
    root = make_broken_dataset(tmp_path)
    os.rename(f"{root}/good.tar", tmp_path / "outside.tar")
    os.symlink(tmp_path / "outside.tar", f"{root}/good.tar")
    Path(root, "small.tar.gz").write_bytes(b"")
    report = repair(root, request_to(tmp_path))

    assert sorted(read_copies(report)) == ["cut.tar", "deep/twice.tar", "mixed.tar"]
    assert [(each.code, each.severity, each.shard) for each in report.findings[:2]] == [
        ("WDS409", "error", "good.tar"),
        ("WDS113", "error", "small.tar.gz"),
    ]


def test_repair_leaves_shards_out_that_the_catalog_does_not_select(tmp_path: Path) -> None:
    root = make_broken_dataset(tmp_path)
    index(f"{root}/{{good,mixed}}.tar")
    report = repair(root, request_to(tmp_path, all_shards=True))
    assert (report.shards, sorted(read_copies(report))) == (2, ["good.tar", "mixed.tar"])


def test_folder_without_shards_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        repair(a_folder(tmp_path / "a", {"x.jpg": b""}), request_to(tmp_path))


def many_broken(tmp_path: Path) -> tuple[str, dict[str, bytes], dict[str, bytes]]:
    """A folder of shards that all need repair, its files, and the expected copies."""
    files = {f"{i:03d}.tar": a_shard([(f"{key}.a", b"1" * 9000) for key in "xyxzx" * 20]) for i in range(30)}
    root = a_dataset(tmp_path / "shards", files)
    return root, files, read_copies(repair(root, request_to(tmp_path, "clean")))


@pytest.mark.slow
@pytest.mark.parametrize("seam", ["fsync", "replace"])
def test_rerun_after_kill_at_any_moment_makes_same_copies(tmp_path: Path, seam: str) -> None:
    root, _, expected = many_broken(tmp_path)
    command = [sys.executable, "-m", "wdsctl", "repair", root, "--workers", "2", "--quiet"]
    dest, count = tmp_path / "fixed", tmp_path / "count"
    for moment in kill_moments([*command, str(tmp_path / "counted")], seam, 5, count):
        assert run_and_kill([*command, str(dest)], moment, count)
        check_copies(dest, expected)
        run_and_kill([*command, str(dest)], moment, count)
        check_copies(dest, expected)
        assert read_copies(repair(root, request_to(tmp_path))) == expected
        shutil.rmtree(dest)


@pytest.mark.slow
@pytest.mark.parametrize("seam", ["link", "replace"])
def test_kill_of_repair_in_place_leaves_every_shard_old_or_new(tmp_path: Path, seam: str) -> None:
    root, files, expected = many_broken(tmp_path)
    command = [sys.executable, "-m", "wdsctl", "repair", root, "--in-place", "--yes", "--workers", "2", "--quiet"]
    for moment in kill_moments(command, seam, 5, tmp_path / "count"):
        shutil.rmtree(root)
        a_dataset(Path(root), files)
        assert run_and_kill(command, moment, tmp_path / "count")
        check_old_or_new(root, files, expected)
        run_and_kill(command, moment, tmp_path / "count")
        check_old_or_new(root, files, expected)
        repair(root, RepairRequest(in_place=True))
        assert {name: Path(root, name).read_bytes() for name in files} == expected
        assert all(Path(root, f"{name}.bak").read_bytes() == data for name, data in files.items())


@pytest.mark.slow
def test_rerun_after_kill_at_random_time_makes_same_shards(tmp_path: Path) -> None:
    root, files, expected = many_broken(tmp_path)
    command = [sys.executable, "-m", "wdsctl", "repair", root, "--workers", "2", "--quiet"]
    rng = random.Random(7)
    for _ in range(4):
        kill_after_random_delay([*command, str(tmp_path / "fixed")], 1.2, rng)
        check_copies(tmp_path / "fixed", expected)
    assert read_copies(repair(root, request_to(tmp_path))) == expected
    for _ in range(4):
        kill_after_random_delay([*command, "--in-place", "--yes"], 1.2, rng)
        check_old_or_new(root, files, expected)
    repair(root, RepairRequest(in_place=True))
    assert {name: Path(root, name).read_bytes() for name in files} == expected


def check_old_or_new(root: str, files: dict[str, bytes], expected: dict[str, bytes]) -> None:
    assert all(Path(root, name).read_bytes() in (data, expected[name]) for name, data in files.items())


def check_copies(dest: Path, expected: dict[str, bytes]) -> None:
    """Checks that every existing copy is whole."""
    for path in dest.glob("*.tar"):
        assert path.read_bytes() == expected[path.name]


def test_foreign_shards_in_destination_are_never_replaced(tmp_path: Path) -> None:
    a_dataset(tmp_path / "fixed", {"cut.tar": GOOD})

    with pytest.raises(UsageError, match="not empty"):
        repair(make_broken_dataset(tmp_path), request_to(tmp_path))
    assert (tmp_path / "fixed" / "cut.tar").read_bytes() == GOOD


def test_repair_in_place_keeps_shard_changed_during_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = a_dataset(tmp_path / "shards", {"cut.tar": SHARDS["cut.tar"]})
    path = tmp_path / "shards" / "cut.tar"
    fill = unit._fill

    def fill_then_replace(draft: str, pieces: Iterator[bytes], mode: int) -> None:
        fill(draft, pieces, mode)
        path.write_bytes(a_shard(samples(10, 9)))

    monkeypatch.setattr(unit, "_fill", fill_then_replace)
    report = repair(root, RepairRequest(in_place=True, backup=False))

    assert [finding.code for finding in report.findings] == ["WDS202"]
    assert path.read_bytes() == a_shard(samples(10, 9))


def test_indexed_samples_missing_in_copy_are_reported(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 10), "b.tar": samples(10, 3)})
    index(root)
    sizes = {name: os.path.getsize(f"{root}/{name}") for name in ("a.tar", "b.tar")}
    os.truncate(f"{root}/a.tar", sizes["a.tar"] // 2)

    dry_report = repair(root, request_to(tmp_path, dry_run=True))
    report = repair(root, request_to(tmp_path))
    second = repair(root, request_to(tmp_path))

    remaining = len(keys_in(f"{tmp_path}/fixed/a.tar"))
    assert 0 < remaining < 10
    assert report.repaired[0].lost == tuple(f"{i:06d}.{part}" for i in range(remaining, 10) for part in ("jpg", "txt"))
    assert second.findings == report.findings == dry_report.findings
    assert all(finding.shard == "a.tar" for finding in report.findings)


def zero_member(root: str, name: str, tail: int = 0) -> None:
    """Sets header and data of a member of at most 512 bytes to zero, and the `tail` bytes before it."""
    path = Path(root, "a.tar")
    data = bytearray(path.read_bytes())
    at = data.index(name.encode())
    data[at - tail : at + 1024] = bytes(tail + 1024)
    path.write_bytes(data)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("tail", [0, 700])
def test_zeroed_member_is_reported_as_lost_by_name(tmp_path: Path, tail: int, in_place: bool) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "jpg", "json", size=500)})
    index(root)
    zero_member(root, "000003.json", tail)
    request = RepairRequest(in_place=True) if in_place else request_to(tmp_path)

    report = repair(root, request)

    (shard,) = report.repaired
    assert shard.lost == ("000003.jpg", "000003.json")
    assert shard.fixes == {"damaged bytes removed": 1, "incomplete samples removed": 1}
    assert [each.code for each in report.findings if each.severity == "error"] == ["WDS130"]
    assert keys_in(os.path.join(report.dest, "a.tar")) == {f"{i:06d}" for i in (0, 1, 2, 4, 5)}


def test_missing_parts_are_inferred_from_other_samples_without_catalog(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "jpg", "json", size=500)})
    zero_member(root, "000003.json")
    report = repair(root, request_to(tmp_path, dry_run=True))
    assert report.repaired[0].lost == ("000003.jpg", "000003.json")
    assert [each.code for each in report.findings] == ["WDS157", "WDS130"]


def test_only_damaged_samples_of_mixed_shard_are_removed(tmp_path: Path) -> None:
    mixed = {f"{i:06d}.{part}": b"1" * 500 for i in range(8) for part in ("jpg", "json", "txt", "cls")[: 1 + i % 4]}
    root = a_dataset(tmp_path / "data", {"a.tar": mixed})
    index(root)
    zero_member(root, "000005.json")
    report = repair(root, request_to(tmp_path))
    assert report.repaired[0].lost == ("000005.jpg", "000005.json")
    assert keys_in(f"{tmp_path}/fixed/a.tar") == {f"{i:06d}" for i in (0, 1, 2, 3, 4, 6, 7)}


@pytest.mark.parametrize("catalog", [True, False])
def test_shard_without_its_last_member_is_reported(tmp_path: Path, catalog: bool) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "jpg", "json", size=500)})
    if catalog:
        index(root)
    zero_member(root, "000005.json")
    report = repair(root, request_to(tmp_path))
    if catalog:
        assert (report.fixed, report.repaired[0].lost) == (1, ("000005.jpg", "000005.json"))
    else:
        assert report.sound == 1
        assert "000005, which lacks json: all other samples have these parts" in report.findings[0].message


@pytest.mark.parametrize("in_place", [False, True])
def test_missing_indexed_shard_is_reported_with_all_members(tmp_path: Path, in_place: bool) -> None:
    sizes = {"a.tar": samples(0, 3, "json"), "b.tar": samples(3, 9, "json"), "c.tar": samples(12, 28, "json")}
    root = a_dataset(tmp_path / "data", sizes)
    index(root)
    os.rename(os.path.join(root, "c.tar"), os.path.join(root, "d.tar"))  # still present under another name
    os.remove(os.path.join(root, "b.tar"))

    report = repair(root, RepairRequest(in_place=True) if in_place else request_to(tmp_path))

    (missing_shard,) = report.repaired
    assert (missing_shard.shard, missing_shard.became, report.shards, report.beyond_repair) == ("b.tar", "lost", 2, 1)
    assert missing_shard.lost == tuple(f"{i:06}.json" for i in range(3, 12))
    assert report.lost_members == 9
    assert {(each.code, each.severity, each.shard) for each in report.findings} == {("WDS130", "error", "b.tar")}


def test_excess_zeros_at_end_of_tar_are_reported(tmp_path: Path) -> None:
    whole = a_shard(samples(0, 6, "json", size=500))
    data = whole[: 4 * 1024] + bytes(3 * 1024)
    root = a_dataset(tmp_path / "data", {"a.tar": data, "b.tar": whole})
    (finding,) = repair(root, request_to(tmp_path)).findings
    assert (finding.shard, "they may replace lost members" in finding.message) == ("a.tar", True)


def test_zeroed_first_member_is_reported_as_lost(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 4, "jpg", "json", size=500)})
    index(root)
    zero_member(root, "000000.jpg")
    assert repair(root, request_to(tmp_path)).repaired[0].lost == ("000000.jpg", "000000.json")


def test_missing_whole_sample_is_reported_by_catalog(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "json", size=500)})
    index(root)
    zero_member(root, "000003.json")
    assert repair(root, request_to(tmp_path)).repaired[0].lost == ("000003.json",)


def test_repair_of_repaired_copy_finds_nothing(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "jpg", "json", size=500)})
    index(root)
    zero_member(root, "000003.json")
    first = repair(root, request_to(tmp_path))
    index(first.dest)
    second = repair(first.dest, request_to(tmp_path, "again", all_shards=True))
    assert (second.copied, second.findings) == (1, ())
    assert read_copies(second) == read_copies(first)


def test_repeated_repair_in_place_reports_lost_members_until_index(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "jpg", "json", size=500)})
    index(root)
    zero_member(root, "000003.json")
    repair(root, RepairRequest(in_place=True))
    second = repair(root, RepairRequest(in_place=True))
    assert (second.sound, second.repaired[0].lost) == (1, ("000003.jpg", "000003.json"))
    assert "changed after it was indexed and lacks members" in second.findings[0].message
    index(root)
    assert repair(root, RepairRequest(in_place=True)).findings == ()


def test_catalog_of_changed_shard_is_not_compared_and_reported(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "jpg", "json", size=500)})
    index(root)
    Path(root, "a.tar").write_bytes(a_shard(samples(50, 6, "png", "txt", size=300)))
    zero_member(root, "000053.txt")
    (shard,) = repair(root, request_to(tmp_path)).repaired
    assert shard.lost == ("000053.png", "000053.txt")  # inferred from the parts of other samples
    assert any("the shard changed after it was indexed, so" in words for words in shard.left)


def test_repair_without_offsets_file_counts_remaining_samples(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "jpg", "json", size=500)})
    index(root)
    os.unlink(locate(root).offsets_path(1))
    zero_member(root, "000003.json")
    (shard,) = repair(root, request_to(tmp_path)).repaired
    assert "5 of 6 indexed samples remain" in shard.left


def test_regrouped_samples_are_not_reported_as_lost(tmp_path: Path) -> None:
    halves = [("a.txt", b"1"), ("b.txt", b"2"), ("a.json", b"{}"), ("b.json", b"{}"), ("c.txt", b"3"), ("a.cls", b"4")]
    root = a_dataset(tmp_path / "data", {"a.tar": halves})
    index(root)

    report = repair(root, request_to(tmp_path))

    assert report.repaired[0].fixes == {"keys regrouped": 3}
    assert report.findings == ()
    assert keys_in(f"{tmp_path}/fixed/a.tar") == {"a", "b", "c"}


def keys_in(path: str) -> set[str]:
    """The keys in a tar, read with the standard library."""
    with tarfile.open(path) as tar:
        return {name.partition(".")[0] for name in tar.getnames()}
