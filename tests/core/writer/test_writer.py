"""`wdsctl.Writer`: what it writes, what it refuses, and what stays after an error."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import wdsctl
from tests.core.pictures import picture
from tests.core.raw_folders import members, others, shards
from tests.full_disk import files_of_at_most
from wdsctl.core.errors import CatalogError, DatasetError, InputError, StorageError, UsageError

KIND = "CaptioningSample"


def samples(count: int, first: int = 0) -> Iterator[dict[str, Any]]:
    for i in range(first, first + count):
        yield {"key": f"a/{i:04}", "image": picture(16 + i, 16), "caption": f"caption {i}"}


def write(dest: Path, rows: Iterator[Mapping[str, Any]], **options: Any) -> Any:
    return wdsctl.from_iterable(rows, dest, **{"sample_type": KIND, "shard_samples": 4, "workers": 1, **options})


def test_writer_makes_the_shards_that_prepare_makes_of_the_same_files(tmp_path: Path) -> None:
    folder = tmp_path / "raw" / "a"
    folder.mkdir(parents=True)
    for i, sample in enumerate(samples(10)):
        (folder / f"{i:04}.jpg").write_bytes(sample["image"])
        (folder / f"{i:04}.txt").write_text(sample["caption"])
    size = 12_000
    prepared: Any = wdsctl.prepare(tmp_path / "raw", tmp_path / "prepared", shard_size=size, split="8,1,1", workers=1)

    report = write(tmp_path / "written", samples(10), shard_samples=10_000, shard_size=size, split="8,1,1")

    assert len(shards(tmp_path / "prepared")) > 2
    assert shards(tmp_path / "written") == shards(tmp_path / "prepared")
    assert (report.sample_type, report.field_map) == (prepared.sample_type, prepared.field_map)
    assert [(each.name, each.samples) for each in report.split.splits] == [
        (each.name, each.samples) for each in prepared.split.splits
    ]
    assert wdsctl.validate(tmp_path / "written", level="load").findings == ()


def test_writer_ends_shards_at_both_limits(tmp_path: Path) -> None:
    write(tmp_path / "few", samples(9))
    write(tmp_path / "small", samples(9), shard_size=1)

    assert [data.count(b"ustar") for data in shards(tmp_path / "few").values()] == [8, 8, 2]
    assert len(shards(tmp_path / "small")) == 9


def test_writer_numbers_samples_without_keys(tmp_path: Path) -> None:
    write(
        tmp_path / "out",
        (
            {"image": each["image"], "caption": None, "key": None, "captions": ["x"]} | {"caption": "y"}
            for each in samples(3)
        ),
    )

    assert list(wdsctl.Dataset(tmp_path / "out").keys()) == ["000000000", "000000001", "000000002"]


def test_second_run_of_finished_writer_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path / "out", samples(9))
    before = shards(tmp_path / "out")

    report = write(tmp_path / "out", samples(9))

    assert report.up_to_date
    assert shards(tmp_path / "out") == before


def test_writer_adds_what_a_longer_loop_gives(tmp_path: Path) -> None:
    write(tmp_path / "out", samples(5))
    before = shards(tmp_path / "out")

    png = {"key": "b", "image": None, "caption": "b"} | {"image": a_png()}
    report = write(tmp_path / "out", iter([*samples(5), png]))

    after = shards(tmp_path / "out")
    assert before.items() < after.items()
    assert report.index.samples == 6
    assert wdsctl.Dataset(tmp_path / "out")["b"].caption == "b"


def a_png() -> bytes:
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "PNG")
    return file.getvalue()


def test_exception_in_the_block_keeps_finished_shards_and_publishes_nothing(tmp_path: Path) -> None:
    def failing() -> Iterator[dict[str, Any]]:
        yield from samples(6)
        raise LookupError("the source ended")

    with pytest.raises(LookupError) as error:
        write(tmp_path / "out", failing())

    assert sorted(shards(tmp_path / "out")) == ["shard-000000.tar"]
    assert others(tmp_path / "out") == []
    assert not (tmp_path / "out" / ".wdsctl" / "catalog.sqlite").exists()
    if sys.version_info >= (3, 11):
        assert "1 finished shard" in error.value.__notes__[0]
    with pytest.raises(CatalogError, match="incomplete") as incomplete:
        wdsctl.index(tmp_path / "out")
    assert incomplete.value.code == "WDS301"

    write(tmp_path / "out", samples(9))
    write(tmp_path / "whole", samples(9))
    assert shards(tmp_path / "out") == shards(tmp_path / "whole")


def test_exception_before_the_first_shard_leaves_no_trace(tmp_path: Path) -> None:
    with pytest.raises(DatasetError):
        write(tmp_path / "out", iter([{"image": b"no image", "caption": "x"}]))

    assert list(tmp_path.iterdir()) == []


def test_caught_refusal_of_a_sample_leaves_the_others(tmp_path: Path) -> None:
    with wdsctl.Writer(tmp_path / "out", sample_type=KIND, workers=1) as writer:
        for sample in samples(2):
            writer.write(sample)
        with pytest.raises(DatasetError, match="sample 'c'") as error:
            writer.write({"key": "c", "image": b"x", "caption": "x"})
        for sample in samples(2, first=2):
            writer.write(sample)

    assert error.value.code == "WDS262"
    assert len(members(tmp_path / "out")) == 8


def test_writer_refuses_an_empty_iterable(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as error:
        write(tmp_path / "out", iter(()))

    assert error.value.code == "WDS119"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["a.b", "/a", "a//b", "", "..", "__a__", "a\n", "x" * 201, "e\u0301"])
def test_writer_refuses_invalid_keys(tmp_path: Path, key: str) -> None:
    with pytest.raises(DatasetError) as error:
        write(tmp_path / "out", iter([{**next(samples(1)), "key": key}]))

    assert error.value.code == "WDS263"
    valid = error.value.hint.removeprefix("pass ").strip("'")
    if not valid.startswith("another"):  # the hint is true
        write(tmp_path / "out", iter([{**next(samples(1)), "key": valid}]))


def test_writer_refuses_a_repeated_key(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="'a/0001' was written before") as error:
        write(tmp_path / "out", iter([*samples(7), *samples(1, first=1)]))

    assert error.value.code == "WDS263"
    with pytest.raises(DatasetError, match="'a/0001' was written before"):  # also if a finished shard has it
        write(tmp_path / "out", iter([*samples(7), *samples(1, first=1)]))


def test_second_writer_of_a_folder_is_refused(tmp_path: Path) -> None:
    with wdsctl.Writer(tmp_path / "out", sample_type=KIND, workers=1) as writer:
        writer.write(next(samples(1)))
        with pytest.raises(CatalogError) as error, wdsctl.Writer(tmp_path / "out", sample_type=KIND):
            pass
        assert error.value.code == "WDS304"

    assert len(members(tmp_path / "out")) == 2


def test_writer_refuses_a_dataset_of_somebody_else(tmp_path: Path) -> None:
    write(tmp_path / "other", samples(2))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.tar").write_bytes((tmp_path / "other" / "shard-000000.tar").read_bytes())
    before = shards(tmp_path / "out")

    for _ in range(2):
        with pytest.raises(UsageError, match=r"not empty: a\.tar"):
            write(tmp_path / "out", samples(2))
        wdsctl.prepare(tmp_path / "out", yes=True, workers=1)

    (tmp_path / "out" / "a.tar").unlink()
    with pytest.raises(UsageError, match="already has a dataset"):
        write(tmp_path / "out", samples(2))
    assert before


def test_writer_refuses_foreign_shards_in_its_folder(tmp_path: Path) -> None:
    write(tmp_path / "out", samples(2))
    (tmp_path / "out" / "other.tar").write_bytes(b"")

    with pytest.raises(UsageError, match=r"other shards: other\.tar"):
        write(tmp_path / "out", samples(2))


@pytest.mark.parametrize(
    "changed",
    [{"shard_samples": 3}, {"sample_type": "CrudeSample"}, {"encode": {"image": "webp"}}, {"shard_size": 5_000}],
)
def test_writer_continues_only_with_the_same_options(tmp_path: Path, changed: dict[str, Any]) -> None:
    write(tmp_path / "out", samples(2))

    with pytest.raises(UsageError, match=next(iter(changed))) as error:
        write(tmp_path / "out", samples(2), **changed)

    assert error.value.code == "WDS264"


def test_writer_refuses_other_samples_under_keys_of_finished_shards(tmp_path: Path) -> None:
    write(tmp_path / "out", samples(8))

    with pytest.raises(DatasetError, match="other values") as error:
        write(tmp_path / "out", ({**each, "caption": "another"} for each in samples(8)))

    assert error.value.code == "WDS264"


def test_writer_refuses_to_drop_samples_of_finished_shards(tmp_path: Path) -> None:
    write(tmp_path / "out", samples(8))

    for rows in (samples(5), samples(3, first=5), samples(1, first=20)):
        with pytest.raises(DatasetError, match="samples that this run did not write") as error:
            write(tmp_path / "out", rows)
        assert error.value.code == "WDS264"

    assert write(tmp_path / "out", samples(8)).index.samples == 8


def test_writer_refuses_missing_and_damaged_shards(tmp_path: Path) -> None:
    write(tmp_path / "out", samples(12))
    first = tmp_path / "out" / "shard-000000.tar"
    data = first.read_bytes()

    first.write_bytes(data[:-2000])
    with pytest.raises(DatasetError, match="damaged"):
        write(tmp_path / "out", samples(12))
    first.unlink()
    with pytest.raises(UsageError, match=r"shard-000000\.tar is missing"):
        write(tmp_path / "out", samples(12))

    first.write_bytes(data)  # as the hint says
    assert write(tmp_path / "out", samples(12)).index.samples == 12


def test_skip_saves_making_values_of_finished_samples(tmp_path: Path) -> None:
    rows = [{**each, "captions": ["a", "b"]} for each in samples(8)]
    with pytest.raises(DatasetError):
        write(tmp_path / "out", iter([*rows[:6], {"image": None}]))

    skipped = []
    with wdsctl.Writer(tmp_path / "out", sample_type=KIND, shard_samples=4, workers=1) as writer:
        for row in rows:
            if writer.skip(row["key"]):
                skipped.append(row["key"])
            else:
                assert writer.write({name: value for name, value in row.items() if name != "captions"})

    assert skipped == [row["key"] for row in rows[:4]]
    dataset = wdsctl.Dataset(tmp_path / "out")
    assert [each.captions for each in dataset] == [["a", "b"]] * 4 + [None] * 4


def test_full_disk_leaves_finished_shards_to_continue(tmp_path: Path) -> None:
    write(tmp_path / "whole", samples(9))
    rows = [*samples(8), {**next(samples(1, first=8)), "meta.bin": bytes(300_000)}]

    with files_of_at_most(200_000), pytest.raises(StorageError):
        write(tmp_path / "out", iter(rows))

    assert len(shards(tmp_path / "out")) == 2
    assert others(tmp_path / "out") == []
    write(tmp_path / "out", samples(9))
    assert shards(tmp_path / "out") == shards(tmp_path / "whole")


def test_writer_stops_after_an_error_within_a_shard(tmp_path: Path) -> None:
    large = {**next(samples(1, first=1)), "meta.bin": bytes(3_000_000)}
    with (
        pytest.raises(UsageError, match="stopped at an earlier error") as error,
        wdsctl.Writer(tmp_path / "out", sample_type=KIND) as writer,
        pytest.raises(StorageError),
        files_of_at_most(200_000),
    ):
        writer.write(large)

    assert "second run" in error.value.hint
    assert shards(tmp_path / "out") == {}


def test_writer_is_used_once_and_within_its_block(tmp_path: Path) -> None:
    writer = wdsctl.Writer(tmp_path / "out", sample_type=KIND, workers=1)
    with pytest.raises(UsageError, match="not open"):
        writer.write(next(samples(1)))
    with writer:
        writer.write(next(samples(1)))
    with pytest.raises(UsageError, match="used once"), writer:
        pass
    with pytest.raises(UsageError, match="not open"):
        writer.write(next(samples(1)))


def test_writer_refuses_options_before_it_writes(tmp_path: Path) -> None:
    for options in (
        {"shard_samples": 0},
        {"template": "x.tar"},
        {"split": "8,x"},
        {"encode": {"caption": "png"}},
        {"encode": {"image": "gif"}},
        {"sample_type": "Captioning"},
        {"sample_type": "my.module:Sample"},
        {"rank": 1},
        {"rank": 2, "world_size": 2},
    ):
        with pytest.raises(UsageError):
            write(tmp_path / "out", samples(1), **options)
    with pytest.raises(UsageError, match="URL"):
        wdsctl.Writer("s3://bucket/shards", sample_type=KIND)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises((UsageError, InputError)):
        write(tmp_path, samples(1), template="../{index}.tar")


def test_interrupt_after_a_shard_got_its_name_can_be_continued(tmp_path: Path) -> None:
    """The first shard is complete, and the writer was interrupted before it counted the shard."""

    def interrupted() -> Iterator[dict[str, Any]]:
        yield from samples(4)
        (tmp_path / "out" / "shard-000000.tar").write_bytes(shards(tmp_path / "whole")["shard-000000.tar"])
        raise KeyboardInterrupt

    write(tmp_path / "whole", samples(6))
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out", interrupted())

    write(tmp_path / "out", samples(6))
    assert shards(tmp_path / "out") == shards(tmp_path / "whole")
