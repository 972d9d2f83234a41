from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from wdsctl.core.catalog.ledger import ShardRecord
from wdsctl.core.dataset.raw_folder import list_raw_folder
from wdsctl.core.prepare.plan import plan_shards, planned_record
from wdsctl.core.prepare.renames import Renames, find_renamed_samples
from wdsctl.core.shards.write import write_shard

FILES = {"a.jpg": b"one", "a.txt": b"1", "b.jpg": b"two", "b.txt": b"2", "c.jpg": b"six", "c.txt": b"3"}


def write_files(folder: Path, files: Mapping[str, bytes]) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return str(folder)


def write_records(tmp_path: Path, files: Mapping[str, bytes]) -> list[ShardRecord]:
    source = write_files(tmp_path / "raw", files)
    samples = list_raw_folder(source, on_missing="keep").samples
    (plan,) = plan_shards(samples, 100, 1 << 30, "{index}.tar")
    write_shard(str(tmp_path / "out" / plan.name), source, samples)
    return [planned_record(plan, samples)._replace(state="done")]


def find_renames(tmp_path: Path, records: Sequence[ShardRecord]) -> Renames:
    source = str(tmp_path / "raw")
    samples = list_raw_folder(source, on_missing="keep").samples
    return find_renamed_samples(source, str(tmp_path / "out"), samples, records)


def rename(tmp_path: Path, key: str, to: str) -> None:
    for part in ("jpg", "txt"):
        (tmp_path / "raw" / f"{key}.{part}").rename(tmp_path / "raw" / f"{to}.{part}")


def test_renamed_samples_of_equal_size_are_matched_by_bytes(tmp_path: Path) -> None:
    records = write_records(tmp_path, FILES)
    for key, to in (("a", "z"), ("b", "y"), ("c", "x")):
        rename(tmp_path, key, to)

    assert find_renames(tmp_path, records).new_keys == {"a": "z", "b": "y", "c": "x"}


def test_sample_with_changed_byte_is_not_a_rename(tmp_path: Path) -> None:
    records = write_records(tmp_path, FILES)
    rename(tmp_path, "a", "z")
    write_files(tmp_path / "raw", {"z.txt": b"9"})

    assert find_renames(tmp_path, records).new_keys == {}


def test_current_key_is_none_when_another_sample_took_the_name(tmp_path: Path) -> None:
    records = write_records(tmp_path, FILES)
    rename(tmp_path, "a", "b")
    renames = find_renames(tmp_path, records)

    assert renames.new_keys == {"a": "b"}
    assert [renames.current_key(key) for key in "abc"] == ["b", None, "c"]


def test_rename_prefers_sample_with_equal_parts(tmp_path: Path) -> None:
    records = write_records(tmp_path, FILES)
    rename(tmp_path, "a", "z")
    write_files(tmp_path / "raw", {"y.jpg": b"one", "y.txt": b"1", "y.json": b"{}"})

    assert (find_renames(tmp_path, records).new_keys, find_renames(tmp_path, records).keys_with_new_parts) == (
        {"a": "z"},
        frozenset(),
    )


def test_empty_files_do_not_identify_renamed_sample(tmp_path: Path) -> None:
    records = write_records(tmp_path, {**FILES, "d.txt": b""})
    (tmp_path / "raw" / "d.txt").unlink()
    write_files(tmp_path / "raw", {"z.txt": b"", "z.jpg": b"new"})

    assert find_renames(tmp_path, records).new_keys == {}


def test_missing_or_damaged_shard_gives_no_renames(tmp_path: Path) -> None:
    records = write_records(tmp_path, FILES)
    rename(tmp_path, "a", "z")
    shard = tmp_path / "out" / "0.tar"
    shard.write_bytes(shard.read_bytes()[:700])
    assert find_renames(tmp_path, records).new_keys == {}

    shard.unlink()
    assert find_renames(tmp_path, records).new_keys == {}
