from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import AsNobody, RecordingProgress, a_dataset, a_folder, a_shard, an_image, rewrite_shard
from wdsctl.core.catalog.ledger import Ledger
from wdsctl.core.catalog.ledger_checks import StoredCheck, read_checks, store_checks
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import UsageError
from wdsctl.core.index.index import index
from wdsctl.core.validate.request import LEVELS
from wdsctl.core.validate.validate import ValidateReport, ValidateRequest, validate

CONTENT = ValidateRequest(levels=("structure", "headers", "content"))


def shards(root: Path, count: int = 4) -> str:
    files = {f"{i}.tar": {f"{i}-{j}.json": b"{}" if j else b"{" for j in range(3)} for i in range(count)}
    path = a_dataset(root, files)
    index(path)
    return path


def found(report: ValidateReport) -> list[tuple[str, str, int]]:
    return [(each.code, each.shard, each.count) for each in report.findings]


BROKEN = [("WDS144", f"{i}.tar", 1) for i in range(4)]


def test_unchanged_shards_are_not_read_again_and_keep_their_findings(tmp_path: Path) -> None:
    root = shards(tmp_path)
    first, recorder = validate(root, CONTENT), RecordingProgress()
    second = validate(root, CONTENT, progress=recorder)
    assert (found(first), found(second)) == (BROKEN, BROKEN)
    assert (first.unread, second.unread, recorder.items) == (0, 4, 0)


def test_only_changed_shard_is_read_again(tmp_path: Path) -> None:
    root = shards(tmp_path)
    validate(root, CONTENT)
    rewrite_shard(tmp_path / "2.tar", {"2-0.json": b"{}"})
    index(root)
    recorder = RecordingProgress()
    report = validate(root, CONTENT, progress=recorder)
    assert (report.unread, recorder.items) == (3, 1)
    assert [shard for _, shard, _ in found(report)] == ["0.tar", "1.tar", "3.tar"]


def test_new_level_reads_all_shards(tmp_path: Path) -> None:
    root = shards(tmp_path)
    assert validate(root).unread == 0
    assert validate(root, CONTENT).unread == 0
    assert validate(root).unread == 4


def test_again_reads_all_shards(tmp_path: Path) -> None:
    root = shards(tmp_path)
    validate(root)
    assert validate(root, ValidateRequest(again=True)).unread == 0


def share_request(share: float, seed: int = 0, *, again: bool = False) -> ValidateRequest:
    return ValidateRequest(levels=CONTENT.levels, share=share, seed=seed, again=again)


def test_sampled_run_checks_its_samples_again_and_stores_no_findings(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {f"{i:02d}.json": b"{" for i in range(40)}})
    index(root)
    reports = [validate(root, share_request(0.25, seed)) for seed in (0, 1, 2, 0)]
    keys = [[each.key for each in report.findings] for report in reports]
    assert [(len(set(each)), report.unread) for each, report in zip(keys, reports, strict=True)] == [(10, 0)] * 4
    assert keys[0] == keys[3]
    assert keys[0] != keys[1] != keys[2]
    with Ledger.open_for_reading(locate(root).ledger_path) as ledger:
        assert list(read_checks(ledger)) == [("a.tar", "structure", "all")]
    full = validate(root, CONTENT)
    assert (full.unread, [each.key for each in full.findings]) == (0, [f"{i:02d}" for i in range(40)])


def test_sampled_run_reports_findings_of_earlier_full_check(tmp_path: Path) -> None:
    root = shards(tmp_path)
    validate(root, CONTENT)
    report = validate(root, share_request(0.1, 7))
    assert (found(report), report.unread, report.share) == (BROKEN, 4, 0.1)


def test_sampled_run_with_again_reads_shards_and_keeps_findings_of_full_check(tmp_path: Path) -> None:
    root = shards(tmp_path)
    validate(root, CONTENT)
    recorder = RecordingProgress()
    assert len(validate(root, share_request(0.1, again=True), progress=recorder).findings) < len(BROKEN)
    assert recorder.items == 4
    full = validate(root, CONTENT)
    assert (found(full), full.unread) == (BROKEN, 4)


def test_sampled_findings_in_ledger_of_old_version_are_ignored(tmp_path: Path) -> None:
    root = shards(tmp_path)
    expected = found(validate(root, share_request(0.1)))
    assert expected != BROKEN
    validate(root, CONTENT)
    with closing(sqlite3.connect(locate(root).ledger_path)) as connection, connection:
        connection.execute("UPDATE known SET reach = 'some' WHERE level = 'content'")

    report = validate(root, share_request(0.1))
    assert (found(report), report.unread) == (expected, 0)
    full = validate(root, CONTENT)
    assert (found(full), full.unread) == (BROKEN, 0)
    with closing(sqlite3.connect(locate(root).ledger_path)) as connection:
        assert connection.execute("SELECT count(*) FROM known WHERE reach = 'some'").fetchone() == (0,)


def test_renamed_shard_is_not_read_again_and_findings_use_new_name(tmp_path: Path) -> None:
    root = shards(tmp_path)
    validate(root, CONTENT)
    (tmp_path / "3.tar").rename(tmp_path / "9.tar")
    index(root)
    report = validate(root, CONTENT)
    assert (report.unread, found(report)) == (4, [*BROKEN[:3], ("WDS144", "9.tar", 1)])


def test_unreadable_shard_is_read_next_time(tmp_path: Path) -> None:
    root = shards(tmp_path)
    validate(root, CONTENT)
    with Ledger.open(locate(root).ledger_path) as ledger:
        store_checks(ledger, [StoredCheck("1.tar", "content", "none", "", b"", "[]")])
    assert [validate(root, share_request(0.5)).unread for _ in range(2)] == [
        3,
        3,
    ]  # samples are not all
    assert [validate(root, CONTENT).unread for _ in range(2)] == [3, 4]


def test_result_is_independent_of_number_of_workers(tmp_path: Path) -> None:
    roots = [shards(tmp_path / name) for name in "ab"]
    one, two = (validate(root, CONTENT, workers=workers) for root, workers in zip(roots, (1, 2), strict=True))
    assert found(one) == found(two) == BROKEN


def test_findings_before_interruption_are_kept(tmp_path: Path) -> None:
    root = shards(tmp_path)
    advances = 0

    def stop() -> None:
        nonlocal advances
        advances += 1
        if advances == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        validate(root, CONTENT, progress=RecordingProgress(at_advance=stop))
    with Ledger.open_for_reading(locate(root).ledger_path) as ledger:
        assert len({shard for shard, _, _ in read_checks(ledger)}) == 3
        assert ledger.runs()[-1]["status"] == "interrupted"
    assert validate(root, CONTENT).unread == 3


def test_validate_works_without_write_permission(public_path: Path, as_nobody: AsNobody) -> None:
    root = shards(public_path / "data")
    assert as_nobody(lambda: [validate(root, CONTENT).unread for _ in range(2)]) == [0, 0]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (("1.tar",), ["1.tar"]),
        (("{0..2..2}.tar",), ["0.tar", "2.tar"]),
        (("glob:[!0].tar", "0.tar"), ["0.tar", "1.tar", "2.tar", "3.tar"]),
        (("re:[13]\\.tar",), ["1.tar", "3.tar"]),
    ],
)
def test_shards_option_selects_matching_shards(tmp_path: Path, patterns: tuple[str, ...], names: list[str]) -> None:
    root = shards(tmp_path)
    report = validate(root, ValidateRequest(levels=CONTENT.levels, shards=patterns))
    assert [shard for _, shard, _ in found(report)] == names
    assert report.shards == len(names)


@pytest.mark.parametrize("pattern", ["x.tar", "re:[", "re:1", "glob:x*"])
def test_pattern_without_match_is_refused(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(UsageError, match="--shards"):
        validate(shards(tmp_path), ValidateRequest(shards=(pattern,)))


HASHES = ValidateRequest(levels=("structure", "hashes"))


def hashed(root: Path, count: int = 4) -> str:
    path = shards(root, count)
    index(path, hashed=True)
    return path


def flip_bit(path: Path) -> None:
    """Flips a bit of the data and keeps size and time of the file."""
    stat = path.stat()
    data = bytearray(path.read_bytes())
    data[512] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_hashes_are_computed_every_time_and_detect_flipped_bit(tmp_path: Path) -> None:
    root = hashed(tmp_path)
    assert found(validate(root, HASHES)) == []
    flip_bit(tmp_path / "2.tar")
    recorder = RecordingProgress()
    assert validate(root).unread == 4  # the structure is known and unchanged
    report = validate(root, HASHES, progress=recorder)

    assert found(report) == [("WDS151", "2.tar", 1)]
    assert (report.unread, recorder.items) == (0, 4)
    assert found(validate(root, HASHES)) == found(report)


def stop_after(root: str, count: int) -> None:
    def stop() -> None:
        nonlocal count
        count -= 1
        if count < 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        validate(root, HASHES, progress=RecordingProgress(at_advance=stop))


def test_interrupted_hashing_continues_and_next_run_reads_all(tmp_path: Path) -> None:
    root = hashed(tmp_path)
    validate(root)
    stop_after(root, 2)
    assert [validate(root, HASHES).unread for _ in range(2)] == [3, 0]
    stop_after(root, 2)
    assert validate(root, replace(HASHES, again=True)).unread == 0


def test_hashing_interrupted_days_ago_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = hashed(tmp_path)
    now = time.time()
    stop_after(root, 3)
    monkeypatch.setattr(time, "time", lambda: now + 3 * 86_400)
    assert validate(root, HASHES).unread == 0


def test_media_facts_in_catalog_are_compared_with_headers(tmp_path: Path) -> None:
    from wdsctl.core.index.request import MediaRequest

    root = a_dataset(tmp_path, {"a.tar": {"0.jpg": an_image("JPEG"), "1.jpg": an_image("JPEG")}})
    index(root, media=MediaRequest(selection="auto"))
    request = ValidateRequest(levels=("structure", "headers"))
    assert validate(root, request).findings == ()
    path = tmp_path / "a.tar"
    stat = path.stat()
    other = bytearray(a_shard({"0.jpg": an_image("JPEG"), "1.jpg": an_image("JPEG")}))
    at = other.rindex(b"\xff\xc0") + 5
    other[at : at + 4] = (16).to_bytes(2, "big") + (24).to_bytes(2, "big")
    path.write_bytes(other)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    (finding,) = validate(root, ValidateRequest(levels=("structure", "headers"), again=True)).findings
    assert (finding.code, finding.key, finding.message) == ("WDS141", "1", "width is 24, but 48 in the catalog")


def test_invalid_line_is_reported_once_on_all_levels(tmp_path: Path) -> None:
    a_folder(tmp_path, {"qa.jsonl": b'{"a": 1}\n{"a": }\n'})
    root = f"{tmp_path}/qa.jsonl"
    index(root)
    report = validate(root, ValidateRequest(levels=LEVELS))
    assert [(each.code, each.count) for each in report.findings if each.severity == "error"] == [("WDS123", 1)]


def test_finding_of_two_levels_is_reported_once(tmp_path: Path) -> None:
    root = shards(tmp_path, 1)
    (tmp_path / ".wdsctl" / "dataset.yaml").write_text("sample_type: TextSample\nfield_map: {text: 'json[x]'}\n")
    both = ValidateRequest(levels=("content", "schema"))
    expected = found(validate(root, both))
    validate(root, ValidateRequest(levels=("content",), again=True))
    validate(root, ValidateRequest(levels=("schema",)))

    assert found(validate(root, both)) == expected
    assert [code for code, _, _ in expected].count("WDS144") == 1
