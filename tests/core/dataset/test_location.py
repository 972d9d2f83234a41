from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build import AsNobody
from wdsctl.core.dataset.location import CATALOG_VARIABLE, DatasetLocation, locate, shell_command_for_file
from wdsctl.core.errors import InputError, PermissionDenied


@pytest.fixture(autouse=True)
def _unset_catalog_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(CATALOG_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


def test_catalog_is_inside_dataset(tmp_path: Path) -> None:
    location = locate(str(tmp_path))

    assert location == DatasetLocation(str(tmp_path), str(tmp_path / ".wdsctl"))
    assert location.has_catalog_inside
    assert location.catalog_path == str(tmp_path / ".wdsctl" / "catalog.sqlite")
    assert location.offsets_path(3) == str(tmp_path / ".wdsctl" / "offsets-3.bin")


def test_argument_overrides_environment_and_environment_overrides_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CATALOG_VARIABLE, str(tmp_path / "by-environment"))

    assert os.path.dirname(locate(str(tmp_path)).meta) == str(tmp_path / "by-environment")
    assert locate(str(tmp_path), str(tmp_path / "by-caller")).meta == str(tmp_path / "by-caller")
    assert not locate(str(tmp_path)).has_catalog_inside


def test_tilde_and_relative_catalog_paths_are_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    assert locate(".", "~/mine").meta == str(tmp_path / "mine")
    assert locate(".", "here").meta == str(tmp_path / "here")


def test_locate_creates_nothing(tmp_path: Path) -> None:
    locate(str(tmp_path), writing=True)

    assert os.listdir(tmp_path) == []


def test_unwritable_root_has_catalog_in_user_data(public_path: Path, as_nobody: AsNobody) -> None:
    root = public_path / "data"
    root.mkdir(mode=0o755)
    writing, reading = as_nobody(lambda: (locate(str(root), writing=True), locate(str(root))))

    assert not writing.has_catalog_inside
    assert "/wdsctl/data-" in writing.meta
    assert reading.has_catalog_inside  # nothing was written, so the missing catalog is the one in the root


def test_catalog_in_user_data_is_read_before_later_one_in_root(
    public_path: Path, as_nobody: AsNobody, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(public_path / "home"))
    root = public_path / "data"
    root.mkdir(mode=0o755)
    before = as_nobody(lambda: locate(str(root)))
    elsewhere = as_nobody(lambda: locate(str(root), writing=True))
    (root / ".wdsctl").mkdir(mode=0o755)
    (root / ".wdsctl" / "catalog.sqlite").write_bytes(b"")
    os.makedirs(elsewhere.meta)
    Path(elsewhere.catalog_path).write_bytes(b"")

    assert before.has_catalog_inside
    assert as_nobody(lambda: locate(str(root))) == elsewhere


def test_roots_with_same_name_have_different_catalogs(public_path: Path, as_nobody: AsNobody) -> None:
    roots = [public_path / "a" / "data", public_path / "b" / "data"]
    for root in roots:
        root.mkdir(parents=True, mode=0o755)
    one, two = as_nobody(lambda: [locate(str(root), writing=True).meta for root in roots])

    assert one != two


def test_missing_root_file_and_unreadable_folder_are_refused(public_path: Path, as_nobody: AsNobody) -> None:
    (public_path / "file").write_bytes(b"")
    unreadable = public_path / "closed"
    unreadable.mkdir(mode=0o700)

    with pytest.raises(InputError, match="does not exist"):
        locate(str(public_path / "none"))
    with pytest.raises(InputError, match="is a file, not a folder"):
        locate(str(public_path / "file"))
    assert isinstance(as_nobody(lambda: locate(str(unreadable))), PermissionDenied)


@pytest.mark.parametrize(
    ("name", "advice"),
    [("captions.csv", "captions.csv DEST`"), ("blend.yaml", "a dataset that the blend file names")],
)
def test_error_about_file_suggests_command_that_makes_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, advice: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(b"a,b")

    with pytest.raises(InputError, match="is a file, not a folder") as caught:
        locate(name)
    assert advice in caught.value.hint


def test_catalog_variable_serves_several_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roots = [tmp_path / "a" / "data", tmp_path / "b" / "data"]
    for root in roots:
        root.mkdir(parents=True)
    monkeypatch.setenv(CATALOG_VARIABLE, str(tmp_path / "catalogs"))
    one, two = (locate(str(root), writing=True).meta for root in roots)

    assert one != two
    assert {os.path.dirname(one), os.path.dirname(two)} == {str(tmp_path / "catalogs")}
    assert os.path.basename(one).startswith("data-")


def test_unwritable_catalog_is_not_replaced_by_private_one(public_path: Path, as_nobody: AsNobody) -> None:
    root = public_path / "data"
    (root / ".wdsctl").mkdir(parents=True, mode=0o755)
    (root / ".wdsctl" / "catalog.sqlite").write_bytes(b"")
    error = as_nobody(lambda: locate(str(root), writing=True))

    assert isinstance(error, PermissionDenied)
    assert (error.code, "--catalog" in error.hint) == ("WDS402", True)
    assert as_nobody(lambda: locate(str(root), str(public_path / "mine"), writing=True)).meta == str(
        public_path / "mine"
    )


def test_root_with_path_that_is_not_utf_8_is_located(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = os.fsdecode(os.fsencode(tmp_path) + b"/d\xff")
    os.mkdir(root)
    monkeypatch.setenv(CATALOG_VARIABLE, str(tmp_path / "catalogs"))

    assert os.path.dirname(locate(root).meta) == str(tmp_path / "catalogs")


def test_url_has_catalog_in_store_and_local_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = locate("memory://ann:secret@bucket/shards/", writing=True)

    assert location.root == "memory://ann:secret@bucket/shards"
    assert location.display_path == "memory://bucket/shards"
    assert location.published_url == "memory://ann:secret@bucket/shards/.wdsctl"
    assert location.has_catalog_inside
    assert os.path.dirname(location.meta) == str(tmp_path / "home" / "wdsctl")
    assert not os.path.exists(location.meta)
    assert locate("memory://bucket/shards").meta == location.meta
    assert locate("memory://bucket/lines.jsonl").published_url == "memory://bucket/.wdsctl-lines.jsonl"


def test_explicit_catalog_and_catalog_of_single_tar_are_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explicit = locate("memory://bucket/shards", str(tmp_path / "mine"))
    assert (explicit.meta, explicit.published_url, explicit.has_catalog_inside) == (str(tmp_path / "mine"), "", False)
    assert locate("memory://bucket/shards/000.tar", writing=True).published_url == ""
    monkeypatch.setenv(CATALOG_VARIABLE, str(tmp_path / "shared"))
    shared = locate("memory://bucket/shards")
    assert (os.path.dirname(shared.meta), shared.published_url) == (str(tmp_path / "shared"), "")


@pytest.mark.parametrize("root", ["s3://", "zip::s3://bucket/shards", "https://host/shards?signature=abc"])
def test_invalid_dataset_urls_are_refused(root: str) -> None:
    with pytest.raises(InputError):
        locate(root)


def test_catalog_at_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="on a disk or a mounted file system"):
        locate(str(tmp_path), "s3://bucket/catalog")


def test_jsonl_file_has_catalog_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "qa.jsonl").write_bytes(b"")
    location = locate(str(tmp_path / "qa.jsonl"))

    assert location == DatasetLocation(str(tmp_path), str(tmp_path / ".wdsctl-qa.jsonl"), "qa.jsonl")
    assert location.has_catalog_inside
    assert location.path == location.display_path == str(tmp_path / "qa.jsonl")
    assert locate(location.path) == location


def test_jsonl_file_can_have_catalog_elsewhere(
    tmp_path: Path, public_path: Path, as_nobody: AsNobody, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = public_path / "qa.jsonl"
    path.write_bytes(b"")
    public_path.chmod(0o755)
    monkeypatch.setenv("XDG_DATA_HOME", str(public_path / "home"))
    location = as_nobody(lambda: locate(str(path), writing=True))
    assert location.meta.startswith(str(public_path / "home" / "wdsctl" / "qa.jsonl-"))
    assert not location.has_catalog_inside
    assert locate(str(path), str(tmp_path / "mine")).meta == str(tmp_path / "mine")
    monkeypatch.setenv(CATALOG_VARIABLE, str(tmp_path / "shared"))
    assert locate(str(path)).meta.startswith(str(tmp_path / "shared" / "qa.jsonl-"))


def test_jsonl_file_at_url_is_located_by_its_folder(tmp_path: Path) -> None:
    location = locate("s3://bucket/a/qa.jsonl", str(tmp_path))

    assert (location.root, location.single_file, location.display_path) == (
        "s3://bucket/a",
        "qa.jsonl",
        "s3://bucket/a/qa.jsonl",
    )


def test_missing_or_irregular_jsonl_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()

    with pytest.raises(InputError, match="does not exist"):
        locate(str(tmp_path / "none.jsonl"))
    with pytest.raises(InputError, match="not a regular file"):
        locate(str(tmp_path / "pipe.jsonl"))
    assert locate(str(tmp_path / "folder.jsonl")).single_file == ""


def test_shell_command_for_mirror_file_names_url(tmp_path: Path) -> None:
    from wdsctl.core.remote_catalogs.mirror import Mirror
    from wdsctl.core.remote_catalogs.pointer import new_pointer

    mirror = Mirror(str(tmp_path / "mirror"), "memory://ann:secret@bucket/shards/.wdsctl")
    mirror.write_record(new_pointer(1, 1, (), {}), "")

    path = str(tmp_path / "mirror" / "catalog.sqlite")
    assert shell_command_for_file(path, "index", "--rebuild") == "`wdsctl index memory://bucket/shards --rebuild`"
