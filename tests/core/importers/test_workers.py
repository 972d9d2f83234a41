"""Imports by several workers: the same bytes for any number of workers, and failed rows are reported."""

from __future__ import annotations

from pathlib import Path

from tests.build import a_folder
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.importers.protocol import Options


def convert_to_bytes(source: str, dest: Path, workers: int, options: Options) -> dict[str, bytes]:
    convert([source], str(dest), ConvertRequest(shard_samples=7, workers=workers, format_options=dict(options)))
    return {path.name: path.read_bytes() for path in sorted(dest.glob("*.tar"))}


def test_convert_writes_same_bytes_for_any_number_of_workers(tmp_path: Path) -> None:
    rows = "".join(f'i/{i}.jpg,"caption\n{i}"\n' for i in range(60) if i != 33)
    files = {f"i/{i}.jpg": f"image {i}".encode() for i in range(60)}
    root = a_folder(tmp_path / "raw", {"t.csv": f"image,caption\n{rows}../x.jpg,outside\n".encode(), **files})

    one = convert_to_bytes(f"{root}/t.csv", tmp_path / "one", 1, {"text": "caption"})
    three = convert_to_bytes(f"{root}/t.csv", tmp_path / "three", 3, {"text": "caption"})

    assert len(one) == 9
    assert one == three


def test_convert_reports_failed_rows_with_codes(tmp_path: Path) -> None:
    root = a_folder(tmp_path / "raw", {"t.csv": b"image,n\n1.jpg,1\n2.jpg,2\n/3.jpg,3\n1.jpg\n", "1.jpg": b"x"})

    report = convert([f"{root}/t.csv"], str(tmp_path / "d"), ConvertRequest(workers=1))

    assert sorted(finding.code for finding in report.findings) == ["WDS230", "WDS231", "WDS232"]
