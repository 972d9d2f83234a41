"""A writer that is killed and run again gives the bytes of one that was not, also from several processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import wdsctl
from tests.core.raw_folders import others, shards
from tests.killing import Moment, kill_moments, run_and_kill
from wdsctl.core.errors import CatalogError, DatasetError, UsageError
from wdsctl.core.prepare.prepare import PrepareReport

SCRIPT = """
from __future__ import annotations
import sys
import numpy as np
import wdsctl
dest, rank, world_size = sys.argv[1], *map(int, sys.argv[2:])
rows = (
    {
        "image": np.full((20 + i % 7, 30, 3), i % 256, np.uint8),
        "caption": f"caption {i}" * (i % 50),
        "more.bin": bytes([i]) * 120_000,
    }
    for i in range(200)
)
ranks = {"rank": rank, "world_size": world_size} if world_size else {}
report = wdsctl.from_iterable(
    rows, dest, sample_type="CaptioningSample", shard_samples=20, split="8,2", workers=1, **ranks
)
print(report and report.index.samples)
"""


def command(dest: Path, rank: int = 0, world_size: int = 0) -> list[str | Path]:
    return [sys.executable, "-c", SCRIPT, dest, str(rank), str(world_size)]


def run(dest: Path, rank: int = 0, world_size: int = 0) -> str:
    process = subprocess.run(command(dest, rank, world_size), check=True, capture_output=True, text=True)
    return process.stdout.strip()


def test_killed_writer_continues_to_the_same_bytes(tmp_path: Path) -> None:
    """The kill comes within a shard, after some are finished."""
    assert run(tmp_path / "whole") == "200"
    truth = shards(tmp_path / "whole")
    dest = tmp_path / "out"

    assert run_and_kill(command(dest), Moment("write", 14), tmp_path / "count", start=subprocess.Popen)

    finished = shards(dest)
    assert 0 < len(finished) < len(truth)
    assert finished.items() <= truth.items()
    assert others(dest) != []  # the half shard, under a name that is no shard's
    with pytest.raises(CatalogError, match="incomplete"):
        wdsctl.prepare(dest)
    assert run(dest) == "200"
    assert shards(dest) == truth
    assert others(dest) == []


@pytest.mark.slow
@pytest.mark.parametrize("seam", ["write", "fsync", "replace"])
def test_writer_killed_at_any_moment_continues_to_the_same_bytes(tmp_path: Path, seam: str) -> None:
    run(tmp_path / "whole")
    truth, count = shards(tmp_path / "whole"), tmp_path / "count"
    for n, moment in enumerate(kill_moments(command(tmp_path / "counted"), seam, 9, count)):
        dest = tmp_path / f"out-{n}"
        assert run_and_kill(command(dest), moment, count)
        assert shards(dest).items() <= truth.items()
        run(dest)
        assert shards(dest) == truth
        assert others(dest) == []
        assert len(wdsctl.Dataset(dest)) == 200


def test_ranks_write_one_dataset_and_the_last_one_prepares_it(tmp_path: Path) -> None:
    dest = tmp_path / "out"
    assert run(dest, 1, 3) == "None"
    with pytest.raises(CatalogError, match="incomplete"):
        wdsctl.index(dest)
    assert run_and_kill(command(dest, 0, 3), Moment("write", 8), tmp_path / "count", start=subprocess.Popen)
    assert run(dest, 2, 3) == "None"
    assert others(dest) != []

    assert run(dest, 0, 3) == "200"

    assert others(dest) == []
    assert sorted({name.partition("-")[0] for name in shards(dest)}) == ["rank0", "rank1", "rank2"]
    assert sorted(wdsctl.Dataset(dest).keys()) == [f"{i:09}" for i in range(200)]
    by_key = {sample.__key__: sample.caption for sample in wdsctl.Dataset(dest)}
    assert by_key["000000077"] == "caption 77" * 27
    assert run(dest, 1, 3) == "200"  # nothing is new


def test_ranks_write_at_the_same_time(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(command(tmp_path / "out", rank, 3), stdout=subprocess.PIPE, text=True) for rank in range(3)
    ]
    printed = [process.communicate()[0].strip() for process in processes]

    assert [process.returncode for process in processes] == [0, 0, 0]
    assert "200" in printed
    assert len(wdsctl.Dataset(tmp_path / "out")) == 200


def rank_of(dest: Path, rank: int, world_size: int, keys: list[str]) -> PrepareReport | None:
    with wdsctl.Writer(dest, sample_type="TextSample", rank=rank, world_size=world_size, workers=1) as writer:
        for key in keys:
            writer.write({"key": key, "text": key})
    return writer.report


def test_ranks_with_the_same_key_are_refused(tmp_path: Path) -> None:
    rank_of(tmp_path / "out", 0, 2, ["a", "b"])
    with pytest.raises(DatasetError, match="two ranks have written the key 'b'") as error:
        rank_of(tmp_path / "out", 1, 2, ["c", "b"])

    assert error.value.code == "WDS263"
    assert not (tmp_path / "out" / ".wdsctl" / "catalog.sqlite").exists()


def test_ranks_exclude_one_another_and_single_writers(tmp_path: Path) -> None:
    dest = tmp_path / "out"
    with wdsctl.Writer(dest, sample_type="TextSample", rank=0, world_size=2, workers=1) as writer:
        writer.write({"text": "a"})
        with pytest.raises(CatalogError) as locked:
            rank_of(dest, 0, 2, ["b"])
        with pytest.raises(UsageError, match="world_size=2") as other, wdsctl.Writer(dest, sample_type="TextSample"):
            pass
        rank_of(dest, 1, 2, [])

    assert (locked.value.code, other.value.code) == ("WDS304", "WDS264")
    assert len(wdsctl.Dataset(dest)) == 1


def test_ranks_without_any_sample_are_refused(tmp_path: Path) -> None:
    assert rank_of(tmp_path / "out", 0, 2, []) is None
    with pytest.raises(DatasetError) as error:
        rank_of(tmp_path / "out", 1, 2, [])

    assert error.value.code == "WDS119"


def test_other_settings_are_shown_in_a_line(tmp_path: Path) -> None:
    wdsctl.from_iterable([{"text": "a"}], tmp_path / "out", sample_type="TextSample", workers=1)
    settings = tmp_path / "out" / ".wdsctl" / "writer" / "settings.json"
    settings.write_text(settings.read_text().replace("TextSample", "x" * 10_000))

    with pytest.raises(UsageError, match="began with sample_type='xxx") as error:
        wdsctl.from_iterable([{"text": "a"}], tmp_path / "out", sample_type="TextSample", workers=1)

    assert len(error.value.message) < 200


@pytest.mark.parametrize("name", ["settings.json", "rank-0.json"])
@pytest.mark.parametrize("text", ["", "[]", '{"fields": 3}', "{" * 100_000])
def test_damaged_state_is_refused(tmp_path: Path, name: str, text: str) -> None:
    wdsctl.from_iterable([{"text": "a"}], tmp_path / "out", sample_type="TextSample", workers=1)
    (tmp_path / "out" / ".wdsctl" / "writer" / name).write_text(text)

    with pytest.raises((DatasetError, UsageError)) as error:
        wdsctl.from_iterable([{"text": "a"}], tmp_path / "out", sample_type="TextSample", workers=1)

    assert error.value.code == "WDS264"
