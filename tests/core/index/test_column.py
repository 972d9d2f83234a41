from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.build import RecordingProgress, a_dataset, a_shard, rewrite_shard, samples, some_shards, tree
from tests.killing import Moment, run_and_kill
from tests.remote import upload_shards
from wdsctl.core.columns.column_file import column_path, find_column, list_columns, read_column_values
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.index.index import IndexReport, index
from wdsctl.core.index.report import ColumnReport
from wdsctl.core.index.request import OnError, parse_column_options
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.offsets.read import Offsets

NUMBER = "tests.core.counting:number"
FIVES = "tests.core.counting:not_fives"
REPO = Path(__file__).parents[3]


def read_values(root: str, name: str, generation: int = 1, catalog: str | None = None) -> dict[str, int]:
    """The values of the column by key."""
    place = locate(root, catalog)
    offsets = Offsets(place.offsets_path(generation))
    column = read_column_values(place, name, generation, shards=offsets.shards)
    return {offsets.key(row): value for row, value in enumerate(column.tolist())}


def report_of(report: IndexReport, name: str) -> ColumnReport:
    return next(column for column in report.columns if column.name == name)


def numbers(count: int) -> dict[str, int]:
    return {f"{i:06d}": i for i in range(count)}


def test_column_has_value_for_every_sample(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    report = index(root, columns={"n": NUMBER, "bytes": "size:txt"})

    assert read_values(root, "n") == numbers(15)
    assert read_values(root, "bytes") == dict.fromkeys(numbers(15), 8)
    n = report_of(report, "n")
    assert (n.state, n.generation, n.samples, n.failed, n.shards_read) == ("made", 1, 15, 0, 3)
    assert (n.min, n.mean, n.p50, n.p99, n.max, n.total) == (0, 7.0, 7, 14, 14, 105)
    assert os.listdir(Path(root, ".wdsctl", "columns")) != []
    assert not Path(root, ".wdsctl", "columns", "units").exists()


@pytest.mark.parametrize("function", ["size:txt", "chars:txt"])
def test_column_warns_about_samples_without_part(tmp_path: Path, function: str) -> None:
    files = {"0.jpg": b"a", "0.txt": b"one", "1.jpg": b"b", "2.jpg": b"c", "2.txt": b""}
    root = a_dataset(tmp_path, {"a.tar": files})

    first = index(root, columns={"n": function})
    second = index(root, columns={"n": function})

    assert read_values(root, "n") == {"0": 3, "1": 0, "2": 0}
    assert [(each.code, each.severity, each.message) for each in first.findings if "column" in each.message] == [
        ("WDS317", "warning", "column n: 1 of 3 samples have no part txt; the column has 0 for them")
    ]
    assert report_of(second, "n").state == "current"
    assert not second.findings


@pytest.mark.usefixtures("place")
def test_column_values_follow_rows_of_offsets_file_of_generation(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2, first=1)
    index(root, columns={"n": NUMBER})
    some_shards(tmp_path, 1)
    index(root, columns={"n": NUMBER})
    place = locate(root)

    for generation, rows in ((1, [*range(5, 15)]), (2, [*range(5, 15), *range(5)])):
        offsets = Offsets(place.offsets_path(generation))
        column = read_column_values(place, "n", generation, shards=offsets.shards)
        assert column.tolist() == rows == [int(offsets.key(row)) for row in range(offsets.samples)]


def test_column_records_parts_that_its_function_declares(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root, columns={"n": NUMBER, "words": "tests.core.counting:words", "bytes": "size:txt"})
    index(root, columns={"words": "tests.core.counting:words"})

    found = {name: find_column(locate(root), name, 1).facts.parts for name in ("n", "words", "bytes")}
    assert found == {"n": None, "words": ("txt",), "bytes": None}


@pytest.mark.parametrize("workers", [1, 3])
def test_column_values_are_independent_of_worker_count(tmp_path: Path, workers: int) -> None:
    root = some_shards(tmp_path, 4)
    index(root, columns={"n": NUMBER}, workers=workers)
    assert read_values(root, "n") == numbers(20)


@pytest.mark.usefixtures("place")
def test_size_column_is_computed_without_reading_shards(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    for shard in tmp_path.glob("*.tar"):
        before = shard.stat()
        shard.write_bytes(b"?" * before.st_size)
        os.utime(shard, ns=(before.st_mtime_ns, before.st_mtime_ns))
    assert report_of(index(root, columns={"bytes": "size:jpg"}), "bytes").total == 80


@pytest.mark.usefixtures("place")
def test_current_column_is_neither_read_nor_written_on_rerun(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": NUMBER})
    before = tree(Path(root, ".wdsctl", "columns"))
    report = index(root, columns={"n": NUMBER})

    assert (report_of(report, "n").state, report_of(report, "n").shards_read, report.up_to_date) == ("current", 0, True)
    assert tree(Path(root, ".wdsctl", "columns")) == before


def test_unchanged_shards_keep_column_values_when_dataset_grows(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3, first=1)
    index(root, columns={"n": NUMBER})
    some_shards(tmp_path, 1)
    rewrite_shard(tmp_path / "shard-002.tar", samples(90, 2))
    report = index(root, columns={"n": NUMBER})

    assert report_of(report, "n").shards_read == 2
    expected = {f"{i:06d}": i for i in [*range(10), *range(15, 20), 90, 91]}
    assert read_values(root, "n", 2) == expected
    assert read_values(root, "n", 1) == {f"{i:06d}": i for i in range(5, 20)}


def test_shard_with_new_mtime_is_read_for_column_again(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": "chars:txt", "bytes": "size:txt"})
    rewrite_shard(tmp_path / "shard-001.tar", (tmp_path / "shard-001.tar").read_bytes().replace(b"txt ", b"t\xc3\xa4 "))
    report = index(root)

    assert report.generation == 1
    assert (report_of(report, "n").state, report_of(report, "n").shards_read) == ("made", 1)
    assert read_values(root, "n")["000009"] == 7
    assert report_of(report, "bytes").state == "current"


def test_index_updates_builtin_columns_and_reports_outdated_python_columns(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": NUMBER, "bytes": "size:txt", "long": "chars:txt"})
    some_shards(tmp_path, 1, first=2)
    report = index(root)

    assert [(each.name, each.state, each.generation) for each in report.columns] == [
        ("bytes", "made", 2),
        ("long", "made", 2),
        ("n", "outdated", 1),
    ]
    [finding] = report.findings
    assert (finding.code, finding.severity) == ("WDS314", "warning")
    assert f"--column n={NUMBER}" in finding.message
    assert len(read_values(root, "bytes", 2)) == len(read_values(root, "long", 2)) == 15
    assert [each.state for each in inspect(root).columns] == ["current", "current", "outdated"]


def test_column_is_recomputed_for_different_function(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": NUMBER})
    report = index(root, columns={"n": "tests.core.counting:words"})
    assert (report_of(report, "n").state, report_of(report, "n").shards_read) == ("made", 2)
    assert set(read_values(root, "n").values()) == {3}


def test_column_is_recomputed_when_function_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = some_shards(tmp_path / "data", 2)
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        (tmp_path / "wds_changing.py").write_text(f"def f(sample):\n    return {number}{'  # twice' * number}\n")
        sys.modules.pop("wds_changing", None)
        report = index(root, columns={"n": "wds_changing:f"})
        assert (report_of(report, "n").shards_read, report_of(report, "n").max) == (2, number)
    del sys.modules["wds_changing"]


@pytest.mark.parametrize(
    ("head", "state"),
    [
        ("", "outdated"),
        ("import os\n\n", "outdated"),
        ("keep = lambda function: function\n\n\n@keep\n", "current"),  # a decorator may be defined elsewhere
    ],
)
def test_changed_function_file_makes_column_outdated_without_running_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str, state: str
) -> None:
    root = some_shards(tmp_path / "data", 2)
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "wds_edited.py"
    program.write_text(f"{head}def f(sample):\n    return 1\n\n\nf.parts = ('txt',)\n")
    index(root, columns={"n": "wds_edited:f"})
    del sys.modules["wds_edited"]
    assert [report_of(index(root), "n").state, inspect(root).columns[0].state] == ["current", "current"]
    program.write_text(program.read_text() + "raise SystemExit('it ran')\n")

    report = index(root)

    assert [report_of(report, "n").state, inspect(root).columns[0].state] == [state, state]
    assert [each.code for each in report.findings if each.code == "WDS314"] == ["WDS314"] * (state == "outdated")
    assert "wds_edited" not in sys.modules


def test_rebuild_recomputes_all_column_values(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": NUMBER})
    assert report_of(index(root, columns={"n": NUMBER}, rebuild=True), "n").shards_read == 2
    assert read_values(root, "n", 2) == numbers(10)


def test_failing_samples_leave_column_incomplete_and_keep_finished_shards(
    tmp_path: Path,
) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 4), "b.tar": samples(4, 4), "c.tar": samples(8, 4)})
    first = index(root, columns={"ones": FIVES})

    assert (report_of(first, "ones").state, report_of(first, "ones").failed, report_of(first, "ones").generation) == (
        "incomplete",
        1,
        None,
    )
    [finding] = first.findings
    assert (finding.code, finding.severity, finding.shard, finding.key) == ("WDS313", "error", "b.tar", "000005")
    assert list_columns(locate(root)) == {}
    assert report_of(index(root, columns={"ones": FIVES}), "ones").shards_read == 1


def test_on_error_zero_publishes_column_and_retries_failures_on_request(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 4), "b.tar": samples(4, 4)})
    report = index(root, columns={"ones": FIVES}, on_error="zero")

    assert (report_of(report, "ones").state, report_of(report, "ones").failed, report_of(report, "ones").total) == (
        "made",
        1,
        7,
    )
    assert [(finding.code, finding.severity) for finding in report.findings] == [("WDS313", "warning")]
    assert read_values(root, "ones")["000005"] == 0
    unnamed = index(root)
    assert (report_of(unnamed, "ones").state, unnamed.findings) == ("current", ())
    again = index(root, columns={"ones": FIVES}, on_error="zero")
    assert (report_of(again, "ones").shards_read, report_of(again, "ones").failed) == (1, 1)


def test_column_keeps_on_error_zero_when_it_is_updated(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"0.json": b'{"n": 3}', "1.json": b"{}"}})
    index(root, columns={"n": "json:json:n"}, on_error="zero")
    a_dataset(tmp_path, {"b.tar": {"2.json": b'{"n": 4}', "3.json": b"[]"}})
    report = index(root)

    assert (report_of(report, "n").shards_read, report_of(report, "n").failed, report_of(report, "n").total) == (
        1,
        2,
        7,
    )
    assert read_values(root, "n", 2) == {"0": 3, "1": 0, "2": 4, "3": 0}


def test_lengths_of_numeric_strings_get_note_with_int_column_command(tmp_path: Path) -> None:
    shards = {
        f"{i}.tar": {f"{i}.json": b'{"w": "%d", "name": "%s"}' % (640 + i, b"7" if i else b"a")} for i in range(3)
    }
    root = a_dataset(tmp_path, shards)
    report = index(root, columns={"w": "json:json:w", "name": "json:json:name"})

    assert [(each.code, each.severity, each.count) for each in report.findings] == [("WDS315", "note", 3)]
    assert "--drop-column w --column w=int:json:w" in report.findings[0].message
    right = index(root, drop_columns=("w",), columns={"w": "int:json:w"})
    assert (right.findings, read_values(root, "w")) == ((), {"0": 640, "1": 641, "2": 642})


@pytest.mark.parametrize("on_error", ["error", "zero"])
def test_unreadable_shard_does_not_stop_column_of_others(tmp_path: Path, on_error: OnError) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    (tmp_path / "shard-001.tar").unlink()
    report = index(root, columns={"n": NUMBER}, missing="keep", on_error=on_error)

    assert (report_of(report, "n").state, report_of(report, "n").failed) == ("incomplete", 5)
    assert [each.severity for each in report.findings] == ["warning", "error"], "vanished, and then not read"
    a_dataset(tmp_path, {"shard-001.tar": samples(5, 5)})
    assert report_of(index(root, columns={"n": NUMBER}), "n").shards_read == 1


def test_column_covers_readable_samples_of_damaged_shards(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 3), "b.tar": a_shard(samples(3, 3))[: 512 * 9], "c.tar": b"junk"})
    report = index(root, columns={"n": NUMBER})
    assert report_of(report, "n").samples == report.samples == len(read_values(root, "n"))


def test_column_of_dataset_without_samples_has_no_statistics(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"no key": b""}})
    report = index(root, columns={"n": NUMBER})
    assert (report_of(report, "n").samples, report_of(report, "n").min, report_of(report, "n").mean) == (0, None, None)


@pytest.mark.usefixtures("place")
def test_drop_columns_removes_column_from_all_generations(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root, columns={"n": NUMBER, "bytes": "size:jpg"})
    some_shards(tmp_path, 1, first=1)
    report = index(root, columns={"n": NUMBER})
    report = index(root, drop_columns=["n"])

    assert [(each.name, each.state) for each in report.columns] == [("bytes", "current"), ("n", "dropped")]
    assert list_columns(locate(root)) == {"bytes": [1, 2]}
    with pytest.raises(InputError, match="it has bytes"):
        index(root, drop_columns=["n"])


def test_dropped_and_requested_column_is_recomputed(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": NUMBER})
    assert report_of(index(root, columns={"n": NUMBER}, drop_columns=["n"]), "n").state == "dropped"
    assert read_values(root, "n") == numbers(10)


def test_refused_column_drops_no_other_column(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": NUMBER})
    for column in ("chars:typo", "media:jpg:width"):
        with pytest.raises(UsageError):
            index(root, columns={"n": column}, drop_columns=["n"])
        assert read_values(root, "n") == numbers(10)


def test_columns_are_kept_as_long_as_their_offsets_files(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root, columns={"n": NUMBER, "bytes": "size:jpg"})
    for i in range(1, 5):
        some_shards(tmp_path, 1, first=i)
        index(root)
    assert list_columns(locate(root)) == {"bytes": [3, 4, 5], "n": [1]}
    assert report_of(index(root, columns={"n": NUMBER}), "n").shards_read == 4


def test_damaged_column_is_reported_and_recomputed_on_request(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": NUMBER})
    path = Path(column_path(locate(root), "n", 1))
    path.write_bytes(path.read_bytes()[:100])

    assert [finding.code for finding in index(root).findings] == ["WDS311"]
    assert [finding.code for finding in inspect(root).stale] == ["WDS311"]
    assert report_of(index(root, columns={"n": NUMBER}), "n").state == "made"
    assert read_values(root, "n") == numbers(10)


def test_column_dry_run_writes_nothing_and_checks_functions(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": NUMBER})
    before = tree(root)
    report = index(root, columns={"m": NUMBER}, drop_columns=["n"], dry_run=True)
    assert {(each.name, each.state) for each in report.columns} == {("m", "would be made"), ("n", "would be dropped")}
    with pytest.raises(UsageError, match="did you mean number"):
        index(root, columns={"m": "tests.core.counting:numbr"}, dry_run=True)
    assert tree(root) == before


def test_invalid_column_requests_are_refused_before_indexing(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    for columns in ({"n": "nowhere_at_all:f"}, {"a/b": NUMBER}, {"n": "words"}):
        with pytest.raises(UsageError):
            index(root, columns=columns)
    with pytest.raises(InputError):
        index(root, drop_columns=["n"])
    assert not Path(root, ".wdsctl").exists()


def test_column_of_unknown_part_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no sample has a part 'jpeg'"):
        index(some_shards(tmp_path, 1), columns={"n": "size:jpeg"})


def test_column_progress_counts_read_shards(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    progress = RecordingProgress()
    index(root, columns={"n": NUMBER, "bytes": "size:jpg"}, progress=progress)
    assert ("column", 3, sum(path.stat().st_size for path in tmp_path.glob("*.tar"))) in progress.phases
    assert progress.items == 3


@pytest.mark.parametrize("text", ["tokens", "=a:b", "n=", "a b=c:d"])
def test_parse_column_options_refuses_invalid_option(text: str) -> None:
    with pytest.raises(UsageError):
        parse_column_options([text])


def test_parse_column_options_returns_functions_and_refuses_repeats() -> None:
    assert parse_column_options(["a=m:f", "b=json:json:x=y"]) == {"a": "m:f", "b": "json:json:x=y"}
    with pytest.raises(UsageError, match="is repeated"):
        parse_column_options(["a=m:f", "a=m:g"])


SCRIPT = """
from wdsctl.core.index.index import index
if __name__ == "__main__":
    index({root!r}, columns={{"n": "tests.core.counting:noted"}}, workers={workers})
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_rerun_after_kill_computes_only_missing_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    root = some_shards(tmp_path / "data", 12)
    index(root)
    log = tmp_path / "counted"
    monkeypatch.setenv("COUNTED", str(log))
    command = [sys.executable, "-c", SCRIPT.format(root=root, workers=workers)]
    # Killed before the fifth shard is done: the other of two workers may be as far, and finishes the units it has.
    assert run_and_kill(command, Moment("replace", 5, parent_only=True), tmp_path / "calls")
    units = Path(root, ".wdsctl", "columns", "units", "n")
    done = sum(not path.name.startswith(".") for path in list_files(units))
    log.write_text("")
    report = index(root, columns={"n": "tests.core.counting:noted"})

    assert 3 <= done < 12
    assert report_of(report, "n").shards_read == 12 - done == len(log.read_text().split()) // 5
    assert read_values(root, "n") == numbers(60)
    assert not [name for name in os.listdir(Path(root, ".wdsctl", "columns")) if name.startswith(".")]


def list_files(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.exists() else []


def test_damaged_unit_is_recomputed(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 4), "b.tar": samples(4, 4)})
    index(root, columns={"ones": FIVES})
    [unit] = list_files(Path(root, ".wdsctl", "columns", "units", "ones"))
    unit.write_bytes(b"?" * 40)
    report = index(root, columns={"ones": FIVES}, on_error="zero")
    assert report_of(report, "ones").total == 7


@pytest.mark.usefixtures("faulty_store")
def test_columns_of_remote_dataset_equal_local_ones(tmp_path: Path) -> None:
    url = upload_shards(some_shards(tmp_path / "disk", 3), "faulty://bucket/shards")
    catalog = str(tmp_path / "catalog")
    report = index(url, catalog=catalog, columns={"n": NUMBER, "long": "chars:txt", "bytes": "size:jpg"})

    assert [each.state for each in report.columns] == ["made"] * 3
    assert read_values(url, "n", catalog=catalog) == numbers(15)
    assert set(read_values(url, "long", catalog=catalog).values()) == {8}
    again = index(url, catalog=catalog, columns={"n": NUMBER})
    assert report_of(again, "n").state == "current"


def test_dataset_without_columns_reports_none(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    assert index(root).columns == inspect(root).columns == ()
    assert not os.path.exists(os.path.join(DatasetLocation(root, f"{root}/.wdsctl").meta, "columns"))
