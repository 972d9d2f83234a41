"""A refusal by a store ends a command with an error that names the cause, and changes nothing in the store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.build import some_shards
from tests.cli.conftest import one_processor
from tests.core.raw_folders import a_folder
from tests.full_disk import files_of_at_most
from tests.remote import read_objects, remove_retry_pauses, upload_shards
from tests.stores.proxy import Fault, FaultProxy
from tests.stores.servers import Store, forget_filesystems, in_use
from wdsctl.cli.main import main
from wdsctl.core.storage.objects import ObjectStore

__all__ = ["one_processor"]

pytestmark = pytest.mark.usefixtures("one_processor")


@pytest.fixture
def proxy(
    running_store: Callable[[str], Store], use_store: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[FaultProxy]:
    remove_retry_pauses(monkeypatch)
    use_store("moto")
    store = running_store("moto")
    with FaultProxy(store.endpoint) as fault_proxy, in_use(store.through(fault_proxy.url)):
        yield fault_proxy


@pytest.fixture
def url(proxy: FaultProxy, tmp_path: Path) -> str:
    return upload_shards(some_shards(tmp_path / "local", 3), f"s3://bucket/{tmp_path.name}/shards")


def error_body(code: str, message: str) -> str:
    return f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"


def write_faults() -> list[Fault]:
    denied = error_body("AccessDenied", "Access Denied")
    return [Fault(method=method, status=403, body=denied) for method in ("PUT", "POST", "DELETE")]


@pytest.mark.parametrize(
    ("fault", "code", "hint"),
    [
        pytest.param(
            Fault(status=403, body=error_body("InvalidAccessKeyId", "The key does not exist")),
            "WDS402",
            "AWS_PROFILE",
            id="a wrong key",
        ),
        pytest.param(
            Fault(status=400, body=error_body("AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong")),
            "WDS408",
            "AWS_DEFAULT_REGION",
            id="a wrong region",
        ),
        pytest.param(
            Fault(status=404, body=error_body("NoSuchBucket", "The bucket does not exist")),
            "WDS002",
            "no such bucket",
            id="no such bucket",
        ),
        pytest.param(
            Fault(status=403, body=error_body("RequestTimeTooSkewed", "The difference between the times is too large")),
            "WDS402",
            "set the clock of this machine",
            id="a clock that is off",
        ),
    ],
)
@pytest.mark.parametrize("command", ["index", "prepare", "inspect", "convert"])
def test_refusal_of_store_is_reported_with_code_and_hint(
    proxy: FaultProxy,
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    fault: Fault,
    code: str,
    hint: str,
) -> None:
    raw = str(a_folder(tmp_path / "raw", 4))
    arguments = {
        "index": ["index", url],
        "prepare": ["prepare", raw, f"{url}-new", "--yes"],
        "inspect": ["inspect", url],
        "convert": ["convert", str(tmp_path / "local"), f"{url}-new"],
    }[command]
    proxy.set_faults(fault)

    status = main(arguments)

    errors = capsys.readouterr().err
    assert status != 0
    assert code in errors, errors
    assert hint in errors, errors
    proxy.set_faults()
    assert len(read_objects(url)) == 3
    assert read_objects(f"{url}-new") == {}


def test_store_refuses_signature_with_wrong_time(
    use_store: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = upload_shards(some_shards(tmp_path / "local", 1), use_store("rclone"))
    now = datetime.now(timezone.utc)
    past = (now - timedelta(hours=2)).replace(tzinfo=None)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda **_: past)
    forget_filesystems()

    assert main(["index", url]) != 0
    assert "WDS402" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["prepare", "convert", "repair"])
def test_writing_to_read_only_bucket_reports_missing_permission(
    proxy: FaultProxy, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    arguments = {
        "prepare": ["prepare", str(a_folder(tmp_path / "raw", 4)), f"{url}-new", "--yes"],
        "convert": ["convert", str(tmp_path / "local"), f"{url}-new"],
        "repair": ["repair", str(tmp_path / "local"), f"{url}-new", "--all"],
    }[command]
    proxy.set_faults(*write_faults())

    assert main(arguments) != 0

    errors = capsys.readouterr().err
    assert "WDS402" in errors, errors
    assert "allow these credentials to write" in errors
    proxy.set_faults()
    assert read_objects(f"{url}-new") == {}


def test_index_of_read_only_dataset_keeps_catalog_local(
    proxy: FaultProxy, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy.set_faults(*write_faults())

    assert main(["index", url]) == 0
    errors = capsys.readouterr().err
    assert main(["inspect", url, "--json"]) == 0

    assert "only on this machine" in errors
    assert json.loads(capsys.readouterr().out)["samples"] == 15
    proxy.set_faults()
    assert ObjectStore(url).stat(f"{url}/.wdsctl/current.json") is None


def test_full_local_disk_fails_without_affecting_other_machines(
    proxy: FaultProxy, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["index", url]) == 0
    before = ObjectStore(url).get(f"{url}/.wdsctl/current.json")
    for command in (["inspect", url], ["split", url, "2,1"]):
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / f"full-{command[0]}"))
        capsys.readouterr()
        with files_of_at_most(8 << 10):
            assert main(command) != 0
        assert "WDS4" in capsys.readouterr().err
        assert ObjectStore(url).get(f"{url}/.wdsctl/current.json") == before

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "other"))
    assert main(["split", url, "2,1"]) == 0


@pytest.mark.parametrize("command", ["inspect", "index", "split", "validate"])
def test_catalog_of_newer_wdsctl_version_is_refused_and_unchanged(
    proxy: FaultProxy, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    other = upload_shards(str(tmp_path / "local"), f"s3://bucket/{tmp_path.name}/others")
    for each in (url, other):
        assert main(["index", each]) == 0
    store, pointer = ObjectStore(other), f"{other}/.wdsctl/current.json"
    document = json.loads(store.get(pointer)[0])
    document |= {"wdsctl": "99.0.0", "schemas": dict.fromkeys(document["schemas"], 99)}
    store.put(pointer, json.dumps(document).encode())
    before = {each.url: each.tag for each in store.list(other)}
    capsys.readouterr()
    shares = ["2,1"] if command == "split" else []

    assert main([command, other, *shares]) != 0

    errors = capsys.readouterr().err
    assert "WDS303" in errors, errors
    assert "99.0.0" in errors, errors
    assert {each.url: each.tag for each in store.list(other)} == before
    assert main([command, url, *shares]) == 0
