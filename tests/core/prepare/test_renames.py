from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from wdsctl.core.catalog.ledger import ShardRecord
from wdsctl.core.dataset.raw_folder import list_raw_folder
from wdsctl.core.prepare.plan import plan_shards, planned_record
from wdsctl.core.prepare.renames import Renames, find_renamed_samples
from wdsctl.core.shards.write import write_shard

FILES = {"a.jpg": b"one", "a.txt": b"1", "b.jpg": b"two", "b.txt": b"2", "c.jpg": b"six", "c.txt": b"3"}


def put(folder: Path, files: Mapping[str, bytes]) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return str(folder)


def written(tmp_path: Path, files: Mapping[str, bytes]) -> list[ShardRecord]:
    source = put(tmp_path / "raw", files)
    samples = list_raw_folder(source, on_missing="keep").samples
    (plan,) = plan_shards(samples, 100, 1 << 30, "{index}.tar")
    write_shard(str(tmp_path / "out" / plan.name), source, samples)
    return [planned_record(plan, samples)._replace(state="done")]


def found(tmp_path: Path, records: Sequence[ShardRecord]) -> Renames:
    source = str(tmp_path / "raw")
    samples = list_raw_folder(source, on_missing="keep").samples
    return find_renamed_samples(source, str(tmp_path / "out"), samples, records)


def rename(tmp_path: Path, key: str, to: str) -> None:
    for part in ("jpg", "txt"):
        (tmp_path / "raw" / f"{key}.{part}").rename(tmp_path / "raw" / f"{to}.{part}")


def test_a_sample_is_told_by_its_bytes_where_all_sizes_are_alike(tmp_path: Path) -> None:
    records = written(tmp_path, FILES)
    for key, to in (("a", "z"), ("b", "y"), ("c", "x")):
        rename(tmp_path, key, to)

    assert found(tmp_path, records).new_keys == {"a": "z", "b": "y", "c": "x"}


def test_one_byte_makes_it_another_sample(tmp_path: Path) -> None:
    records = written(tmp_path, FILES)
    rename(tmp_path, "a", "z")
    put(tmp_path / "raw", {"z.txt": b"9"})

    assert found(tmp_path, records).new_keys == {}


def test_a_name_that_went_to_a_sample_whose_own_content_is_gone_is_no_longer_its_own(tmp_path: Path) -> None:
    records = written(tmp_path, FILES)
    rename(tmp_path, "a", "b")
    renames = found(tmp_path, records)

    assert renames.new_keys == {"a": "b"}
    assert [renames.current_key(key) for key in "abc"] == ["b", None, "c"]


def test_the_same_parts_come_before_more_parts(tmp_path: Path) -> None:
    records = written(tmp_path, FILES)
    rename(tmp_path, "a", "z")
    put(tmp_path / "raw", {"y.jpg": b"one", "y.txt": b"1", "y.json": b"{}"})

    assert (found(tmp_path, records).new_keys, found(tmp_path, records).keys_with_new_parts) == (
        {"a": "z"},
        frozenset(),
    )


def test_empty_files_tell_nothing_of_a_sample_that_has_more(tmp_path: Path) -> None:
    records = written(tmp_path, {**FILES, "d.txt": b""})
    (tmp_path / "raw" / "d.txt").unlink()
    put(tmp_path / "raw", {"z.txt": b"", "z.jpg": b"new"})

    assert found(tmp_path, records).new_keys == {}


def test_nothing_is_told_of_a_shard_that_is_gone_or_damaged(tmp_path: Path) -> None:
    records = written(tmp_path, FILES)
    rename(tmp_path, "a", "z")
    shard = tmp_path / "out" / "0.tar"
    shard.write_bytes(shard.read_bytes()[:700])
    assert found(tmp_path, records).new_keys == {}

    shard.unlink()
    assert found(tmp_path, records).new_keys == {}
