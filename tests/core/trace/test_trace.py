from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_shard, rewritten, samples, some_shards
from tests.core.traces import a_source, a_writer
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.trace import SourceFacts
from wdsctl.core.trace.trace import TraceOptions, TraceReport, query_trace

STEPS, WORLD, BATCH = 6, 2, 3


@pytest.fixture
def cats(tmp_path: Path) -> str:
    """Four shards of five samples; key 000007 is the third of the second."""
    root = some_shards(tmp_path / "cats", 4)
    index(root)
    return root


@pytest.fixture
def dogs(tmp_path: Path) -> str:
    """Another dataset with the same keys."""
    root = some_shards(tmp_path / "dogs", 1)
    index(root)
    return root


@pytest.fixture
def traces(tmp_path: Path, cats: str, dogs: str) -> str:
    """Two ranks; batch n has the cats 3n, 3n + 1 and so on, pass after pass; the last in each is the first dog."""
    return a_trace(tmp_path / "traces", [a_source(0, cats), a_source(1, dogs)])


def a_trace(folder: Path, sources: list[SourceFacts]) -> str:
    for rank in range(WORLD):
        writer = a_writer(folder, rank, WORLD, sources)
        for step in range(STEPS):
            number = step * WORLD + rank
            writer.add(number, [*map(cat, range(number * BATCH, number * BATCH + BATCH - 1)), (1, 0, 1 << 28, number)])
        writer.close()
    return str(folder)


def cat(n: int) -> tuple[int, int, int]:
    turn, n = divmod(n, 20)
    return 0, turn, (n // 5 + 1) << 28 | n % 5


def told(folder: str, **options: Any) -> TraceReport:
    return query_trace(folder, TraceOptions(**options))


@pytest.mark.usefixtures("place")
def test_the_samples_of_a_step_are_told_with_their_places(traces: str, cats: str, dogs: str) -> None:
    report = told(traces, step=1)

    assert report.batches is not None
    assert [(batch.number, batch.rank, batch.world, batch.step) for batch in report.batches] == [
        (2, 0, 2, 1),
        (3, 1, 2, 1),
    ]
    first, _, dog = report.batches[0].samples
    assert (first.dataset, first.key, first.shard) == (cats, "000006", "shard-001.tar")
    assert first.restore_key == (0, 0, 2 << 28 | 1)
    assert [part.name for part in first.parts] == ["jpg", "txt"]
    assert first.offset == first.parts[0].offset
    assert first.size_bytes == first.parts[1].offset + 8 - first.parts[0].offset
    assert first.layout_hash
    assert (dog.dataset, dog.key, dog.restore_key) == (dogs, "000000", (1, 0, 1 << 28, 2))
    assert report.findings == ()


def test_a_batch_and_a_rank_can_be_asked_for(traces: str) -> None:
    assert [batch.number for batch in told(traces, step=1, rank=1).batches or ()] == [3]
    assert [batch.step for batch in told(traces, batch=7).batches or ()] == [3]


@pytest.mark.usefixtures("place")
def test_a_key_is_found_in_every_batch_that_had_it(traces: str, cats: str) -> None:
    seen = told(traces, key="000007").seen
    assert seen is not None
    assert [(each.dataset, each.batch, each.step, each.position) for each in seen] == [
        (cats, 2, 1, 1),
        (cats, 9, 4, 0),
    ]
    assert [each.restore_key for each in seen] == [(0, 0, 2 << 28 | 2), (0, 1, 2 << 28 | 2)]
    assert told(traces, sample_id=2 << 28 | 2).seen == seen
    assert [each.batch for each in told(traces, key="000007", rank=1).seen or ()] == [9]


def test_a_key_of_several_datasets_is_found_in_all_of_them(traces: str, cats: str, dogs: str) -> None:
    seen = told(traces, key="000000").seen
    assert seen is not None
    assert {each.dataset for each in seen} == {cats, dogs}
    assert len(seen) == STEPS * WORLD + 1


def test_datasets_are_counted_over_the_whole_trace(traces: str, cats: str, dogs: str) -> None:
    report = told(traces, counts=True)
    assert report.counts is not None
    assert report.batches_counted == STEPS * WORLD
    of_cats, of_dogs = report.counts
    assert (of_cats.dataset, of_cats.samples, of_cats.distinct) == (cats, 24, 19)
    assert dict(of_cats.by_times) == {1: 14, 2: 5}
    assert (of_cats.most[0].key, of_cats.most[0].times) == ("000001", 2)
    assert (of_dogs.dataset, of_dogs.samples, of_dogs.distinct, dict(of_dogs.by_times)) == (dogs, 12, 1, {12: 1})


def test_an_overview_tells_runs_and_sources(traces: str, cats: str) -> None:
    report = told(traces)
    assert [(run.rank, run.world, run.batches, run.first, run.last) for run in report.runs] == [
        (0, 2, 6, 0, 10),
        (1, 2, 6, 1, 11),
    ]
    assert [source.number for source in report.sources] == [0, 1]
    assert report.sources[0].dataset == cats


@pytest.mark.usefixtures("place")
def test_the_files_that_are_written_are_the_bytes_of_the_samples(traces: str, tmp_path: Path) -> None:
    report = told(traces, step=1, out=str(tmp_path / "out"))
    assert len(report.written) == 2 * BATCH * 2
    assert set(report.written) == set(os.listdir(tmp_path / "out"))
    assert (tmp_path / "out" / "000-000006.jpg").read_bytes() == b"6 jpg .."
    assert (tmp_path / "out" / "005-000000.txt").read_bytes() == b"0 txt .."


def test_files_that_are_there_are_not_written_over_unless_it_is_said(traces: str, tmp_path: Path) -> None:
    there = tmp_path / "out" / "001-000007.txt"
    there.parent.mkdir()
    there.write_bytes(b"mine")
    with pytest.raises(UsageError, match="output files exist") as error:
        told(traces, step=1, out=str(there.parent))
    assert (error.value.where, os.listdir(there.parent)) == (str(there), [there.name])
    told(traces, step=1, out=str(there.parent), overwrite=True)
    assert there.read_bytes() == b"7 txt .."


def test_a_file_in_the_place_of_the_folder_is_refused(traces: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="--out is a file"):
        told(traces, step=1, out=str(tmp_path / "file"))


def test_keys_of_any_form_make_names_of_files_in_the_folder(tmp_path: Path) -> None:
    keys = ["../../up", "a/b c", "é" * 90, "x" * 99]
    root = some_shards(tmp_path / "odd", 1, 0)
    shard = a_shard({f"{key}.txt": key.encode() for key in keys}, format=tarfile.PAX_FORMAT)
    rewritten(os.path.join(root, "shard-000.tar"), shard)
    index(root)
    writer = a_writer(tmp_path / "traces", sources=[a_source(root=root)])
    writer.add(0, [(0, 0, 1 << 28 | i) for i in range(len(keys))])
    writer.close()
    report = told(str(tmp_path / "traces"), step=0, out=str(tmp_path / "out"))
    contents = [(tmp_path / "out" / name).read_text() for name in sorted(report.written)]
    assert contents == [sample.key for batch in report.batches or () for sample in batch.samples]
    assert len(os.listdir(tmp_path / "out")) == len(keys)


def test_a_shard_that_was_replaced_is_told_and_the_rest_is_written(traces: str, cats: str, tmp_path: Path) -> None:
    rewritten(os.path.join(cats, "shard-001.tar"), samples(5, 4))
    report = told(traces, step=1, out=str(tmp_path / "out"))
    assert [finding.code for finding in report.findings] == ["WDS403"]
    assert report.findings[0].key == "000006"
    assert sorted(os.listdir(tmp_path / "out")) == sorted(report.written)
    assert {name.partition("-")[0] for name in report.written} == {"002", "004", "005"}


def test_a_dataset_that_is_gone_leaves_restore_keys(traces: str, cats: str) -> None:
    shutil.rmtree(cats)
    report = told(traces, step=1)
    assert [finding.code for finding in report.findings] == ["WDS543"]
    assert (report.findings[0].shard, report.findings[0].count) == (cats, 4)
    (first, *_, dog) = (report.batches or ())[0].samples
    assert (first.key, first.shard, first.restore_key) == (None, None, (0, 0, 2 << 28 | 1))
    assert dog.key == "000000"


def test_a_shard_that_has_changed_is_not_taken_for_what_it_was(traces: str, cats: str) -> None:
    rewritten(os.path.join(cats, "shard-001.tar"), samples(50, 5))
    index(cats)
    os.unlink(os.path.join(cats, ".wdsctl", "offsets-1.bin"))
    report = told(traces, step=1)
    assert [sample.key for sample in (report.batches or ())[0].samples] == [None, None, "000000"]
    assert "removed or has changed" in report.findings[0].message


def test_a_dataset_that_was_moved_is_found_by_its_new_name(traces: str, cats: str, tmp_path: Path) -> None:
    shutil.move(cats, tmp_path / "elsewhere")
    report = told(traces, step=1, roots=(f"{cats}={tmp_path / 'elsewhere'}",))
    assert ((report.batches or ())[0].samples[0].key, report.findings) == ("000006", ())


def test_a_key_cannot_be_looked_up_where_no_dataset_is_there(traces: str, cats: str, dogs: str) -> None:
    shutil.rmtree(cats)
    shutil.rmtree(dogs)
    with pytest.raises(InputError) as error:
        told(traces, key="000007")
    assert error.value.code == "WDS543"


def test_samples_without_a_restore_key_are_listed_as_such(tmp_path: Path, cats: str) -> None:
    writer = a_writer(tmp_path / "traces", sources=[a_source(root=cats)])
    writer.add(0, [None, (0, 0, 1 << 28)])
    writer.close()
    report = told(str(tmp_path / "traces"), batch=0, out=str(tmp_path / "out"))
    nobody, first = (report.batches or ())[0].samples
    assert (nobody.dataset, nobody.restore_key, first.key) == ("(no restore key)", (), "000000")
    assert sorted(report.written) == ["001-000000.jpg", "001-000000.txt"]
    counts = told(str(tmp_path / "traces"), counts=True).counts
    assert [(line.dataset, line.samples) for line in counts or ()] == [("(no restore key)", 1), (cats, 1)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"step": 99}, "step 99 is not in the trace"),
        ({"batch": 99}, "batch 99 is not in the trace"),
        ({"step": 1, "rank": 7}, r"step 1 is not in the trace \(of rank 7\)"),
        ({"key": "nobody"}, "no dataset of the trace has a sample with the key 'nobody'"),
        ({"key": "000017"}, "the key '000017' is not in any batch"),
        ({"sample_id": 5}, "the sample 5 is not in any batch"),
        ({"counts": True, "rank": 9}, r"the trace has no matching batch \(of rank 9\)"),
        ({"counts": True, "pass_number": 1}, r"the trace has no matching batch \(of pass 1\)"),
    ],
)
def test_nothing_found_is_an_error_that_says_what_there_is(traces: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        told(traces, **options)
    assert (error.value.code, error.value.where) == ("WDS542", traces)
    assert "batches 0 to 11" in error.value.hint


@pytest.mark.parametrize(
    "options", [{"step": 1, "batch": 2}, {"key": "a", "counts": True}, {"out": "x"}, {"key": "a", "out": "x"}]
)
def test_questions_that_do_not_go_together_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        told(str(tmp_path), **options)


def test_a_damaged_file_is_named_and_the_rest_is_told(traces: str) -> None:
    damaged = min(Path(traces).iterdir())
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 0xFF
    damaged.write_bytes(data)
    report = told(traces, step=1)
    assert [batch.rank for batch in report.batches or ()] == [1]
    assert [(finding.code, finding.severity, finding.shard) for finding in report.findings] == [
        ("WDS541", "error", str(damaged))
    ]
    with pytest.raises(InputError, match="step 99") as error:
        told(traces, step=99)
    assert "damaged" in error.value.hint


def test_a_cut_tail_is_no_error(traces: str) -> None:
    path = min(Path(traces).iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    assert [(finding.code, finding.severity) for finding in told(traces).findings] == [("WDS541", "note")]
