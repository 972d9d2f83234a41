"""What cannot be read or goes no further: left out, kept, or the end of the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset, a_shard, an_image, some_shards
from tests.core.conversions import content, files, keys, prepared, to
from wdsctl.core.convert.parts import parse_image
from wdsctl.core.errors import DatasetError, InputError, WdsctlError


def test_a_bad_sample_is_left_out_and_told(tmp_path: Path) -> None:
    source = a_dataset(
        tmp_path / "a", {"0.tar": {"a.png": an_image("PNG"), "b.png": b"broken", "c.png": an_image("PNG")}}
    )

    report = to(tmp_path / "b", source, image=parse_image("webp:50"))

    assert keys(tmp_path / "b") == ["a", "c"]
    assert (report.samples, report.failed, report.kept) == (3, 1, 0)
    assert [(found.code, found.key, found.severity) for found in report.findings] == [("WDS341", "b", "error")]
    assert to(tmp_path / "b", source, image=parse_image("webp:50")).failed == 1


def test_a_bad_sample_may_go_along_as_it_was(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"a.png": an_image("PNG"), "b.png": b"broken"}})

    report = to(tmp_path / "b", source, image=parse_image("jpeg"), on_error="keep")

    assert sorted(content(tmp_path / "b")) == ["a.jpg", "b.png"]
    assert (report.failed, report.kept) == (0, 1)


def test_a_bad_sample_may_stop_the_run(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"b.png": b"broken"}})

    with pytest.raises(WdsctlError, match="cannot transcode the part png") as caught:
        to(tmp_path / "b", source, image=parse_image("jpeg"), on_error="error")
    assert caught.value.where == "sample b"
    assert files(tmp_path / "b") == {}


def test_a_shard_that_is_cut_short_gives_the_samples_before(tmp_path: Path) -> None:
    whole = a_shard({f"{i}.txt": b"x" * 2000 for i in range(4)})
    source = a_dataset(tmp_path / "a", {"0.tar": whole[:7000], "1.tar": {"9.txt": b"9"}})

    report = to(tmp_path / "b", source)

    assert keys(tmp_path / "b") == ["0", "1", "9"]
    assert [found.code for found in report.findings] == ["WDS102"]


def test_a_source_that_is_not_what_its_catalog_says_is_refused(tmp_path: Path) -> None:
    source = prepared(tmp_path / "a", 2)
    some_shards(tmp_path / "a", 1, first=7)

    with pytest.raises(DatasetError, match=r"out of date: 1 new shard\n") as caught:
        to(tmp_path / "b", source)
    assert caught.value.code == "WDS344"


def test_a_compressed_shard_that_is_cut_short_is_told(tmp_path: Path) -> None:
    to(tmp_path / "gz", some_shards(tmp_path / "a", 1, 2000), compress="gz")
    path = tmp_path / "gz" / "shard-000000.tar.gz"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    report = to(tmp_path / "b", tmp_path / "gz")

    assert [found.code for found in report.findings] == ["WDS102"]
    assert 0 < report.samples < 2000


def test_a_source_without_samples_is_refused(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {}})

    with pytest.raises(InputError) as caught:
        to(tmp_path / "b", source)
    assert caught.value.code == "WDS003"
