from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.build import AsNobody
from wdsctl.core.dataset.location import CATALOG_VARIABLE, DatasetLocation, locate, shell_command_for_file
from wdsctl.core.errors import InputError, PermissionDenied


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(CATALOG_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


def test_a_catalog_lies_in_the_dataset(tmp_path: Path) -> None:
    place = locate(str(tmp_path))

    assert place == DatasetLocation(str(tmp_path), str(tmp_path / ".wdsctl"))
    assert place.has_catalog_inside
    assert place.catalog == str(tmp_path / ".wdsctl" / "catalog.sqlite")
    assert place.offsets_path(3) == str(tmp_path / ".wdsctl" / "offsets-3.bin")


def test_the_caller_wins_over_the_environment_and_that_over_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CATALOG_VARIABLE, str(tmp_path / "by-environment"))

    assert os.path.dirname(locate(str(tmp_path)).meta) == str(tmp_path / "by-environment")
    assert locate(str(tmp_path), str(tmp_path / "by-caller")).meta == str(tmp_path / "by-caller")
    assert not locate(str(tmp_path)).has_catalog_inside


def test_a_tilde_and_a_relative_path_are_made_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    assert locate(".", "~/mine").meta == str(tmp_path / "mine")
    assert locate(".", "here").meta == str(tmp_path / "here")


def test_nothing_is_made(tmp_path: Path) -> None:
    locate(str(tmp_path), writing=True)

    assert os.listdir(tmp_path) == []


def test_a_root_that_cannot_be_written_has_its_catalog_in_the_users_data(
    public_path: Path, as_nobody: AsNobody
) -> None:
    root = public_path / "data"
    root.mkdir(mode=0o755)
    writing, reading = as_nobody(lambda: (locate(str(root), writing=True), locate(str(root))))

    assert not writing.has_catalog_inside
    assert "/wdsctl/data-" in writing.meta
    assert reading.has_catalog_inside  # nothing has been written: the catalog that is missing is the one in the root


def test_what_was_written_elsewhere_is_what_is_read(
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
    Path(elsewhere.catalog).write_bytes(b"")

    assert before.has_catalog_inside
    assert as_nobody(lambda: locate(str(root))) == elsewhere


def test_two_roots_of_one_name_have_two_places(public_path: Path, as_nobody: AsNobody) -> None:
    roots = [public_path / "a" / "data", public_path / "b" / "data"]
    for root in roots:
        root.mkdir(parents=True, mode=0o755)
    one, two = as_nobody(lambda: [locate(str(root), writing=True).meta for root in roots])

    assert one != two


def test_a_root_that_is_missing_a_file_or_closed_is_refused(public_path: Path, as_nobody: AsNobody) -> None:
    (public_path / "file").write_bytes(b"")
    closed = public_path / "closed"
    closed.mkdir(mode=0o700)

    with pytest.raises(InputError, match="does not exist"):
        locate(str(public_path / "none"))
    with pytest.raises(InputError, match="is a file, not a folder"):
        locate(str(public_path / "file"))
    assert isinstance(as_nobody(lambda: locate(str(closed))), PermissionDenied)


def test_the_environment_serves_several_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roots = [tmp_path / "a" / "data", tmp_path / "b" / "data"]
    for root in roots:
        root.mkdir(parents=True)
    monkeypatch.setenv(CATALOG_VARIABLE, str(tmp_path / "catalogs"))
    one, two = (locate(str(root), writing=True).meta for root in roots)

    assert one != two
    assert {os.path.dirname(one), os.path.dirname(two)} == {str(tmp_path / "catalogs")}
    assert os.path.basename(one).startswith("data-")


def test_a_catalog_that_cannot_be_written_is_not_shadowed_by_a_private_one(
    public_path: Path, as_nobody: AsNobody
) -> None:
    root = public_path / "data"
    (root / ".wdsctl").mkdir(parents=True, mode=0o755)
    (root / ".wdsctl" / "catalog.sqlite").write_bytes(b"")
    refused = as_nobody(lambda: locate(str(root), writing=True))

    assert isinstance(refused, PermissionDenied)
    assert (refused.code, "--catalog" in refused.hint) == ("WDS402", True)
    assert as_nobody(lambda: locate(str(root), str(public_path / "mine"), writing=True)).meta == str(
        public_path / "mine"
    )


def test_a_root_whose_path_is_not_utf8_has_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = os.fsdecode(os.fsencode(tmp_path) + b"/d\xff")
    os.mkdir(root)
    monkeypatch.setenv(CATALOG_VARIABLE, str(tmp_path / "catalogs"))

    assert os.path.dirname(locate(root).meta) == str(tmp_path / "catalogs")


def test_a_url_has_its_catalog_in_the_store_and_a_mirror_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = locate("memory://ann:secret@bucket/shards/", writing=True)

    assert place.root == "memory://ann:secret@bucket/shards"
    assert place.display_path == "memory://bucket/shards"
    assert place.published_url == "memory://ann:secret@bucket/shards/.wdsctl"
    assert place.has_catalog_inside
    assert os.path.dirname(place.meta) == str(tmp_path / "home" / "wdsctl")
    assert not os.path.exists(place.meta)
    assert locate("memory://bucket/shards").meta == place.meta
    assert locate("memory://bucket/lines.jsonl").published_url == "memory://bucket/.wdsctl-lines.jsonl"


def test_a_catalog_of_the_users_own_and_that_of_a_tar_are_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = locate("memory://bucket/shards", str(tmp_path / "mine"))
    assert (own.meta, own.published_url, own.has_catalog_inside) == (str(tmp_path / "mine"), "", False)
    assert locate("memory://bucket/shards/000.tar", writing=True).published_url == ""
    monkeypatch.setenv(CATALOG_VARIABLE, str(tmp_path / "shared"))
    shared = locate("memory://bucket/shards")
    assert (os.path.dirname(shared.meta), shared.published_url) == (str(tmp_path / "shared"), "")


@pytest.mark.parametrize("root", ["s3://", "zip::s3://bucket/shards", "https://host/shards?signature=abc"])
def test_a_url_without_a_folder_or_of_unknown_layers_or_a_signed_folder_is_refused(root: str) -> None:
    with pytest.raises(InputError):
        locate(root)


def test_a_catalog_at_a_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="on a disk or a mounted file system"):
        locate(str(tmp_path), "s3://bucket/catalog")


def test_a_file_of_lines_is_a_dataset_with_its_catalog_beside_it(tmp_path: Path) -> None:
    (tmp_path / "qa.jsonl").write_bytes(b"")
    place = locate(str(tmp_path / "qa.jsonl"))

    assert place == DatasetLocation(str(tmp_path), str(tmp_path / ".wdsctl-qa.jsonl"), "qa.jsonl")
    assert place.has_catalog_inside
    assert place.path == place.display_path == str(tmp_path / "qa.jsonl")
    assert locate(place.path) == place


def test_a_file_of_lines_has_its_catalog_elsewhere_as_a_folder_has(
    tmp_path: Path, public_path: Path, as_nobody: AsNobody, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = public_path / "qa.jsonl"
    path.write_bytes(b"")
    public_path.chmod(0o755)
    monkeypatch.setenv("XDG_DATA_HOME", str(public_path / "home"))
    place = as_nobody(lambda: locate(str(path), writing=True))
    assert place.meta.startswith(str(public_path / "home" / "wdsctl" / "qa.jsonl-"))
    assert not place.has_catalog_inside
    assert locate(str(path), str(tmp_path / "mine")).meta == str(tmp_path / "mine")
    monkeypatch.setenv(CATALOG_VARIABLE, str(tmp_path / "shared"))
    assert locate(str(path)).meta.startswith(str(tmp_path / "shared" / "qa.jsonl-"))


def test_a_file_of_lines_at_a_url_is_found_by_its_folder(tmp_path: Path) -> None:
    place = locate("s3://bucket/a/qa.jsonl", str(tmp_path))

    assert (place.root, place.single_file, place.display_path) == (
        "s3://bucket/a",
        "qa.jsonl",
        "s3://bucket/a/qa.jsonl",
    )


def test_a_file_of_lines_that_is_missing_or_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()

    with pytest.raises(InputError, match="does not exist"):
        locate(str(tmp_path / "none.jsonl"))
    with pytest.raises(InputError, match="not a regular file"):
        locate(str(tmp_path / "pipe.jsonl"))
    assert locate(str(tmp_path / "folder.jsonl")).single_file == ""


def test_a_hint_about_a_file_of_a_mirror_names_the_url(tmp_path: Path) -> None:
    from wdsctl.core.remote_catalogs.mirror import Mirror
    from wdsctl.core.remote_catalogs.pointer import new_pointer

    mirror = Mirror(str(tmp_path / "mirror"), "memory://ann:secret@bucket/shards/.wdsctl")
    mirror.write_record(new_pointer(1, 1, (), {}), "")

    path = str(tmp_path / "mirror" / "catalog.sqlite")
    assert shell_command_for_file(path, "index", "--rebuild") == "`wdsctl index memory://bucket/shards --rebuild`"
