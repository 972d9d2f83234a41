from __future__ import annotations

import getpass
import json
import platform
import sqlite3
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

import pytest

from tests.build import an_image
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import InputError
from wdsctl.core.extras import EXTRA_OF_PACKAGE
from wdsctl.core.inspect import doctor as doctor_module
from wdsctl.core.inspect.doctor import doctor, find_mount_type
from wdsctl.core.storage.remote_errors import RetryPolicy
from wdsctl.core.version import VERSION

MOUNTS = """\
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:40 / /data rw - nfs4 fileserver.example:/export/someone rw,addr=10.0.0.1
31 30 0:41 / /data/my\\040sets rw - xfs /dev/sdb rw
32 22 0:42 / /data-old ro - squashfs /dev/loop0 ro
33 30 0:43 / /data/my\\040sets rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/x", "ext4"),
        ("/data", "nfs4"),
        ("/data/a/b", "nfs4"),
        ("/data-old/a", "squashfs"),
        ("/data/my sets/a", "tmpfs"),
        ("/data/my setsx", "nfs4"),
    ],
)
def test_find_mount_type_uses_innermost_and_latest_mount(path: str, expected: str) -> None:
    assert find_mount_type(MOUNTS, path) == expected


def test_find_mount_type_without_mounts_is_empty() -> None:
    assert find_mount_type("", "/data") == ""


def test_doctor_reports_versions_of_this_process() -> None:
    report = doctor()
    assert report.wdsctl == VERSION
    assert report.dataset is None
    assert report.system.sqlite == sqlite3.sqlite_version
    assert platform.python_version() in report.system.python
    assert report.system.start_methods[0] in ("fork", "spawn", "forkserver")
    packages = {each.name: each for each in report.packages}
    assert packages["numpy"].version == metadata.version("numpy")
    assert packages["numpy"].install == ""


def test_doctor_reports_install_command_of_absent_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRA_OF_PACKAGE, "no-such-package", "loader")
    (absent,) = [each for each in doctor().packages if each.name == "no-such-package"]
    assert (absent.version, absent.install) == ("", "pip install 'wdsctl[loader]'")


def test_doctor_describes_file_system_and_catalog_of_dataset(tmp_path: Path) -> None:
    from wdsctl.api import prepare

    root = tmp_path / "a secret name"
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_text("text")
    prepare(tmp_path / "raw", root)

    dataset = doctor(str(root)).dataset
    assert dataset is not None
    assert (dataset.form, dataset.catalog_place, dataset.catalog_error) == ("folder", "dataset", "")
    assert (dataset.shards, dataset.samples, dataset.generation, dataset.schema_version) == (1, 1, 1, 1)
    assert dataset.file_system is not None
    assert dataset.file_system.type == doctor_module.file_system_facts(str(tmp_path)).type != ""
    assert dataset.file_system.size_bytes >= dataset.file_system.free_bytes > 0


def test_doctor_describes_both_datasets_of_polylithic_folder(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for level in (0, 1):
        (tmp_path / "raw" / f"{level}.png").write_bytes(an_image("png", compress_level=level))
    (tmp_path / "raw" / "t.csv").write_text("id,image,caption\na,0.png,x\nb,0.png,y\nc,1.png,z\n")
    request = ConvertRequest(layout="polylithic", format_options={"key": "id"})
    convert([str(tmp_path / "raw" / "t.csv")], str(tmp_path / "both"), request)

    report = doctor(str(tmp_path / "both"))
    assert report.dataset is not None
    assert report.media is not None
    assert (report.dataset.form, report.dataset.catalog_error, report.dataset.samples) == ("folder", "", 3)
    assert (report.media.form, report.media.catalog_error, report.media.samples) == ("folder", "", 2)


def test_doctor_report_has_no_path_user_or_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setattr(RetryPolicy, "pause_before", lambda *_: 0.0)
    root = tmp_path / "confidential"
    root.mkdir()
    (root / "a.jsonl").write_text("{}\n")
    text = json.dumps([asdict(doctor(str(root))), asdict(doctor("http://user:hunter2@127.0.0.1:9/confidential"))])
    secrets = ("confidential", str(tmp_path), "hunter2", "127.0.0.1", platform.node(), str(Path.home()))
    assert [each for each in secrets if each in text] == []
    assert f'"{getpass.getuser()}"' not in text


def test_doctor_of_url_has_no_file_system() -> None:
    dataset = doctor("memory://bucket/path").dataset
    assert dataset is not None
    assert (dataset.form, dataset.file_system, dataset.catalog_error) == ("memory", None, "WDS301")


def test_doctor_reports_code_of_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetryPolicy, "pause_before", lambda *_: 0.0)
    dataset = doctor("http://127.0.0.1:9/path").dataset
    assert dataset is not None
    assert (dataset.form, dataset.file_system, dataset.catalog_error) == ("http", None, "WDS408")


def test_doctor_reports_code_of_damaged_catalog(tmp_path: Path) -> None:
    (tmp_path / ".wdsctl").mkdir()
    (tmp_path / ".wdsctl" / "catalog.sqlite").write_bytes(b"no database" * 100)
    dataset = doctor(str(tmp_path)).dataset
    assert dataset is not None
    assert (dataset.catalog_error, dataset.samples) == ("WDS302", None)


def test_doctor_of_missing_dataset_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        doctor(str(tmp_path / "none"))
