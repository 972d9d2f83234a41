"""Where a dataset is: the root that holds its data, and the folder that holds what wdsctl knows of it."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b

from wdsctl.core.errors import InputError, PermissionDenied, UsageError
from wdsctl.core.files import no_file, remove_file
from wdsctl.core.folders import linked
from wdsctl.core.line_files import TAR, is_lines, parted, unpacker
from wdsctl.core.os_errors import translated
from wdsctl.core.repr_of import without_secrets
from wdsctl.core.tar import PACKED_HEAD, compression
from wdsctl.core.urls import identity, is_chained, is_url, plain, shown

#: Names a folder for the catalogs of a whole session, a subfolder a root; `--catalog` and `catalog=` win over it.
CATALOG_VARIABLE = "WDSCTL_CATALOG"
META = ".wdsctl"
LOCK = "lock"
ENERGON_META = ".nv-meta"  # what Energon leaves beside shards


@without_secrets
@dataclass(frozen=True, slots=True)
class Place:
    """`root` holds the shards and is never written to by anything but `prepare` from a raw folder; `meta` is ours.

    `root` is a path or a URL, `meta` always a path. `only`: the name of the one file in `root` that is the dataset,
    where it is one tar or file of lines and not a folder. `home`: the root with its links resolved, once, by `locate`.
    """

    root: str
    meta: str
    only: str = ""
    home: str = field(default="", compare=False, repr=False)

    @property
    def written(self) -> str:
        """The root for whoever writes into it: without links, the same as long as the place is used."""
        return self.home or os.path.realpath(self.root)

    @property
    def catalog(self) -> str:
        return os.path.join(self.meta, "catalog.sqlite")

    @property
    def ledger(self) -> str:
        return os.path.join(self.meta, "ledger.sqlite")

    @property
    def dataset_yaml(self) -> str:
        return os.path.join(self.meta, "dataset.yaml")

    @property
    def columns(self) -> str:
        return os.path.join(self.meta, "columns")

    @property
    def work(self) -> str:
        """Finished units of a run that may still be under way or be continued."""
        return os.path.join(self.meta, "work")

    @property
    def lock(self) -> str:
        return os.path.join(self.meta, LOCK)

    @property
    def path(self) -> str:
        """What is to be located to come here again: the root, or the one file in it."""
        return os.path.join(self.root, self.only) if self.only else self.root

    @property
    def shown(self) -> str:
        """The dataset as it may be printed and stored: a URL without user and password."""
        return shown(self.path)

    @property
    def is_passing(self) -> bool:
        """Whether it is one tar that nobody has prepared: readers keep a catalog of it among the user's data."""
        return self.only.lower().endswith(TAR) and self.meta == os.path.join(_user_data(), _name_of(self.path))

    @property
    def is_inside(self) -> bool:
        """Whether the catalog lies in the dataset itself, as it does unless that cannot be written."""
        return self.meta in (
            os.path.join(root, meta_of(self.only)) for root in (self.root, os.path.realpath(self.root))
        )

    def offsets(self, generation: int) -> str:
        return os.path.join(self.meta, f"offsets-{generation}.bin")


def meta_of(only: str = "") -> str:
    """The name of our folder in a dataset, or beside a dataset that is one file."""
    return f"{META}-{only}" if only else META


def forget_old(place: Place, name: str) -> None:
    """Remove the files `NAME-N.bin` of generations whose offsets file is gone."""
    for each in os.listdir(place.meta):
        match = re.fullmatch(rf"{name}-(\d+)\.bin", each)
        if match and not os.path.exists(place.offsets(int(match[1]))):
            remove_file(os.path.join(place.meta, each))


def locate(root: str, catalog: str | None = None, *, writing: bool = False, home: str = "") -> Place:
    """Find the catalog's folder: where the caller says, else the environment, else in the root, else the user's data.

    `catalog` is the folder itself; what the environment names has a subfolder for each root.
    A root that cannot be written gets its catalog under the user's data folder; the caller may tell by `is_inside`.
    Once there is one, it is also what this user reads, though others may have put one into the root.
    Raises InputError where there is no such root, PermissionDenied where it cannot be read; and, with `writing`, where
    it has a catalog that this user cannot write: one of their own would shadow it from then on.
    `home`: the root without links, where the caller has resolved it before. A folder of ours that is a link is refused,
    and so are links in it: InputError WDS415.
    A root that is a URL is not looked at, and has its catalog elsewhere, like one that cannot be written.
    A root may be one tar or file of lines, of which the same holds: its catalog lies beside it, named after it. A tar
    that has none there has one in the user's data folder, unless `writing`: it is mostly a shard of a dataset.
    """
    root = plain(root)
    if is_url(root):
        return _of_a_url(root, catalog)
    whole = os.path.abspath(root)
    if os.path.islink(whole) and os.path.isfile(whole):
        whole = os.path.realpath(whole)  # who names a link to one file names that file
    root, only = parted(whole) if not os.path.isdir(whole) else (whole, "")
    if only:
        _check_file(whole)
    _check_root(root)
    home = home or os.path.realpath(root)
    if catalog:
        return _checked(Place(root, _absolute(catalog), only, home))
    shared = os.environ.get(CATALOG_VARIABLE)
    if shared:
        return _checked(Place(root, os.path.join(_absolute(shared), _name_of(whole)), only, home))
    inside = Place(root, os.path.join(home, meta_of(only)), only, home)
    elsewhere = Place(root, os.path.join(_user_data(), _name_of(whole)), only, home)
    is_passing = only.lower().endswith(TAR) and not (writing or os.path.exists(inside.catalog))
    if not is_passing:
        _checked(inside)
    if not is_passing and os.access(inside.meta if os.path.isdir(inside.meta) else root, os.W_OK | os.X_OK):
        return inside
    if is_passing or os.path.exists(elsewhere.catalog):
        return elsewhere
    if writing and os.path.exists(inside.catalog):
        raise PermissionDenied(
            "the dataset has a catalog that you cannot write",
            where=inside.meta,
            hint="ask its owner, or make a catalog of your own: `--catalog DIR`",
        )
    return elsewhere if writing else inside


def _checked(place: Place) -> Place:
    """Raise InputError WDS415 where the folder of ours is a link, or one stands in it, WDS417 of pipes and devices.

    What is in it may come from anywhere, and would be read and written as if it were ours.
    """
    if os.path.islink(place.meta):
        raise linked(place.meta)
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError), os.scandir(place.meta) as entries:
        for entry in entries:
            if entry.name.startswith(LOCK):  # read by `wdsctl/core/lock.py` whatever it is, and in nobody's way
                continue
            if entry.is_symlink():
                raise linked(entry.path)
            if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                raise no_file(entry.path)
    return place


def _of_a_url(root: str, catalog: str | None) -> Place:
    if not root.partition("://")[2]:
        raise InputError("the URL names no folder", where=root, hint="such as s3://bucket/shards")
    if is_chained(root):
        raise InputError(
            "URLs of several layers are not understood", where=shown(root), hint="give the URL of the store itself"
        )
    if "?" in root:
        raise InputError(
            "URLs with a query are not understood: each file would need its own",
            where=shown(root),
            hint="give the URL without what follows the `?`, and the driver credentials",
        )
    whole = root
    root, only = parted(whole)
    if only:
        _check_packed(only, whole)
    if catalog:
        return _checked(Place(root, _absolute(catalog), only))
    shared = os.environ.get(CATALOG_VARIABLE)
    meta = os.path.join(_absolute(shared) if shared else _user_data(), _name_of(shown(whole), identity(whole)))
    return Place(root, meta, only)


def _check_file(path: str) -> None:
    if not os.path.exists(path):
        raise InputError("the dataset does not exist", where=path, hint="check the path")
    _check_packed(os.path.basename(path), path)
    if not os.path.isfile(path):
        raise InputError("the dataset is no regular file", where=path, hint="give a tar, a file of lines, or a folder")
    with translated(path, "read"), open(path, "rb") as file:
        packed = "" if is_lines(path) else compression(file.read(PACKED_HEAD))
    if packed:
        raise _packed(packed, path)


def _packed(kind: str, path: str) -> InputError:
    return InputError(
        f"the file is compressed with {kind}, and cannot be read at random places",
        where=path,
        hint=f"`wdsctl convert {shlex.quote(path)} DEST` unpacks it into shards",
        code="WDS113",
    )


def _check_packed(name: str, path: str) -> None:
    tool = unpacker(name)
    if tool:
        raise InputError(
            "compressed lines cannot be read at random places",
            where=shown(path),
            hint=f"unpack them: `{tool} {shlex.quote(shown(path))}`",
            code="WDS113",
        )


def _check_root(root: str) -> None:
    if not os.path.isdir(root):
        kind = "is a file, not a folder" if os.path.exists(root) else "does not exist"
        if os.path.isfile(root):
            with translated(root, "read"), open(root, "rb") as file:
                packed = compression(file.read(PACKED_HEAD))
            if packed:
                raise _packed(packed, root)
        whole, _, view = root.rpartition("@")
        if view and os.path.isdir(whole) and not os.path.lexists(root):
            raise UsageError(
                f"{view!r} would be a view, and this command takes whole datasets",
                where=root,
                hint=f"name the dataset alone, without @{view}; `wdsctl convert ROOT@VIEW DEST` makes one of a view",
            )
        raise InputError(
            f"the dataset {kind}", where=root, hint="give the folder that holds the shards, or one .tar or .jsonl file"
        )
    if not os.access(root, os.R_OK | os.X_OK):
        raise PermissionDenied("the dataset's folder cannot be read", where=root, hint="check its owner and its mode")


def _absolute(folder: str) -> str:
    folder = plain(folder)
    if is_url(folder):
        raise InputError(
            "a catalog lies on a disk or a mounted file system, not at a URL",
            where=shown(folder),
            hint="give a folder: `--catalog DIR`",
        )
    return os.path.realpath(os.path.expanduser(folder))


def _user_data() -> str:
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(os.path.realpath(data), "wdsctl")


def _name_of(root: str, told_apart_by: str = "") -> str:
    """A name for a root's folder among others: told apart by the whole path, whatever bytes it is made of."""
    whole = os.fsencode(told_apart_by or root)
    return f"{os.path.basename(root) or 'root'}-{blake2b(whole, digest_size=8).hexdigest()}"
