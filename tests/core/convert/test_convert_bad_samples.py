"""Samples that cannot be read or converted are skipped, kept, or stop the conversion."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import a_dataset, a_folder, a_shard, an_image, some_shards
from tests.core.conversions import a_prepared_dataset, content, convert_to, files, keys
from wdsctl.cli.errors import convert_exit_code
from wdsctl.core.convert.parts import parse_image
from wdsctl.core.errors import DatasetError, InputError, WdsctlError


def test_bad_sample_is_skipped_and_reported(tmp_path: Path) -> None:
    source = a_dataset(
        tmp_path / "a", {"0.tar": {"a.png": an_image("PNG"), "b.png": b"broken", "c.png": an_image("PNG")}}
    )

    report = convert_to(tmp_path / "b", source, image=parse_image("webp:50"))

    assert keys(tmp_path / "b") == ["a", "c"]
    assert (report.samples, report.failed, report.kept) == (3, 1, 0)
    assert [(finding.code, finding.key, finding.severity) for finding in report.findings] == [("WDS341", "b", "error")]
    assert convert_to(tmp_path / "b", source, image=parse_image("webp:50")).failed == 1


def test_report_lists_all_samples_and_files_that_were_left_out(tmp_path: Path) -> None:
    rows = "".join(f"{n}.jpg,{n}\n" for n in range(9))
    files = {f"{n}.jpg": an_image("JPEG") for n in (1, 3, 8, 10)}
    source = a_folder(tmp_path / "a\tb", {"labels.csv": f"image,label\n{rows}".encode(), **files})

    report = convert_to(tmp_path / "made", source, shard_samples=3, workers=2)

    table = [line.split("\t") for line in Path(report.left_out_list).read_text("utf-8").splitlines()]
    assert table[0] == ["code", "name", "reason"]
    assert [(code, name) for code, name, _ in table[1:]] == [
        *(("WDS231", f"row-{n:09}") for n in (0, 2, 4, 5, 6, 7)),
        ("WDS239", f"{tmp_path}/a\\tb/10.jpg"),
    ]
    assert "labels.csv:2, image: '0.jpg'" in table[1][2]
    assert convert_to(tmp_path / "made", source, shard_samples=3).left_out_list == report.left_out_list
    replaced = convert_to(tmp_path / "made", source, shard_samples=2, overwrite=True)
    assert replaced.left_out_list == report.left_out_list
    assert len(Path(replaced.left_out_list).read_text("utf-8").splitlines()) == len(table)
    assert convert_to(tmp_path / "all", some_shards(tmp_path / "s", 1, 2)).left_out_list == ""


def test_on_error_keep_copies_bad_sample(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"a.png": an_image("PNG"), "b.png": b"broken"}})

    report = convert_to(tmp_path / "b", source, image=parse_image("jpeg"), on_error="keep")

    assert sorted(content(tmp_path / "b")) == ["a.jpg", "b.png"]
    assert (report.failed, report.kept) == (0, 1)


def test_on_error_error_stops_conversion_at_bad_sample(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"b.png": b"broken"}})

    with pytest.raises(WdsctlError, match="cannot transcode the part png") as caught:
        convert_to(tmp_path / "b", source, image=parse_image("jpeg"), on_error="error")
    assert caught.value.where == "sample b"
    assert files(tmp_path / "b") == {}


def test_truncated_shard_yields_complete_samples(tmp_path: Path) -> None:
    complete = a_shard({f"{i}.txt": b"x" * 2000 for i in range(4)})
    source = a_dataset(tmp_path / "a", {"0.tar": complete[:7000], "1.tar": {"9.txt": b"9"}})

    report = convert_to(tmp_path / "b", source)

    assert keys(tmp_path / "b") == ["0", "1", "9"]
    assert [finding.code for finding in report.findings] == ["WDS102"]


def test_source_that_differs_from_catalog_is_refused(tmp_path: Path) -> None:
    source = a_prepared_dataset(tmp_path / "a", 2)
    some_shards(tmp_path / "a", 1, first=7)

    with pytest.raises(DatasetError, match=r"out of date: 1 new shard\n") as caught:
        convert_to(tmp_path / "b", source)
    assert caught.value.code == "WDS344"


def test_truncated_compressed_shard_is_reported(tmp_path: Path) -> None:
    convert_to(tmp_path / "gz", some_shards(tmp_path / "a", 1, 2000), compress="gz")
    path = tmp_path / "gz" / "shard-000000.tar.gz"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    report = convert_to(tmp_path / "b", tmp_path / "gz")

    assert [finding.code for finding in report.findings] == ["WDS102"]
    assert 0 < report.samples < 2000


def test_source_without_samples_is_refused(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {}})

    with pytest.raises(InputError) as caught:
        convert_to(tmp_path / "b", source)
    assert caught.value.code == "WDS003"


def test_apart_reports_damaged_json_as_failed_samples(tmp_path: Path) -> None:
    names = {"a.json": b'{"of": "x"}', "b.json": b'{"of": ', "c.json": b'{"of": "y"}', "d.json": b"\xff", "e.txt": b"e"}
    source = a_dataset(tmp_path / "a", {"0.tar": names, "1.tar": {"f.json": b"no"}})

    for dry_run in (True, False, False):  # the last run only reports the finished conversion
        report = convert_to(tmp_path / "b", source, apart="json:of", dry_run=dry_run)
        assert (report.samples, report.failed, report.apart) == (5, 3, 1)
        assert [(each.code, each.shard, each.key, each.count, each.severity) for each in report.findings] == [
            ("WDS144", "0.tar", "b", 2, "error"),
            ("WDS145", "0.tar", "d", 1, "error"),
        ]
    assert convert_exit_code(report) == 5
    assert keys(tmp_path / "b") == ["a", "c"]


@pytest.mark.parametrize("options", [{"on_error": "error"}, {"where": "key = 'b'"}])
def test_apart_raises_damaged_json_if_errors_stop_or_no_other_sample_is_left(
    tmp_path: Path, options: dict[str, str]
) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"a.json": b'{"of": "x"}', "b.json": b'{"of": '}})

    with pytest.raises(DatasetError, match="not valid JSON") as caught:
        convert_to(tmp_path / "b", source, apart="json:of", **options)
    assert (caught.value.code, caught.value.where) == ("WDS144", "sample b, 0.tar")
