from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.build import Told, a_dataset, a_shard, rewritten, samples, some_shards, tree
from tests.killing import Moment, died
from tests.remote import uploaded
from wdsctl.core.columns.column_file import column_path, find_column, list_columns, read_column_values
from wdsctl.core.dataset.location import DatasetLocation, locate
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.index.index import IndexReport, index
from wdsctl.core.index.request import ColumnReport, OnError, parse_column_options
from wdsctl.core.inspect.inspect import inspect
from wdsctl.core.offsets.read import Offsets

NUMBER = "tests.core.counting:number"
FIVES = "tests.core.counting:not_fives"
REPO = Path(__file__).parents[3]


def values(root: str, name: str, generation: int = 1, catalog: str | None = None) -> dict[str, int]:
    """The column by key."""
    place = locate(root, catalog)
    offsets = Offsets(place.offsets_path(generation))
    column = read_column_values(place, name, generation, shards=offsets.shards)
    return {offsets.key(row): value for row, value in enumerate(column.tolist())}


def of(report: IndexReport, name: str) -> ColumnReport:
    return next(column for column in report.columns if column.name == name)


def numbers(count: int) -> dict[str, int]:
    return {f"{i:06d}": i for i in range(count)}


def test_a_column_has_a_number_for_every_sample(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    report = index(root, columns={"n": NUMBER, "bytes": "size:txt"})

    assert values(root, "n") == numbers(15)
    assert values(root, "bytes") == dict.fromkeys(numbers(15), 8)
    n = of(report, "n")
    assert (n.state, n.generation, n.samples, n.failed, n.shards_read) == ("made", 1, 15, 0, 3)
    assert (n.min, n.mean, n.p50, n.p99, n.max, n.total) == (0, 7.0, 7, 14, 14, 105)
    assert os.listdir(Path(root, ".wdsctl", "columns")) != []
    assert not Path(root, ".wdsctl", "columns", "units").exists()


@pytest.mark.usefixtures("place")
def test_a_column_is_read_by_row_of_the_offsets_file_of_its_generation(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2, first=1)
    index(root, columns={"n": NUMBER})
    some_shards(tmp_path, 1)
    index(root, columns={"n": NUMBER})
    place = locate(root)

    for generation, rows in ((1, [*range(5, 15)]), (2, [*range(5, 15), *range(5)])):
        offsets = Offsets(place.offsets_path(generation))
        column = read_column_values(place, "n", generation, shards=offsets.shards)
        assert column.tolist() == rows == [int(offsets.key(row)) for row in range(offsets.samples)]


def test_a_column_knows_the_parts_that_its_function_declares(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root, columns={"n": NUMBER, "words": "tests.core.counting:words", "bytes": "size:txt"})
    index(root, columns={"words": "tests.core.counting:words"})

    found = {name: find_column(locate(root), name, 1).facts.parts for name in ("n", "words", "bytes")}
    assert found == {"n": None, "words": ("txt",), "bytes": None}


@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_changes_nothing(tmp_path: Path, workers: int) -> None:
    root = some_shards(tmp_path, 4)
    index(root, columns={"n": NUMBER}, workers=workers)
    assert values(root, "n") == numbers(20)


@pytest.mark.usefixtures("place")
def test_sizes_are_told_without_reading_anything(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root)
    for shard in tmp_path.glob("*.tar"):
        before = shard.stat()
        shard.write_bytes(b"?" * before.st_size)
        os.utime(shard, ns=(before.st_mtime_ns, before.st_mtime_ns))
    assert of(index(root, columns={"bytes": "size:jpg"}), "bytes").total == 80


@pytest.mark.usefixtures("place")
def test_asked_for_again_nothing_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": NUMBER})
    before = tree(Path(root, ".wdsctl", "columns"))
    report = index(root, columns={"n": NUMBER})

    assert (of(report, "n").state, of(report, "n").shards_read, report.up_to_date) == ("current", 0, True)
    assert tree(Path(root, ".wdsctl", "columns")) == before


def test_shards_that_are_as_they_were_keep_their_values_when_the_dataset_grows(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3, first=1)
    index(root, columns={"n": NUMBER})
    some_shards(tmp_path, 1)
    rewritten(tmp_path / "shard-002.tar", samples(90, 2))
    report = index(root, columns={"n": NUMBER})

    assert of(report, "n").shards_read == 2
    expected = {f"{i:06d}": i for i in [*range(10), *range(15, 20), 90, 91]}
    assert values(root, "n", 2) == expected
    assert values(root, "n", 1) == {f"{i:06d}": i for i in range(5, 20)}


def test_a_shard_whose_time_has_moved_is_read_again_though_nothing_in_it_has(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": "chars:txt", "bytes": "size:txt"})
    rewritten(tmp_path / "shard-001.tar", (tmp_path / "shard-001.tar").read_bytes().replace(b"txt ", b"t\xc3\xa4 "))
    report = index(root)

    assert report.generation == 1
    assert (of(report, "n").state, of(report, "n").shards_read) == ("made", 1)
    assert values(root, "n")["000009"] == 7
    assert of(report, "bytes").state == "current"


def test_without_being_named_columns_of_python_are_told_of_and_others_are_brought_along(tmp_path: Path) -> None:
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
    assert len(values(root, "bytes", 2)) == len(values(root, "long", 2)) == 15
    assert [each.state for each in inspect(root).columns] == ["current", "current", "outdated"]


def test_another_function_makes_all_values_anew(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": NUMBER})
    report = index(root, columns={"n": "tests.core.counting:words"})
    assert (of(report, "n").state, of(report, "n").shards_read) == ("made", 2)
    assert set(values(root, "n").values()) == {3}


def test_a_function_whose_file_has_changed_makes_all_values_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = some_shards(tmp_path / "data", 2)
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        (tmp_path / "wds_changing.py").write_text(f"def f(sample):\n    return {number}{'  # twice' * number}\n")
        sys.modules.pop("wds_changing", None)
        report = index(root, columns={"n": "wds_changing:f"})
        assert (of(report, "n").shards_read, of(report, "n").max) == (2, number)
    del sys.modules["wds_changing"]


def test_a_rebuild_uses_no_value_that_was_worked_out_before(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": NUMBER})
    assert of(index(root, columns={"n": NUMBER}, rebuild=True), "n").shards_read == 2
    assert values(root, "n", 2) == numbers(10)


def test_samples_without_a_value_keep_a_column_from_being_published_and_finished_shards_are_kept(
    tmp_path: Path,
) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 4), "b.tar": samples(4, 4), "c.tar": samples(8, 4)})
    first = index(root, columns={"ones": FIVES})

    assert (of(first, "ones").state, of(first, "ones").failed, of(first, "ones").generation) == ("incomplete", 1, None)
    [finding] = first.findings
    assert (finding.code, finding.severity, finding.shard, finding.key) == ("WDS313", "error", "b.tar", "000005")
    assert list_columns(locate(root)) == {}
    assert of(index(root, columns={"ones": FIVES}), "ones").shards_read == 1


def test_zero_publishes_and_what_failed_is_tried_again_when_it_is_asked_for(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 4), "b.tar": samples(4, 4)})
    report = index(root, columns={"ones": FIVES}, on_error="zero")

    assert (of(report, "ones").state, of(report, "ones").failed, of(report, "ones").total) == ("made", 1, 7)
    assert [(finding.code, finding.severity) for finding in report.findings] == [("WDS313", "warning")]
    assert values(root, "ones")["000005"] == 0
    unnamed = index(root)
    assert (of(unnamed, "ones").state, unnamed.findings) == ("current", ())
    again = index(root, columns={"ones": FIVES}, on_error="zero")
    assert (of(again, "ones").shards_read, of(again, "ones").failed) == (1, 1)


def test_a_column_that_let_failures_pass_goes_on_doing_so_when_it_is_brought_along(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"0.json": b'{"n": 3}', "1.json": b"{}"}})
    index(root, columns={"n": "json:json:n"}, on_error="zero")
    a_dataset(tmp_path, {"b.tar": {"2.json": b'{"n": 4}', "3.json": b"[]"}})
    report = index(root)

    assert (of(report, "n").shards_read, of(report, "n").failed, of(report, "n").total) == (1, 2, 7)
    assert values(root, "n", 2) == {"0": 3, "1": 0, "2": 4, "3": 0}


def test_lengths_of_strings_that_all_are_numbers_get_one_note_with_the_command_for_the_numbers(tmp_path: Path) -> None:
    shards = {
        f"{i}.tar": {f"{i}.json": b'{"w": "%d", "name": "%s"}' % (640 + i, b"7" if i else b"a")} for i in range(3)
    }
    root = a_dataset(tmp_path, shards)
    report = index(root, columns={"w": "json:json:w", "name": "json:json:name"})

    assert [(each.code, each.severity, each.count) for each in report.findings] == [("WDS315", "note", 3)]
    assert "--drop-column w --column w=int:json:w" in report.findings[0].message
    right = index(root, drop_columns=("w",), columns={"w": "int:json:w"})
    assert (right.findings, values(root, "w")) == ((), {"0": 640, "1": 641, "2": 642})


@pytest.mark.parametrize("on_error", ["error", "zero"])
def test_a_shard_that_cannot_be_read_stops_no_other(tmp_path: Path, on_error: OnError) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    (tmp_path / "shard-001.tar").unlink()
    report = index(root, columns={"n": NUMBER}, missing="keep", on_error=on_error)

    assert (of(report, "n").state, of(report, "n").failed) == ("incomplete", 5)
    assert [each.severity for each in report.findings] == ["warning", "error"], "vanished, and then not read"
    a_dataset(tmp_path, {"shard-001.tar": samples(5, 5)})
    assert of(index(root, columns={"n": NUMBER}), "n").shards_read == 1


def test_damaged_shards_give_what_can_be_read_of_them(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 3), "b.tar": a_shard(samples(3, 3))[: 512 * 9], "c.tar": b"junk"})
    report = index(root, columns={"n": NUMBER})
    assert of(report, "n").samples == report.samples == len(values(root, "n"))


def test_a_dataset_without_samples_has_columns_without_numbers(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"no key": b""}})
    report = index(root, columns={"n": NUMBER})
    assert (of(report, "n").samples, of(report, "n").min, of(report, "n").mean) == (0, None, None)


@pytest.mark.usefixtures("place")
def test_dropped_columns_are_gone_in_all_generations(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root, columns={"n": NUMBER, "bytes": "size:jpg"})
    some_shards(tmp_path, 1, first=1)
    report = index(root, columns={"n": NUMBER})
    report = index(root, drop_columns=["n"])

    assert [(each.name, each.state) for each in report.columns] == [("bytes", "current"), ("n", "dropped")]
    assert list_columns(locate(root)) == {"bytes": [1, 2]}
    with pytest.raises(InputError, match="it has bytes"):
        index(root, drop_columns=["n"])


def test_a_column_that_is_dropped_and_asked_for_is_made_anew(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": NUMBER})
    assert of(index(root, columns={"n": NUMBER}, drop_columns=["n"]), "n").state == "dropped"
    assert values(root, "n") == numbers(10)


def test_columns_stay_as_long_as_the_offsets_of_their_generation(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    index(root, columns={"n": NUMBER, "bytes": "size:jpg"})
    for i in range(1, 5):
        some_shards(tmp_path, 1, first=i)
        index(root)
    assert list_columns(locate(root)) == {"bytes": [3, 4, 5], "n": [1]}
    assert of(index(root, columns={"n": NUMBER}), "n").shards_read == 4


def test_a_damaged_column_is_told_of_and_made_again_when_it_is_asked_for(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": NUMBER})
    path = Path(column_path(locate(root), "n", 1))
    path.write_bytes(path.read_bytes()[:100])

    assert [finding.code for finding in index(root).findings] == ["WDS311"]
    assert [finding.code for finding in inspect(root).stale] == ["WDS311"]
    assert of(index(root, columns={"n": NUMBER}), "n").state == "made"
    assert values(root, "n") == numbers(10)


def test_a_dry_run_writes_nothing_and_finds_misspelt_functions(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 2)
    index(root, columns={"n": NUMBER})
    before = tree(root)
    report = index(root, columns={"m": NUMBER}, drop_columns=["n"], dry_run=True)
    assert {(each.name, each.state) for each in report.columns} == {("m", "would be made"), ("n", "would be dropped")}
    with pytest.raises(UsageError, match="did you mean number"):
        index(root, columns={"m": "tests.core.counting:numbr"}, dry_run=True)
    assert tree(root) == before


def test_what_cannot_be_done_is_refused_before_anything_is(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    for columns in ({"n": "nowhere_at_all:f"}, {"a/b": NUMBER}, {"n": "words"}):
        with pytest.raises(UsageError):
            index(root, columns=columns)
    with pytest.raises(InputError):
        index(root, drop_columns=["n"])
    assert not Path(root, ".wdsctl").exists()


def test_a_part_that_no_sample_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no sample has a part 'jpeg'"):
        index(some_shards(tmp_path, 1), columns={"n": "size:jpeg"})


def test_progress_tells_the_shards_that_are_read(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 3)
    index(root)
    told = Told()
    index(root, columns={"n": NUMBER, "bytes": "size:jpg"}, progress=told)
    assert ("column", 3, sum(path.stat().st_size for path in tmp_path.glob("*.tar"))) in told.phases
    assert told.items == 3


@pytest.mark.parametrize("text", ["tokens", "=a:b", "n=", "a b=c:d"])
def test_an_option_that_is_no_name_and_function_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_column_options([text])


def test_options_are_names_and_functions_and_no_name_stands_twice() -> None:
    assert parse_column_options(["a=m:f", "b=json:json:x=y"]) == {"a": "m:f", "b": "json:json:x=y"}
    with pytest.raises(UsageError, match="is repeated"):
        parse_column_options(["a=m:f", "a=m:g"])


SCRIPT = """
from wdsctl.core.index.index import index
if __name__ == "__main__":
    index({root!r}, columns={{"n": "tests.core.counting:noted"}}, workers={workers})
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_and_run_again_only_the_rest_is_worked_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    root = some_shards(tmp_path / "data", 12)
    index(root)
    log = tmp_path / "counted"
    monkeypatch.setenv("COUNTED", str(log))
    command = [sys.executable, "-c", SCRIPT.format(root=root, workers=workers)]
    # Before the fifth shard is done: of two workers the other may be as far, and go on with what it was given.
    assert died(command, Moment("replace", 5, parent_only=True), tmp_path / "calls")
    units = Path(root, ".wdsctl", "columns", "units", "n")
    done = sum(not path.name.startswith(".") for path in some(units))
    log.write_text("")
    report = index(root, columns={"n": "tests.core.counting:noted"})

    assert 3 <= done < 12
    assert of(report, "n").shards_read == 12 - done == len(log.read_text().split()) // 5
    assert values(root, "n") == numbers(60)
    assert not [name for name in os.listdir(Path(root, ".wdsctl", "columns")) if name.startswith(".")]


def some(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.exists() else []


def test_a_unit_that_was_damaged_is_worked_out_again(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": samples(0, 4), "b.tar": samples(4, 4)})
    index(root, columns={"ones": FIVES})
    [unit] = some(Path(root, ".wdsctl", "columns", "units", "ones"))
    unit.write_bytes(b"?" * 40)
    report = index(root, columns={"ones": FIVES}, on_error="zero")
    assert of(report, "ones").total == 7


@pytest.mark.usefixtures("faulty_store")
def test_columns_of_a_dataset_at_a_url_are_those_of_the_same_on_a_disk(tmp_path: Path) -> None:
    url = uploaded(some_shards(tmp_path / "disk", 3), "faulty://bucket/shards")
    catalog = str(tmp_path / "catalog")
    report = index(url, catalog=catalog, columns={"n": NUMBER, "long": "chars:txt", "bytes": "size:jpg"})

    assert [each.state for each in report.columns] == ["made"] * 3
    assert values(url, "n", catalog=catalog) == numbers(15)
    assert set(values(url, "long", catalog=catalog).values()) == {8}
    again = index(url, catalog=catalog, columns={"n": NUMBER})
    assert of(again, "n").state == "current"


def test_a_place_without_columns_has_none(tmp_path: Path) -> None:
    root = some_shards(tmp_path, 1)
    assert index(root).columns == inspect(root).columns == ()
    assert not os.path.exists(os.path.join(DatasetLocation(root, f"{root}/.wdsctl").meta, "columns"))
