from __future__ import annotations

import os
import random
import shutil
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.build import Told, a_dataset, a_folder, a_shard, samples, tree
from tests.killing import died, kill_by_the_clock, moments
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


def broken(root: Path) -> str:
    return a_dataset(root / "shards", SHARDS)


def to(root: Path, name: str = "fixed", **more: object) -> RepairRequest:
    return RepairRequest(dest=str(root / name), **more)  # type: ignore[arg-type]


def copies(report: RepairReport) -> dict[str, bytes]:
    return {
        os.path.relpath(os.path.join(folder, name), report.dest): Path(folder, name).read_bytes()
        for folder, _, names in os.walk(report.dest)
        for name in names
        if name.endswith((".tar", ".jsonl"))
    }


@pytest.mark.parametrize("workers", [1, 2])
def test_broken_shards_get_fixed_copies_and_the_others_stay(tmp_path: Path, workers: int) -> None:
    root = broken(tmp_path)
    before = tree(root)
    report = repair(root, to(tmp_path), workers=workers)

    assert (report.shards, report.sound, report.fixed, report.beyond_repair) == (5, 1, 3, 1)
    assert sorted(copies(report)) == ["cut.tar", "deep/twice.tar", "mixed.tar"]
    assert [(each.shard, each.became) for each in report.repaired][-1] == ("none.tar", "lost")
    assert tree(root) == before
    index(report.dest)
    assert validate(report.dest).findings == ()
    errors = [finding for finding in report.findings if finding.severity == "error"]
    assert [(each.code, each.shard) for each in errors] == [("WDS130", "cut.tar"), ("WDS157", "none.tar")]
    assert report.repaired[0].lost == ("000013.a", "000013.b")
    assert report.lost_members == 2


def test_the_copies_are_the_same_bytes_for_any_workers(tmp_path: Path) -> None:
    root = broken(tmp_path)
    one = repair(root, to(tmp_path, "one", all_shards=True), workers=1)
    two = repair(root, to(tmp_path, "two", all_shards=True), workers=3)
    assert copies(one) == copies(two)
    assert copies(one)["good.tar"] == GOOD


@pytest.mark.usefixtures("place")
def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    root = broken(tmp_path)

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repair(root, to(tmp_path), progress=Told(at_advance=stop))
    done = {name: facts for name, facts in tree(tmp_path / "fixed").items() if name.endswith(".tar")}
    assert list(done) == ["cut.tar"]
    report = repair(root, to(tmp_path))
    assert tree(report.dest)["cut.tar"] == done["cut.tar"]
    assert (report.fixed, report.repaired[0].fixes) == (
        3,
        {"incomplete samples removed": 1, "truncated tail removed": 1},
    )


def test_a_copy_that_was_changed_since_is_made_again(tmp_path: Path) -> None:
    root = broken(tmp_path)
    first = copies(repair(root, to(tmp_path)))
    (tmp_path / "fixed" / "cut.tar").write_bytes(b"other")
    assert copies(repair(root, to(tmp_path))) == first


def test_what_a_killed_run_left_half_is_removed(tmp_path: Path) -> None:
    root = broken(tmp_path)
    a_folder(tmp_path / "fixed", {".cut.tar.4711.partial": b"half"})
    report = repair(root, to(tmp_path))
    assert sorted(os.listdir(report.dest)) == [".wdsctl", "cut.tar", "deep", "mixed.tar"]


def test_two_repairs_into_one_folder_are_kept_apart(tmp_path: Path) -> None:
    root = broken(tmp_path)
    with hold_lock(str(tmp_path / "fixed" / ".wdsctl" / "lock")), pytest.raises(CatalogError) as caught:
        repair(root, to(tmp_path))
    assert caught.value.code == "WDS304"


@pytest.mark.usefixtures("place")
def test_a_dry_run_tells_all_and_writes_nothing(tmp_path: Path) -> None:
    root = broken(tmp_path)
    before = tree(tmp_path)
    report = repair(root, to(tmp_path, dry_run=True))
    assert (report.fixed, report.beyond_repair, tree(tmp_path)) == (3, 1, before)


def test_in_place_what_was_there_is_kept_beside_it(tmp_path: Path) -> None:
    root = broken(tmp_path)
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
    again = repair(root, RepairRequest(in_place=True))
    assert (again.fixed, again.sound) == (0, 4)


def test_in_place_without_backup_leaves_nothing_beside(tmp_path: Path) -> None:
    root = broken(tmp_path)
    repair(root, RepairRequest(in_place=True, backup=False))
    assert sorted(os.listdir(root)) == ["cut.tar", "deep", "good.tar", "mixed.tar", "none.tar"]


def test_lines_are_repaired_into_a_copy_with_counts(tmp_path: Path) -> None:
    root = f"{a_folder(tmp_path / 'in', {'qa.jsonl': LINES})}/qa.jsonl"
    report = repair(root, to(tmp_path, encoding="latin-1"))
    assert copies(report) == {"qa.jsonl": '{"a": 1}\n{"a": "é"}\n{"a": 2}\n'.encode()}
    assert report.repaired[0].fixes == {
        "byte order mark removed": 1,
        "line ends converted": 1,
        "lines re-encoded as UTF-8": 1,
        "lines without a JSON object removed": 1,
    }


def test_lines_that_are_left_out_are_told(tmp_path: Path) -> None:
    root = f"{a_folder(tmp_path / 'in', {'qa.jsonl': LINES})}/qa.jsonl"
    report = repair(root, to(tmp_path))
    assert [(each.code, each.message) for each in report.findings] == [
        ("WDS157", "non-UTF-8 lines removed: 1"),
        ("WDS157", "lines without a JSON object removed: 1"),
        ("WDS130", "missing lines: line 2, line 3"),
    ]
    assert repair(root, to(tmp_path)).findings == report.findings


def test_the_copy_of_one_file_may_lie_below_its_folder_and_not_in_its_place(tmp_path: Path) -> None:
    root = f"{a_folder(tmp_path / 'in', {'qa.jsonl': LINES})}/qa.jsonl"
    with pytest.raises(UsageError):
        repair(root, to(tmp_path, "in"))
    assert copies(repair(root, to(tmp_path, "in/fixed"))) == {"qa.jsonl": b'{"a": 1}\n{"a": 2}\n'}


@pytest.mark.usefixtures("place")
def test_what_people_wrote_of_the_dataset_goes_with_the_copies(tmp_path: Path) -> None:
    root = broken(tmp_path)
    index(root)
    Path(locate(root).dataset_yaml).write_text("sample_type: CrudeSample\n")
    report = repair(root, to(tmp_path))
    assert Path(locate(report.dest).dataset_yaml).read_text() == "sample_type: CrudeSample\n"


@pytest.mark.parametrize("dest", ["", "shards", "shards/in", "."])
def test_copies_and_shards_are_never_one_dataset(tmp_path: Path, dest: str) -> None:
    root = broken(tmp_path)
    with pytest.raises(UsageError):
        repair(root, RepairRequest(dest=str(tmp_path / dest) if dest else ""))


def test_a_shard_that_cannot_be_read_is_told_and_the_others_are_repaired(tmp_path: Path) -> None:
    root = broken(tmp_path)
    os.unlink(f"{root}/good.tar")
    os.symlink("/proc/self/mem", f"{root}/good.tar")
    report = repair(root, to(tmp_path))
    assert report.fixed == 3


def test_a_folder_without_shards_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        repair(a_folder(tmp_path / "a", {"x.jpg": b""}), to(tmp_path))


def many_broken(tmp_path: Path) -> tuple[str, dict[str, bytes], dict[str, bytes]]:
    """A folder of shards that all need repair, what it has, and what it is to become."""
    files = {f"{i:03d}.tar": a_shard([(f"{key}.a", b"1" * 9000) for key in "xyxzx" * 20]) for i in range(30)}
    root = a_dataset(tmp_path / "shards", files)
    return root, files, copies(repair(root, to(tmp_path, "clean")))


@pytest.mark.slow
@pytest.mark.parametrize("seam", ["fsync", "replace"])
def test_killed_at_any_moment_the_next_run_makes_the_same_copies(tmp_path: Path, seam: str) -> None:
    root, _, expected = many_broken(tmp_path)
    command = [sys.executable, "-m", "wdsctl", "repair", root, "--workers", "2", "--quiet"]
    dest, count = tmp_path / "fixed", tmp_path / "count"
    for moment in moments([*command, str(tmp_path / "counted")], seam, 5, count):
        assert died([*command, str(dest)], moment, count)
        check_copies(dest, expected)
        died([*command, str(dest)], moment, count)
        check_copies(dest, expected)
        assert copies(repair(root, to(tmp_path))) == expected
        shutil.rmtree(dest)


@pytest.mark.slow
@pytest.mark.parametrize("seam", ["link", "replace"])
def test_in_place_killed_at_any_moment_no_shard_is_missing_or_half(tmp_path: Path, seam: str) -> None:
    root, files, expected = many_broken(tmp_path)
    command = [sys.executable, "-m", "wdsctl", "repair", root, "--in-place", "--yes", "--workers", "2", "--quiet"]
    for moment in moments(command, seam, 5, tmp_path / "count"):
        shutil.rmtree(root)
        a_dataset(Path(root), files)
        assert died(command, moment, tmp_path / "count")
        check_old_or_new(root, files, expected)
        died(command, moment, tmp_path / "count")
        check_old_or_new(root, files, expected)
        repair(root, RepairRequest(in_place=True))
        assert {name: Path(root, name).read_bytes() for name in files} == expected
        assert all(Path(root, f"{name}.bak").read_bytes() == data for name, data in files.items())


@pytest.mark.slow
def test_killed_by_the_clock_the_next_runs_make_the_same_shards(tmp_path: Path) -> None:
    root, files, expected = many_broken(tmp_path)
    command = [sys.executable, "-m", "wdsctl", "repair", root, "--workers", "2", "--quiet"]
    rng = random.Random(7)
    for _ in range(4):
        kill_by_the_clock([*command, str(tmp_path / "fixed")], 1.6, rng)
        check_copies(tmp_path / "fixed", expected)
    assert copies(repair(root, to(tmp_path))) == expected
    for _ in range(4):
        kill_by_the_clock([*command, "--in-place", "--yes"], 1.6, rng)
        check_old_or_new(root, files, expected)
    repair(root, RepairRequest(in_place=True))
    assert {name: Path(root, name).read_bytes() for name in files} == expected


def check_old_or_new(root: str, files: dict[str, bytes], expected: dict[str, bytes]) -> None:
    assert all(Path(root, name).read_bytes() in (data, expected[name]) for name, data in files.items())


def check_copies(dest: Path, expected: dict[str, bytes]) -> None:
    """Whatever there is is whole."""
    for path in dest.glob("*.tar"):
        assert path.read_bytes() == expected[path.name]


def test_shards_that_another_has_put_into_the_folder_are_never_replaced(tmp_path: Path) -> None:
    a_dataset(tmp_path / "fixed", {"cut.tar": GOOD})

    with pytest.raises(UsageError, match="not empty"):
        repair(broken(tmp_path), to(tmp_path))
    assert (tmp_path / "fixed" / "cut.tar").read_bytes() == GOOD


def test_in_place_a_shard_that_is_still_being_written_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = a_dataset(tmp_path / "shards", {"cut.tar": SHARDS["cut.tar"]})
    path = tmp_path / "shards" / "cut.tar"
    fill = unit._fill

    def meanwhile(draft: str, pieces: Iterator[bytes], mode: int) -> None:
        fill(draft, pieces, mode)
        path.write_bytes(a_shard(samples(10, 9)))

    monkeypatch.setattr(unit, "_fill", meanwhile)
    report = repair(root, RepairRequest(in_place=True, backup=False))

    assert [finding.code for finding in report.findings] == ["WDS202"]
    assert path.read_bytes() == a_shard(samples(10, 9))


def test_samples_that_the_catalog_knows_of_and_the_copy_lacks_are_told(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 10), "b.tar": samples(10, 3)})
    index(root)
    sizes = {name: os.path.getsize(f"{root}/{name}") for name in ("a.tar", "b.tar")}
    os.truncate(f"{root}/a.tar", sizes["a.tar"] // 2)

    foreseen = repair(root, to(tmp_path, dry_run=True))
    report = repair(root, to(tmp_path))
    again = repair(root, to(tmp_path))

    left = len(keys_in(f"{tmp_path}/fixed/a.tar"))
    assert 0 < left < 10
    assert report.repaired[0].lost == tuple(f"{i:06d}.{part}" for i in range(left, 10) for part in ("jpg", "txt"))
    assert again.findings == report.findings == foreseen.findings
    assert all(finding.shard == "a.tar" for finding in report.findings)


def zeroed_member(root: str, name: str, tail: int = 0) -> None:
    """Zeros where header and data of a member of at most 512 bytes are, and `tail` bytes of what stands before it."""
    path = Path(root, "a.tar")
    data = bytearray(path.read_bytes())
    at = data.index(name.encode())
    data[at - tail : at + 1024] = bytes(tail + 1024)
    path.write_bytes(data)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("tail", [0, 700])
def test_a_member_that_zeros_took_looks_like_joined_archives_and_is_missed_by_name(
    tmp_path: Path, tail: int, in_place: bool
) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "jpg", "json", size=500)})
    index(root)
    zeroed_member(root, "000003.json", tail)
    request = RepairRequest(in_place=True) if in_place else to(tmp_path)

    report = repair(root, request)

    (shard,) = report.repaired
    assert shard.lost == ("000003.jpg", "000003.json")
    assert shard.fixes == {"damaged bytes removed": 1, "incomplete samples removed": 1}
    assert [each.code for each in report.findings if each.severity == "error"] == ["WDS130"]
    assert keys_in(os.path.join(report.dest, "a.tar")) == {f"{i:06d}" for i in (0, 1, 2, 4, 5)}


def test_without_a_catalog_the_parts_of_the_neighbours_tell_what_is_missing(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "jpg", "json", size=500)})
    zeroed_member(root, "000003.json")
    report = repair(root, to(tmp_path, dry_run=True))
    assert report.repaired[0].lost == ("000003.jpg", "000003.json")
    assert [each.code for each in report.findings] == ["WDS157", "WDS130"]


def test_in_a_mixed_shard_only_samples_that_lost_something_are_left_out(tmp_path: Path) -> None:
    mixed = {f"{i:06d}.{part}": b"1" * 500 for i in range(8) for part in ("jpg", "json", "txt", "cls")[: 1 + i % 4]}
    root = a_dataset(tmp_path / "data", {"a.tar": mixed})
    index(root)
    zeroed_member(root, "000005.json")
    report = repair(root, to(tmp_path))
    assert report.repaired[0].lost == ("000005.jpg", "000005.json")
    assert keys_in(f"{tmp_path}/fixed/a.tar") == {f"{i:06d}" for i in (0, 1, 2, 3, 4, 6, 7)}


@pytest.mark.parametrize("catalog", [True, False])
def test_a_shard_that_seems_sound_and_lost_its_last_member_is_told(tmp_path: Path, catalog: bool) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "jpg", "json", size=500)})
    if catalog:
        index(root)
    zeroed_member(root, "000005.json")
    report = repair(root, to(tmp_path))
    if catalog:
        assert (report.fixed, report.repaired[0].lost) == (1, ("000005.jpg", "000005.json"))
    else:
        assert report.sound == 1
        assert "000005, which lacks json: all other samples have these parts" in report.findings[0].message


@pytest.mark.parametrize("in_place", [False, True])
def test_an_indexed_shard_whose_file_is_gone_is_named_with_all_that_it_had(tmp_path: Path, in_place: bool) -> None:
    sizes = {"a.tar": samples(0, 3, "json"), "b.tar": samples(3, 9, "json"), "c.tar": samples(12, 28, "json")}
    root = a_dataset(tmp_path / "data", sizes)
    index(root)
    os.rename(os.path.join(root, "c.tar"), os.path.join(root, "d.tar"))  # which is there, under another name
    os.remove(os.path.join(root, "b.tar"))

    report = repair(root, RepairRequest(in_place=True) if in_place else to(tmp_path))

    (gone,) = report.repaired
    assert (gone.shard, gone.became, report.shards, report.beyond_repair) == ("b.tar", "lost", 2, 1)
    assert gone.lost == tuple(f"{i:06}.json" for i in range(3, 12))
    assert report.lost_members == 9
    assert {(each.code, each.severity, each.shard) for each in report.findings} == {("WDS130", "error", "b.tar")}


def test_more_zeros_than_end_an_archive_may_have_been_members_and_are_told(tmp_path: Path) -> None:
    whole = a_shard(samples(0, 6, "json", size=500))
    data = whole[: 4 * 1024] + bytes(3 * 1024)
    root = a_dataset(tmp_path / "data", {"a.tar": data, "b.tar": whole})
    (finding,) = repair(root, to(tmp_path)).findings
    assert (finding.shard, "they may replace lost members" in finding.message) == ("a.tar", True)


def test_the_header_of_the_first_member_may_be_what_is_gone(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 4, "jpg", "json", size=500)})
    index(root)
    zeroed_member(root, "000000.jpg")
    assert repair(root, to(tmp_path)).repaired[0].lost == ("000000.jpg", "000000.json")


def test_a_whole_sample_that_is_gone_is_told_with_a_catalog_though_all_others_are_whole(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "json", size=500)})
    index(root)
    zeroed_member(root, "000003.json")
    assert repair(root, to(tmp_path)).repaired[0].lost == ("000003.json",)


def test_a_repaired_copy_of_a_repaired_copy_is_sound_and_says_so(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "jpg", "json", size=500)})
    index(root)
    zeroed_member(root, "000003.json")
    first = repair(root, to(tmp_path))
    index(first.dest)
    again = repair(first.dest, to(tmp_path, "again", all_shards=True))
    assert (again.copied, again.findings) == (1, ())
    assert copies(again) == copies(first)


def test_in_place_again_what_is_missing_is_told_until_it_is_indexed(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "jpg", "json", size=500)})
    index(root)
    zeroed_member(root, "000003.json")
    repair(root, RepairRequest(in_place=True))
    again = repair(root, RepairRequest(in_place=True))
    assert (again.sound, again.repaired[0].lost) == (1, ("000003.jpg", "000003.json"))
    assert "changed after it was indexed and lacks members" in again.findings[0].message
    index(root)
    assert repair(root, RepairRequest(in_place=True)).findings == ()


def test_a_catalog_that_is_of_other_shards_is_not_compared_and_that_is_told(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "jpg", "json", size=500)})
    index(root)
    Path(root, "a.tar").write_bytes(a_shard(samples(50, 6, "png", "txt", size=300)))
    zeroed_member(root, "000053.txt")
    (shard,) = repair(root, to(tmp_path)).repaired
    assert shard.lost == ("000053.png", "000053.txt")  # by the neighbours' parts
    assert any("the shard changed after it was indexed, so" in words for words in shard.left)


def test_where_the_offsets_file_is_gone_samples_are_counted(tmp_path: Path) -> None:
    root = a_dataset(tmp_path / "data", {"a.tar": samples(0, 6, "jpg", "json", size=500)})
    index(root)
    os.unlink(locate(root).offsets_path(1))
    zeroed_member(root, "000003.json")
    (shard,) = repair(root, to(tmp_path)).repaired
    assert "5 of 6 indexed samples remain" in shard.left


def test_samples_whose_halves_were_brought_together_are_not_missed(tmp_path: Path) -> None:
    halves = [("a.txt", b"1"), ("b.txt", b"2"), ("a.json", b"{}"), ("b.json", b"{}"), ("c.txt", b"3"), ("a.cls", b"4")]
    root = a_dataset(tmp_path / "data", {"a.tar": halves})
    index(root)

    report = repair(root, to(tmp_path))

    assert report.repaired[0].fixes == {"keys regrouped": 3}
    assert report.findings == ()
    assert keys_in(f"{tmp_path}/fixed/a.tar") == {"a", "b", "c"}


def keys_in(path: str) -> set[str]:
    """The keys in a tar, by the standard library."""
    with tarfile.open(path) as tar:
        return {name.partition(".")[0] for name in tar.getnames()}
