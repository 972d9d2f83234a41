from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.build import a_shard, rewrite_shard, samples, some_shards
from tests.core.traces import a_source, a_writer
from wdsctl.core.errors import InputError, UsageError
from wdsctl.core.index.index import index
from wdsctl.core.safe_open import ALLOW_PATH_VARIABLE
from wdsctl.core.trace import SourceFacts
from wdsctl.core.trace.trace import TraceOptions, TraceReport, query_trace

STEPS, WORLD, BATCH = 6, 2, 3


@pytest.fixture(autouse=True)
def _allowed_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOW_PATH_VARIABLE, str(tmp_path))


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
def traces(tmp_path: Path, cats: str, dogs: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two ranks; batch n has the cats 3n, 3n + 1 and so on, modulo 20, and the first dog as its last sample."""
    monkeypatch.setenv(ALLOW_PATH_VARIABLE, f"{tmp_path},{cats},{dogs}")
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


def run_query(folder: str, **options: Any) -> TraceReport:
    return query_trace(folder, TraceOptions(**options))


@pytest.mark.usefixtures("place")
def test_query_by_step_returns_samples_with_their_locations(traces: str, cats: str, dogs: str) -> None:
    report = run_query(traces, step=1)

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


def test_query_selects_batch_and_rank(traces: str) -> None:
    assert [batch.number for batch in run_query(traces, step=1, rank=1).batches or ()] == [3]
    assert [batch.step for batch in run_query(traces, batch=7).batches or ()] == [3]


@pytest.mark.usefixtures("place")
def test_query_by_key_finds_every_batch_with_it(traces: str, cats: str) -> None:
    matches = run_query(traces, key="000007").seen
    assert matches is not None
    assert [(each.dataset, each.batch, each.step, each.position) for each in matches] == [
        (cats, 2, 1, 1),
        (cats, 9, 4, 0),
    ]
    assert [each.restore_key for each in matches] == [(0, 0, 2 << 28 | 2), (0, 1, 2 << 28 | 2)]
    assert run_query(traces, sample_id=2 << 28 | 2).seen == matches
    assert [each.batch for each in run_query(traces, key="000007", rank=1).seen or ()] == [9]


def test_query_by_key_searches_all_datasets(traces: str, cats: str, dogs: str) -> None:
    matches = run_query(traces, key="000000").seen
    assert matches is not None
    assert {each.dataset for each in matches} == {cats, dogs}
    assert len(matches) == STEPS * WORLD + 1


def test_counts_cover_whole_trace_by_dataset(traces: str, cats: str, dogs: str) -> None:
    report = run_query(traces, counts=True)
    assert report.counts is not None
    assert report.batches_counted == STEPS * WORLD
    cat_counts, dog_counts = report.counts
    assert (cat_counts.dataset, cat_counts.samples, cat_counts.distinct) == (cats, 24, 19)
    assert dict(cat_counts.by_times) == {1: 14, 2: 5}
    assert (cat_counts.most[0].key, cat_counts.most[0].times) == ("000001", 2)
    assert (dog_counts.dataset, dog_counts.samples, dog_counts.distinct, dict(dog_counts.by_times)) == (
        dogs,
        12,
        1,
        {12: 1},
    )


def test_query_without_options_lists_runs_and_sources(traces: str, cats: str) -> None:
    report = run_query(traces)
    assert [(run.rank, run.world, run.batches, run.first, run.last) for run in report.runs] == [
        (0, 2, 6, 0, 10),
        (1, 2, 6, 1, 11),
    ]
    assert [source.number for source in report.sources] == [0, 1]
    assert report.sources[0].dataset == cats


@pytest.mark.usefixtures("place")
def test_out_writes_bytes_of_samples(traces: str, tmp_path: Path) -> None:
    report = run_query(traces, step=1, out=str(tmp_path / "out"))
    assert len(report.written) == 2 * BATCH * 2
    assert set(report.written) == set(os.listdir(tmp_path / "out"))
    assert (tmp_path / "out" / "000-000006.jpg").read_bytes() == b"6 jpg .."
    assert (tmp_path / "out" / "005-000000.txt").read_bytes() == b"0 txt .."


def test_out_refuses_existing_files_without_overwrite(traces: str, tmp_path: Path) -> None:
    existing = tmp_path / "out" / "001-000007.txt"
    existing.parent.mkdir()
    existing.write_bytes(b"mine")
    with pytest.raises(UsageError, match="output files exist") as error:
        run_query(traces, step=1, out=str(existing.parent))
    assert (error.value.where, os.listdir(existing.parent)) == (str(existing), [existing.name])
    run_query(traces, step=1, out=str(existing.parent), overwrite=True)
    assert existing.read_bytes() == b"7 txt .."


def test_out_refuses_file_as_folder(traces: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="--out is a file"):
        run_query(traces, step=1, out=str(tmp_path / "file"))


def test_out_makes_file_names_in_folder_from_any_key(tmp_path: Path) -> None:
    keys = ["../../up", "a/b c", "é" * 90, "x" * 99]
    root = some_shards(tmp_path / "odd", 1, 0)
    shard = a_shard({f"{key}.txt": key.encode() for key in keys}, format=tarfile.PAX_FORMAT)
    rewrite_shard(os.path.join(root, "shard-000.tar"), shard)
    index(root)
    writer = a_writer(tmp_path / "traces", sources=[a_source(root=root)])
    writer.add(0, [(0, 0, 1 << 28 | i) for i in range(len(keys))])
    writer.close()
    report = run_query(str(tmp_path / "traces"), step=0, out=str(tmp_path / "out"))
    contents = [(tmp_path / "out" / name).read_text() for name in sorted(report.written)]
    assert contents == [sample.key for batch in report.batches or () for sample in batch.samples]
    assert len(os.listdir(tmp_path / "out")) == len(keys)


def test_replaced_shard_is_reported_and_other_files_are_written(traces: str, cats: str, tmp_path: Path) -> None:
    rewrite_shard(os.path.join(cats, "shard-001.tar"), samples(5, 4))
    report = run_query(traces, step=1, out=str(tmp_path / "out"))
    assert [finding.code for finding in report.findings] == ["WDS403"]
    assert report.findings[0].key == "000006"
    assert sorted(os.listdir(tmp_path / "out")) == sorted(report.written)
    assert {name.partition("-")[0] for name in report.written} == {"002", "004", "005"}


def test_missing_dataset_leaves_restore_keys(traces: str, cats: str) -> None:
    shutil.rmtree(cats)
    report = run_query(traces, step=1)
    assert [finding.code for finding in report.findings] == ["WDS543"]
    assert (report.findings[0].shard, report.findings[0].count) == (cats, 4)
    (first, *_, dog) = (report.batches or ())[0].samples
    assert (first.key, first.shard, first.restore_key) == (None, None, (0, 0, 2 << 28 | 1))
    assert dog.key == "000000"


def test_changed_shard_is_not_used_for_lookup(traces: str, cats: str) -> None:
    rewrite_shard(os.path.join(cats, "shard-001.tar"), samples(50, 5))
    index(cats)
    os.unlink(os.path.join(cats, ".wdsctl", "offsets-1.bin"))
    report = run_query(traces, step=1)
    assert [sample.key for sample in (report.batches or ())[0].samples] == [None, None, "000000"]
    assert "removed or has changed" in report.findings[0].message


def test_moved_dataset_is_found_by_its_new_root(traces: str, cats: str, tmp_path: Path) -> None:
    shutil.move(cats, tmp_path / "elsewhere")
    report = run_query(traces, step=1, roots=(f"{cats}={tmp_path / 'elsewhere'}",))
    assert ((report.batches or ())[0].samples[0].key, report.findings) == ("000006", ())


def test_query_by_key_fails_when_all_datasets_are_missing(traces: str, cats: str, dogs: str) -> None:
    shutil.rmtree(cats)
    shutil.rmtree(dogs)
    with pytest.raises(InputError) as error:
        run_query(traces, key="000007")
    assert error.value.code == "WDS543"


def test_samples_without_restore_key_are_listed_as_such(tmp_path: Path, cats: str) -> None:
    writer = a_writer(tmp_path / "traces", sources=[a_source(root=cats)])
    writer.add(0, [None, (0, 0, 1 << 28)])
    writer.close()
    report = run_query(str(tmp_path / "traces"), batch=0, out=str(tmp_path / "out"))
    unknown, first = (report.batches or ())[0].samples
    assert (unknown.dataset, unknown.restore_key, first.key) == ("(no restore key)", (), "000000")
    assert sorted(report.written) == ["001-000000.jpg", "001-000000.txt"]
    counts = run_query(str(tmp_path / "traces"), counts=True).counts
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
def test_query_without_result_is_refused_with_available_batches(
    traces: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words) as error:
        run_query(traces, **options)
    assert (error.value.code, error.value.where) == ("WDS542", traces)
    assert "batches 0 to 11" in error.value.hint


@pytest.mark.parametrize(
    "options",
    [
        *({"step": 1, "batch": 2}, {"key": "a", "counts": True}, {"out": "x"}, {"key": "a", "out": "x"}),
        *({"rank": 0}, {"pass_number": 0}),
    ],
)
def test_query_refuses_conflicting_options(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        run_query(str(tmp_path), **options)


def test_missing_file_of_rank_is_an_error(tmp_path: Path, cats: str) -> None:
    def query_of(ranks: set[int], world: int, **options: Any) -> list[tuple[str, str, str]]:
        folder = tmp_path / f"{world}-{len(ranks)}"
        for rank in ranks:
            writer = a_writer(folder, rank, world, [a_source(0, cats)])
            if rank < 12:  # a rank without batches has a file, too
                writer.add(rank, [cat(rank)])
            writer.close()
        report = run_query(str(folder), **options)
        return [(each.code, each.severity, each.message) for each in report.findings]

    assert query_of({0, 2}, 3, counts=True) == [("WDS541", "error", "the file of rank 1 of 3 is missing")]
    assert query_of({1}, 20, step=0) == [
        ("WDS541", "error", "the file of ranks 0, 2, 3, 4, 5, 6, 7, 8 and 11 more of 20 is missing")
    ]
    assert query_of({*range(20)}, 20, counts=True) == []
    assert query_of({0, 1}, 4, rank=1, step=0) == []


def test_damaged_file_is_reported_and_others_are_read(traces: str) -> None:
    damaged = min(Path(traces).iterdir())
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 0xFF
    damaged.write_bytes(data)
    report = run_query(traces, step=1)
    assert [batch.rank for batch in report.batches or ()] == [1]
    assert [(finding.code, finding.severity, finding.shard) for finding in report.findings] == [
        ("WDS541", "error", str(damaged))
    ]
    with pytest.raises(InputError, match="step 99") as error:
        run_query(traces, step=99)
    assert "damaged" in error.value.hint


def test_truncated_tail_is_reported_as_note(traces: str) -> None:
    path = min(Path(traces).iterdir())
    path.write_bytes(path.read_bytes()[:-1])
    assert [(finding.code, finding.severity) for finding in run_query(traces).findings] == [("WDS541", "note")]
