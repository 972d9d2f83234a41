"""Folders are opened for writing without following links, and an open folder stays the same one."""

from __future__ import annotations

import ast
import os
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests import sources
from wdsctl.core.directories import (
    is_private,
    join_beneath,
    keep_folder_open,
    open_folder,
    resolve_parent,
    user_cache_folder,
    user_data_folder,
)
from wdsctl.core.errors import InputError, PermissionDenied, StorageError

#: Functions that create, change or remove files by path. `open` is checked by its mode.
WRITES = {
    *(f"os.{name}" for name in ("unlink", "remove", "replace", "rename", "renames", "rmdir", "removedirs", "makedirs")),
    *(f"os.{name}" for name in ("mkdir", "utime", "symlink", "link", "chmod", "chown", "lchown", "truncate", "mkfifo")),
    *(f"shutil.{name}" for name in ("rmtree", "move", "copy", "copy2", "copyfile", "copytree")),
    *(f"tempfile.{name}" for name in ("mkstemp", "mkdtemp", "NamedTemporaryFile")),
}

#: Modules that may call them, and why. `directories.py` and `files.py` are the safe functions ("the door").
ALLOWED = {
    "core/directories.py": "the door",
    "core/files.py": "the door",
    "core/catalog/stage.py": "the header of a draft that it has just closed, without following a link",
    "core/inspect/get.py": "writes into a pipe or a device that the user named: nothing may take its place",
    "core/energon/migrate.py": "rewrites the programs that the user named, in place",
    "core/prepare/archives.py": "files of zips, into a folder that it has made; names are checked, and links refused",
    "core/prepare/preview.py": "a copy in a temporary folder of its own",
    **dict.fromkeys(
        [f"core/remote_catalogs/{name}.py" for name in ("mirror", "ranges", "store")],
        "the mirror of a published catalog: folders of wdsctl's own in the user's data folder",
    ),
    "core/storage/cache_layers.py": "locks and copies in the cache folder of fsspec, which the user names",
    "core/trace/read.py": "copies in a temporary folder of its own",
    "loader/energon/epathlib.py": "EPath: the user's own program copies and moves its own files",
    "loader/stores/disk_cache_folder.py": "the cache: folders of this user alone (0700), checked",
    "loader/stores/disk_cache.py": "files in the cache's own folder",
    "loader/stores/shard_cache.py": "a file in the cache's own folder",
    "loader/stores/shard_cache_folder.py": "the cache: folders of its own (0700); locks are opened without links",
    "loader/workers/spawn.py": "a descriptor that the parent has opened",
}

#: Modules that call `sqlite3.connect`, and for what.
CONNECTS = {
    "core/sqlite_file.py": "the door",
    "core/catalog/rows.py": "in memory",
    "core/export/energon.py": "Energon's index, a draft in a folder that is held",
    "core/views/sql_guard.py": "in memory",
    "core/views/where.py": "in memory",
    "core/compare/samples.py": "a nameless file of SQLite's own",
}


def _is_write(call: ast.Call, name: str) -> bool:
    if name in WRITES:
        return True
    if name in ("os.open", "open"):
        mode = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "mode")]
        text = ast.unparse(mode[0]) if mode else ""
        if name == "os.open":
            return any(flag in text for flag in ("O_WRONLY", "O_RDWR", "O_CREAT")) and "O_EXCL" not in text
        # Mode `x` follows no link at the end of a path and replaces nothing: it is for drafts in an open folder.
        is_new = "x" in text or ast.unparse(call.args[0]).startswith("create_in(")
        return any(letter in text for letter in "wa+") and not is_new
    return False


def test_only_allowed_modules_write_or_delete_by_path() -> None:
    found = {
        (module, name)
        for module, call, name in sources.calls("open(", *(f"{each}(" for each in WRITES))
        if _is_write(call, name) and "os.devnull" not in ast.unparse(call)
    }
    assert {(name, what) for name, what in found if name not in ALLOWED} == set()
    assert {name for name, _ in found} == set(ALLOWED)


def test_only_listed_modules_open_sqlite_files() -> None:
    found = {module for module, _, name in sources.calls("sqlite3.connect") if name == "sqlite3.connect"}
    assert found == set(CONNECTS)


def test_open_folder_refuses_links_in_path(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    for path in ("link", "link/deep", "link/new"):
        with pytest.raises(InputError) as caught, open_folder(str(tmp_path / path), create=True):
            pass
        assert (caught.value.code, caught.value.where) == ("WDS415", str(tmp_path / "link"))
    assert os.listdir(tmp_path / "real") == ["deep"]


def test_open_folder_creates_missing_folders_only_on_request(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, open_folder(str(tmp_path / "a" / "b")):
        pass
    assert caught.value.filename == str(tmp_path / "a")
    with open_folder(str(tmp_path / "a" / "b"), create=True) as folder:
        assert os.path.samestat(os.fstat(folder.descriptor), os.stat(tmp_path / "a" / "b"))
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError), open_folder(str(tmp_path / "file" / "b"), create=True):
        pass


def test_open_folder_detects_that_it_was_moved_or_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with open_folder(str(tmp_path / "a")) as folder:
        folder.check_in_place()
        Path(folder.path_of("x")).touch()
        os.rename(tmp_path / "a", tmp_path / "b")
        assert folder.lstat("x") is not None
        assert folder.lstat("y") is None
        with pytest.raises(StorageError, match="moved or replaced"):
            folder.check_in_place()
        (tmp_path / "a").symlink_to("b")
        with pytest.raises(StorageError, match="moved or replaced"):
            folder.check_in_place()


def test_resolve_parent_does_not_resolve_last_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "file").symlink_to("elsewhere")
    assert resolve_parent(str(tmp_path / "link" / "file")) == str(tmp_path / "real" / "file")


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x", "a\0b"])
def test_join_beneath_refuses_names_that_lead_outside(name: str) -> None:
    with pytest.raises(InputError, match="leads out"):
        join_beneath("/data", name)
    assert join_beneath("/data", "a", "", "b..c.tar") == "/data/a/b..c.tar"


@pytest.mark.parametrize("variable", ["XDG_DATA_HOME", "XDG_CACHE_HOME"])
def test_folders_of_user_are_private_with_any_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """They hold catalogs and joins that later commands of this user believe."""
    monkeypatch.setenv(variable, str(tmp_path / "home"))
    own = user_data_folder() if variable == "XDG_DATA_HOME" else user_cache_folder()
    umask = os.umask(0)
    try:
        with open_folder(f"{own}/mirror", create=True), open_folder(str(tmp_path / "wdsctl"), create=True):
            pass
    finally:
        os.umask(umask)
    assert os.stat(own).st_mode & 0o777 == 0o700
    assert os.stat(tmp_path / "wdsctl").st_mode & 0o777 == 0o777  # of a dataset: as the user's umask says
    assert is_private(own)
    Path(own).chmod(0o702)
    assert not is_private(own)


def test_held_folder_is_used_until_it_is_released(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    (folder / "c").mkdir(parents=True)
    with keep_folder_open(str(folder)):
        os.rename(folder, tmp_path / "moved")
        (folder / "c").mkdir(parents=True)
        with open_folder(str(folder)) as held, open_folder(str(folder / "c")) as inside:
            assert os.path.samestat(os.fstat(held.descriptor), os.stat(tmp_path / "moved"))
            assert os.path.samestat(os.fstat(inside.descriptor), os.stat(tmp_path / "moved" / "c"))
            with pytest.raises(StorageError, match="was moved or replaced"):
                held.check_in_place()
        with keep_folder_open(str(folder)), open_folder(str(folder)) as again:
            assert os.path.samestat(os.fstat(again.descriptor), os.stat(folder))
    with open_folder(str(folder)) as released:
        assert os.path.samestat(os.fstat(released.descriptor), os.stat(folder))


def test_link_inside_held_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "d" / "link").symlink_to(tmp_path / "theirs")
    with keep_folder_open(str(tmp_path / "d")), pytest.raises(InputError, match="contains a link"):  # noqa: SIM117
        with open_folder(str(tmp_path / "d" / "link")):
            pass


def test_folder_that_does_not_exist_is_not_held(tmp_path: Path) -> None:
    with keep_folder_open(str(tmp_path / "none")) as is_held:
        assert not is_held
        (tmp_path / "none").mkdir()
        with open_folder(str(tmp_path / "none")):
            pass


@pytest.mark.parametrize(
    ("mode", "owner", "parent_owner", "is_refused"),
    [(0o755, 0, 0, False), (0o777, 0, 0, True), (0o700, 7, 0, True), (0o700, 7, 7, False), (0o770, 0, 7, False)],
)
def test_data_folder_of_strangers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, parent_owner: int, is_refused: bool
) -> None:
    def facts(folder: str, uid: int) -> os.stat_result:
        found = list(os.stat(folder))
        found[stat.ST_MODE], found[stat.ST_UID] = stat.S_IFDIR | mode, uid
        return os.stat_result(found)

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder, above = facts(str(tmp_path), owner), facts(str(tmp_path), parent_owner)
    with monkeypatch.context() as patch:
        patch.setattr("os.lstat", lambda _path: folder)
        patch.setattr("os.stat", lambda _path: above)
        refusal = pytest.raises(PermissionDenied, match="other users can change") if is_refused else nullcontext()
        with refusal:
            user_data_folder()
