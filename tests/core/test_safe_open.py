"""Files named by data are opened only beneath the folder that the user named."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from wdsctl.core import safe_open
from wdsctl.core.dataset.raw_folder_walk import RawFolderScan, walk_raw_folder
from wdsctl.core.errors import PermissionDenied, StorageError, UsageError
from wdsctl.core.progress import SILENT_PROGRESS
from wdsctl.core.safe_open import FolderOpener, allow_path, check_store, is_beneath, name_source, open_beneath
from wdsctl.core.storage import source_files


@pytest.fixture(autouse=True)
def _no_allowed_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(safe_open.ALLOW_PATH_VARIABLE, "")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A dataset with `in/a.txt`, and a folder beside it with a `secret`."""
    root, outside = tmp_path / "data", tmp_path / "outside"
    (root / "in").mkdir(parents=True)
    outside.mkdir()
    (root / "in" / "a.txt").write_text("inside")
    (outside / "secret").write_text("secret")
    return root, outside


def read_beneath(path: Path | str, root: Path) -> bytes:
    handle = open_beneath(str(path), (str(root),))
    try:
        return os.read(handle, 100)
    finally:
        os.close(handle)


def test_open_beneath_opens_file_inside(folders: tuple[Path, Path]) -> None:
    root, _ = folders
    assert read_beneath(root / "in" / "a.txt", root) == b"inside"


def test_links_that_stay_inside_are_followed(folders: tuple[Path, Path]) -> None:
    root, _ = folders
    (root / "to_file").symlink_to("in/a.txt")
    (root / "to_folder").symlink_to(root / "in")
    assert read_beneath(root / "to_file", root) == b"inside"
    assert read_beneath(root / "to_folder" / "a.txt", root) == b"inside"
    assert read_beneath(root / "in" / ".." / "in" / "a.txt", root) == b"inside"


@pytest.mark.parametrize("name", ["link", "folder/secret", "../outside/secret", "in/../../outside/secret"])
def test_paths_that_lead_outside_are_refused(folders: tuple[Path, Path], name: str) -> None:
    root, outside = folders
    (root / "link").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    with pytest.raises(PermissionDenied) as caught:
        read_beneath(root / name, root)
    assert caught.value.code == "WDS409"
    assert f"--allow-path {outside}" in caught.value.hint
    assert f"wdsctl.loader.allow_path('{outside}')" in caught.value.hint


def test_absolute_path_outside_is_refused(folders: tuple[Path, Path]) -> None:
    root, outside = folders
    with pytest.raises(PermissionDenied, match="leads out"):
        read_beneath(outside / "secret", root)


def test_allowed_path_is_opened(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    root, outside = folders
    (root / "link").symlink_to(outside / "secret")
    monkeypatch.setenv(safe_open.ALLOW_PATH_VARIABLE, "/nowhere")
    allow_path(str(outside))
    assert read_beneath(root / "link", root) == b"secret"
    assert os.environ[safe_open.ALLOW_PATH_VARIABLE] == f"/nowhere,{outside}"


def test_allow_path_refuses_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("nowhere", "file"):
        with pytest.raises(UsageError, match="folder"):
            allow_path(str(tmp_path / name))
    assert os.environ[safe_open.ALLOW_PATH_VARIABLE] == ""


def test_root_that_is_a_link_is_followed(folders: tuple[Path, Path], tmp_path: Path) -> None:
    root, _ = folders
    (tmp_path / "named").symlink_to(root)
    assert read_beneath(tmp_path / "named" / "in" / "a.txt", tmp_path / "named") == b"inside"


def test_sibling_folder_with_same_prefix_is_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    root, _ = folders
    (tmp_path / "data2").mkdir()
    (tmp_path / "data2" / "x").write_text("no")
    (root / "x").symlink_to(tmp_path / "data2" / "x")
    with pytest.raises(PermissionDenied):
        read_beneath(root / "x", root)


def test_non_regular_files_are_refused(folders: tuple[Path, Path]) -> None:
    root, _ = folders
    os.mkfifo(root / "fifo")
    with pytest.raises(StorageError, match="not a regular file"):
        read_beneath(root / "fifo", root)
    with pytest.raises((StorageError, OSError)):
        read_beneath(root / "in", root)


def test_circular_links_are_refused(folders: tuple[Path, Path]) -> None:
    root, _ = folders
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    with pytest.raises(OSError, match="symbolic links"):
        read_beneath(root / "one", root)


def test_swapping_folder_for_link_never_reads_outside(folders: tuple[Path, Path]) -> None:
    """While a thread swaps a folder for a link and back, none of 3000 tries reads the file outside."""
    root, outside = folders
    (outside / "a.txt").write_text("secret")
    seen = set()
    with swapping(root, outside):
        for _ in range(3000):
            with suppress(OSError):
                seen.add(read_beneath(root / "in" / "a.txt", root))
    assert seen <= {b"inside"}


@contextmanager
def swapping(root: Path, outside: Path) -> Iterator[None]:
    """A thread swaps the folder `in` for a link and back during the block."""
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(root / "in", root / "aside")
            os.symlink(outside, root / "in")
            os.unlink(root / "in")
            os.rename(root / "aside", root / "in")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_swapping_folder_for_link_never_lists_outside(folders: tuple[Path, Path]) -> None:
    root, outside = folders
    (outside / "b.txt").write_text("secret")
    name_source(str(root))
    seen = set[str]()
    with swapping(root, outside):
        for _ in range(800):
            with suppress(OSError), source_files.scan(str(root / "in")) as entries:
                seen |= {os.path.relpath(entry.path, root / "in") for entry in entries}
            seen |= {name for _, _, names in source_files.walk(str(root)) for name in names}
            raw = RawFolderScan()
            with suppress(OSError):
                walk_raw_folder(str(root), raw, SILENT_PROGRESS)
            seen |= {f"{sample.key.rpartition('/')[2]}.{part.name}" for sample in raw.samples for part in sample.parts}
    # A link that is gone when it is asked where it leads counts as a file: its own name, of the named folder.
    assert "a.txt" in seen
    assert seen <= {"a.txt", "in"}


def test_folder_opener_opens_files_inside_and_refuses_links_outside(folders: tuple[Path, Path]) -> None:
    root, outside = folders
    (root / "in" / "b.txt").symlink_to("a.txt")
    (root / "in" / "c.txt").symlink_to(outside / "secret")
    files = FolderOpener(str(root))
    for name in ("in/a.txt", "in/b.txt"):
        handle = files.open(f"{root}/{name}")
        assert os.read(handle, 100) == b"inside"
        os.close(handle)
    with pytest.raises(PermissionDenied):
        files.open(f"{root}/in/c.txt")
    files.close()


def test_root_is_beneath_itself(folders: tuple[Path, Path]) -> None:
    root, outside = folders
    (root / "up").symlink_to(root)
    assert is_beneath(str(root / "up"), (str(root),))
    assert not is_beneath(str(outside), (str(root),))


@pytest.mark.parametrize("store", ["media", "filesystem://media", "in/../media"])
def test_store_beneath_folder_of_referrer_is_accepted(folders: tuple[Path, Path], store: str) -> None:
    root, _ = folders
    scheme, slashes, name = store.rpartition("://")
    check_store(f"{scheme}{slashes}{root / name}", str(root), "blend.yaml:3")


@pytest.mark.parametrize("store", ["/etc", "filesystem:///etc", "s3://bucket/media", "filesystem+s3://bucket/media"])
def test_store_outside_is_refused_with_its_referrer(folders: tuple[Path, Path], store: str) -> None:
    root, _ = folders
    with pytest.raises(PermissionDenied) as caught:
        check_store(store, str(root), "blend.yaml:3")
    assert (caught.value.code, caught.value.where) == ("WDS409", "blend.yaml:3")


@pytest.mark.parametrize("store", ["filesystem+file:///etc", "filesystem+FILE:///etc", "file:///etc"])
def test_file_url_store_outside_is_refused_in_any_working_directory(
    folders: tuple[Path, Path], store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = folders
    monkeypatch.chdir(root)
    with pytest.raises(PermissionDenied, match="/etc"):
        check_store(store, str(root), "blend.yaml:3")


@pytest.mark.parametrize("rest", ["../other", "a/../../other", "%2e%2e/other", "x::file:///etc"])
def test_url_with_parent_steps_is_refused(rest: str) -> None:
    with pytest.raises(PermissionDenied):
        check_store(f"https://host/set/{rest}", "https://host/set", "blend.yaml:3")


def test_allow_path_allows_store_url(folders: tuple[Path, Path]) -> None:
    root, _ = folders
    allow_path("s3://bucket")
    check_store("s3://bucket/media", str(root), "blend.yaml:3")
    with pytest.raises(PermissionDenied):
        check_store("s3://bucket2/media", str(root), "blend.yaml:3")


def test_store_beneath_url_of_referrer_is_accepted() -> None:
    check_store("s3://bucket/set/media", "s3://bucket/set", "blend.yaml:3")
    with pytest.raises(PermissionDenied):
        check_store("s3://bucket/other", "s3://bucket/set", "blend.yaml:3")
