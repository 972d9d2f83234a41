"""A renamed raw file is a missing file and a new one, also after a kill and with a ledger of an old version."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.core.catalog.readers import read_views
from tests.core.raw_folders import files, members, shards
from tests.core.split_sets import split_by_rule, splits_of
from tests.killing import Moment, run_and_kill
from tests.prepare_requests import prepare_request
from wdsctl.core.catalog.ledger import Ledger, StoredView, pack_keys, store_view, unpack_record_keys
from wdsctl.core.dataset.raw_folder import list_raw_folder
from wdsctl.core.errors import DatasetError
from wdsctl.core.index.index import index
from wdsctl.core.prepare.plan import sample_digests, shard_digest
from wdsctl.core.prepare.prepare import PrepareReport, prepare
from wdsctl.core.split_rules.rule import SplitRule

SAMPLES, EACH = 30, 5

RULES = {
    "shard": SplitRule({"train": 2, "val": 1}, by="shard"),
    "sample": SplitRule({"train": 1, "val": 1}, by="sample"),
    "key": SplitRule({"train": 1, "val": 1}, by="key"),
    "group": SplitRule({"train": 1, "val": 1}, group_by="key:(.*)/"),
    "balanced": SplitRule({"train": 1, "val": 1}, group_by="key:(.*)/", stratify="part:cls"),
}


def pictures(root: Path) -> Path:
    """Writes samples of a picture and a class into six folders. All have the same sizes and times."""
    for i in range(SAMPLES):
        write_sample(root, f"{i % 6}/{i:02d}", i)
    return root


def write_sample(root: Path, key: str, content: int, *, time_ns: int = 1) -> None:
    for part, data in (("jpg", random.Random(content).randbytes(300)), ("cls", str(content % 3).encode())):
        file = root / f"{key}.{part}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        os.utime(file, ns=(time_ns, time_ns))


def move(root: Path, key: str, to: str) -> None:
    (root / to).parent.mkdir(parents=True, exist_ok=True)
    for file in sorted(root.glob(f"{key}.*")):
        file.rename(root / f"{to}{file.suffix}")


def remove(root: Path, key: str) -> None:
    for file in sorted(root.glob(f"{key}.*")):
        file.unlink()


def run(source: Path, **more: Any) -> PrepareReport:
    options: dict[str, Any] = {"split": {"train": 1, "val": 1}, "split_by": "sample", **more}
    options |= {"shard_samples": EACH, "accept_type": True}
    return prepare(str(source), str(source.parent / "out"), prepare_request(**options))


def rerun(source: Path, **more: Any) -> PrepareReport:
    return run(source, split=None, split_by="auto", **more)


def out(source: Path) -> Path:
    return source.parent / "out"


def splits_by_key(source: Path) -> dict[str, str]:
    return {sample.split("/", 1)[1]: name for sample, name in splits_of(str(out(source))).items()}


@pytest.mark.parametrize(
    ("rule", "missing"),
    [
        ("shard", "error"),
        ("sample", "keep"),
        ("sample", "drop"),
        ("key", "drop"),
        ("group", "error"),
        ("group", "drop"),
        ("balanced", "keep"),
    ],
)
def test_renamed_files_are_removed_and_new_files(tmp_path: Path, rule: str, missing: str) -> None:
    """The same as deleting the files and writing others with their bytes: shards, splits and report."""
    renamed, written = pictures(tmp_path / "renamed" / "raw"), pictures(tmp_path / "written" / "raw")
    for source in (renamed, written):
        run(source)
        split_by_rule(str(out(source)), RULES[rule])
    before = splits_by_key(renamed)
    for i, (key, to) in enumerate({"0/00": "0/new", "1/01": "5/moved", "2/02": "x/02", "2/08": "x/08"}.items()):
        move(renamed, key, to)
        content = (0, 1, 2, 8)[i]
        remove(written, key)
        write_sample(written, to, content)

    reports = [rerun(source, missing=missing) for source in (renamed, written)]

    folders = [report.folder for report in reports]
    assert folders[0] is not None
    assert folders[1] is not None
    assert folders[0] == replace(folders[1], source=folders[0].source, dest=folders[0].dest)
    dropped = ("0/00", "1/01", "2/02", "2/08") if missing == "drop" else ()
    assert (folders[0].added, folders[0].dropped, folders[0].vanished) == (4, dropped, 4 - len(dropped))
    assert shards(out(renamed)) == shards(out(written))
    assert splits_of(str(out(renamed))) == splits_of(str(out(written)))
    assert {key: name for key, name in splits_by_key(renamed).items() if key in before} == {
        key: name for key, name in before.items() if key not in dropped
    }
    assert files(renamed).items() <= members(out(renamed)).items()
    if missing == "drop":
        assert members(out(renamed)) == files(renamed)
    assert rerun(renamed, missing=missing).up_to_date


def test_file_renamed_over_other_is_a_change_of_the_other(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    old = members(out(source))["0/00.jpg"]
    move(source, "0/00", "5/29")
    for file in source.glob("5/29.*"):
        os.utime(file, ns=(2, 2))

    report = rerun(source)

    assert report.folder is not None
    assert (report.folder.vanished, report.folder.added, report.folder.written) == (1, 0, 1)
    assert members(out(source))["0/00.jpg"] == members(out(source))["5/29.jpg"] == old


def test_new_sample_with_shard_spelling_of_missing_one_is_refused(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    write_sample(source, "5/a.b", 100)
    run(source, key_until="last-dot")
    before = shards(out(source))
    move(source, "5/a.b", "5/a_b")

    with pytest.raises(DatasetError) as caught:
        rerun(source)

    assert caught.value.code == "WDS249"
    assert shards(out(source)) == before
    rerun(source, missing="drop")
    assert members(out(source)) == files(source)


def test_dry_run_counts_removed_and_new_samples_and_writes_nothing(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    before = shards(out(source))
    move(source, "0/00", "0/new")
    remove(source, "1/07")
    for missing in ("error", "drop"):
        preview = rerun(source, dry_run=True, missing=missing)
        assert shards(out(source)) == before
        assert preview.folder is not None
        assert (preview.folder.added, preview.folder.vanished + len(preview.folder.dropped)) == (1, 2)


SCRIPT = """
import sys
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
request = PrepareRequest(shard_samples=5, accept_type=True, index=IndexRequest(missing=sys.argv[3]))
prepare(sys.argv[1], sys.argv[2], request)
"""


def change_files(source: Path) -> None:
    """Renames, removes, changes and adds files."""
    (source / "0").rename(source / "zero")
    remove(source, "1/07")
    write_sample(source, "2/02", 200, time_ns=2)
    write_sample(source, "5/more", 300)


def kill_and_rerun(folder: Path, moment: Moment, rule: str, *, is_indexed: bool) -> bool:
    """Kills `prepare` at the moment, reruns it and checks the dataset. Returns whether the process was killed."""
    source = pictures(folder / "raw")
    run(source)
    split_by_rule(str(out(source)), RULES[rule])
    before = splits_by_key(source)
    change_files(source)
    was_killed = run_and_kill([sys.executable, "-c", SCRIPT, source, out(source), "drop"], moment, folder / "count")
    if is_indexed:
        index(str(out(source)), missing="drop")
    rerun(source, missing="drop")
    assert members(out(source)) == files(source)
    after = splits_by_key(source)
    assert sorted(after) == sorted(name[:-4] for name in files(source) if name.endswith(".jpg"))
    assert all(after[key] == before[key] for key in after.keys() & before.keys())
    return was_killed


@pytest.mark.parametrize("is_indexed", [False, True])
def test_rerun_after_kill_between_shards_gives_same_dataset(tmp_path: Path, is_indexed: bool) -> None:
    assert kill_and_rerun(tmp_path, Moment("replace", 3, parent_only=True), "sample", is_indexed=is_indexed)


@pytest.mark.slow
@pytest.mark.parametrize("seam", ["replace", "fsync"])
@pytest.mark.parametrize("rule", ["sample", "group"])
def test_rerun_after_kill_at_any_moment_gives_same_dataset(tmp_path: Path, seam: str, rule: str) -> None:
    number, was_killed = 0, True
    while was_killed:
        number += 1
        moment = Moment(seam, number, parent_only=True)
        was_killed = kill_and_rerun(tmp_path / f"{number}", moment, rule, is_indexed=number % 2 == 1)
    assert number > 3


def make_old_ledger(source: Path) -> str:
    """Gives the ledger what an old version stored after `0/00` was renamed to `0/new` and `0/06` was deleted.

    The shard keeps the old key, and its record has the new one. Returns the path of the ledger.
    """
    path = str(out(source) / ".wdsctl" / "ledger.sqlite")
    samples = {sample.key: sample for sample in list_raw_folder(str(source), on_missing="keep").samples}
    with Ledger.open(path) as ledger:
        store_view(ledger, StoredView("all", "{}", "2026-01-01", 1, 0, ""), [], replace=False)
        records = ledger.planned_shards()
        keys = ["0/new" if key == "0/00" else key for key in unpack_record_keys(records[0])]
        assert "0/new" in keys
        marks = b"".join(
            sample_digests([samples[key]]) if key in samples else records[0].marks[i * 8 : i * 8 + 8]
            for i, key in enumerate(keys)
        )
        records[0] = records[0]._replace(keys=pack_keys(keys), marks=marks, digest=shard_digest(marks))
        ledger.replace_plan(records, ledger.plan_source())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE planned_shard SET state = 'renamed' WHERE name = ?", (records[0].name,))
        connection.execute(
            "CREATE TABLE former_key (\n\tshard TEXT NOT NULL, \n\tlayout_hash TEXT NOT NULL, \n\tkeys BLOB NOT NULL, "
            "\n\tformer BLOB NOT NULL, \n\tPRIMARY KEY (shard)\n)"
        )
        former = (records[0].name, "", pack_keys(["0/new"]), pack_keys(["0/00"]))
        connection.execute("INSERT INTO former_key VALUES (?, ?, ?, ?)", former)
    return path


def test_ledger_of_old_version_with_renamed_samples_is_read(tmp_path: Path) -> None:
    """The shard with the old keys is written again, but not if this would lose a sample without files."""
    source = pictures(tmp_path / "raw")
    run(source)
    before = shards(out(source))
    saved = tmp_path / "saved"
    shutil.copytree(source / "0", saved)
    move(source, "0/00", "0/new")
    remove(source, "0/06")
    ledger = make_old_ledger(source)

    for missing in ("error", "keep"):
        with pytest.raises(DatasetError) as caught:
            rerun(source, missing=missing)
        assert caught.value.code == "WDS203"
        assert shards(out(source)) == before
    assert [view.name for view in read_views(ledger)] == ["all"]
    for part in ("jpg", "cls"):
        shutil.copy2(saved / f"06.{part}", source / "0")
    report = rerun(source)

    assert report.folder is not None
    assert (report.folder.written, report.folder.kept) == (1, 5)
    assert members(out(source)) == files(source)
    assert rerun(source).up_to_date
    assert not list(out(source).glob(".wdsctl/*damaged*"))


def test_ledger_of_old_version_lets_missing_drop_drop_samples(tmp_path: Path) -> None:
    source = pictures(tmp_path / "raw")
    run(source)
    move(source, "0/00", "0/new")
    remove(source, "0/06")
    make_old_ledger(source)

    report = rerun(source, missing="drop")

    assert report.folder is not None
    assert report.folder.dropped == ("0/06",)
    assert members(out(source)) == files(source)
