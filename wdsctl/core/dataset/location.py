"""Locate datasets: the root with the data, and the `.wdsctl` folder with the catalog. `view_root` reads `ROOT@NAME`.

Also builds the commands that hints name, complete and quoted, so that users can copy and run them.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from wdsctl.core.dataset.shard_names import TAR_SUFFIX, is_jsonl_name, split_file_root, unpack_command
from wdsctl.core.directories import link_error, user_data_folder
from wdsctl.core.errors import InputError, PermissionDenied, UsageError, translate_os_errors
from wdsctl.core.files import not_regular_error, remove_file
from wdsctl.core.progress import Progress
from wdsctl.core.safe_open import open_named
from wdsctl.core.tar_header import COMPRESSION_HEAD_BYTES, detect_compression
from wdsctl.core.text import quote_ansi_c
from wdsctl.core.urls import (
    CACHE_LAYERS,
    cache_layer,
    hide_query,
    is_chained,
    is_signature,
    is_signed,
    is_url,
    normalize_root,
    protocol,
    redact_repr,
    redact_secrets,
    store_url,
    url_identity,
)

#: Environment variable: a folder for catalogs, with a subfolder for each root. `--catalog` and `catalog=` override it.
CATALOG_VARIABLE = "WDSCTL_CATALOG"
META_FOLDER = ".wdsctl"
LOCK_FILE = "lock"
CONVERSION_FOLDER, PLAN_FILE, FINISHED_FILE = "convert", "plan.sqlite", "finished.json"  # of `convert`
WRITER_FOLDER, UNFINISHED_FILE = "writer", "unfinished"  # of `wdsctl.Writer`
ENERGON_META_FOLDER = ".nv-meta"  # Energon's metadata beside shards
ENERGON_INFO_FILES = (".info.json", ".info.yaml")  # in that folder, if its shards were prepared


@redact_repr
@dataclass(frozen=True, slots=True)
class DatasetLocation:
    """The location of a dataset.

    `root`: the folder of the shards, a path or URL; only `prepare` of a raw folder writes to it. `meta`: wdsctl's
    folder, a path. `single_file`: the name of the file in `root` that is the dataset, if it is one tar or JSONL file.
    `real_root`: the root with links resolved. `published_url`: where the catalog is published, with `meta` as its
    mirror (`wdsctl.core.remote_catalogs`); empty for local datasets, and for a catalog in a folder that the user named.
    """

    root: str
    meta: str
    single_file: str = ""
    real_root: str = field(default="", compare=False, repr=False)
    published_url: str = field(default="", compare=False, repr=False)

    @property
    def root_to_write(self) -> str:
        """The root for writing: without links, so that it stays the same while in use."""
        return self.real_root or (self.root if is_url(self.root) else os.path.realpath(self.root))

    @property
    def catalog_path(self) -> str:
        return os.path.join(self.meta, "catalog.sqlite")

    @property
    def ledger_path(self) -> str:
        return os.path.join(self.meta, "ledger.sqlite")

    @property
    def config_path(self) -> str:
        return os.path.join(self.meta, "dataset.yaml")

    @property
    def columns_folder(self) -> str:
        return os.path.join(self.meta, "columns")

    @property
    def work_folder(self) -> str:
        """The folder for finished units of a run that is active or can be resumed."""
        return os.path.join(self.meta, "work")

    @property
    def media_work_folder(self) -> str:
        """The folder for finished units of media facts."""
        return os.path.join(self.meta, "media")

    @property
    def upload_journal(self) -> str:
        """The folder that remembers the unfinished uploads of this machine (`wdsctl.core.storage.upload_journal`)."""
        return os.path.join(self.meta, "uploads")

    @property
    def lock(self) -> str:
        return os.path.join(self.meta, LOCK_FILE)

    @property
    def path(self) -> str:
        """The path that `locate` takes: the root, or the file in it."""
        return os.path.join(self.root, self.single_file) if self.single_file else self.root

    @property
    def display_path(self) -> str:
        """The dataset for messages and records: a URL has no user and password."""
        return redact_secrets(self.path)

    @property
    def is_unprepared_tar(self) -> bool:
        """Whether the dataset is one tar without a catalog beside it: its catalog is in the user's data folder."""
        return self.single_file.lower().endswith(TAR_SUFFIX) and self.meta == os.path.join(
            user_data_folder(), _catalog_folder_name(self.path)
        )

    @property
    def has_catalog_inside(self) -> bool:
        """Whether the catalog is in the dataset's folder or published beside its shards, not elsewhere."""
        return bool(self.published_url) or self.meta in (
            os.path.join(root, meta_folder_name(self.single_file)) for root in (self.root, os.path.realpath(self.root))
        )

    @property
    def own_catalog(self) -> str:
        """The folder of the catalog, to locate the dataset again; empty if the catalog is published."""
        return "" if self.published_url else self.meta

    def offsets_path(self, generation: int) -> str:
        return os.path.join(self.meta, f"offsets-{generation}.bin")


def meta_folder_name(single_file: str = "") -> str:
    """The name of wdsctl's folder in a dataset, or beside a dataset that is one file."""
    return f"{META_FOLDER}-{single_file}" if single_file else META_FOLDER


def remove_stale_generations(location: DatasetLocation, name: str) -> None:
    """Remove the files `NAME-N.bin` of generations that have no offsets file any more."""
    for each in os.listdir(location.meta):
        match = re.fullmatch(rf"{name}-(\d+)\.bin", each)
        if match and not os.path.exists(location.offsets_path(int(match[1]))):
            remove_file(os.path.join(location.meta, each))


def locate(root: str, catalog: str | None = None, *, writing: bool = False, real_root: str = "") -> DatasetLocation:
    """Locate a dataset and the folder of its catalog.

    The folder is the first of: `catalog`; a subfolder of `WDSCTL_CATALOG`; `.wdsctl` in the root; a subfolder of the
    user's data folder. The last one is for roots that this user cannot write to; if such a root has a catalog in both
    folders, the user's own catalog takes precedence.

    For a URL, the subfolder of the user's data folder is the mirror of the catalog in `URL/.wdsctl`, as it was when a
    process last fetched it: `open_dataset` (`wdsctl.core.opened.opening`) brings it up to date.

    The root may be one tar or JSONL file: its catalog is beside it, named after it. For a tar without such a catalog,
    the catalog is in the user's data folder unless `writing`, since the tar is probably a shard of a dataset.

    `real_root`: the root without links, if the caller has resolved it. Raises InputError if the root does not exist,
    and PermissionDenied if it cannot be read. With `writing`, raises PermissionDenied if this user cannot write the
    existing catalog, which a catalog of the user's own would hide. Raises InputError WDS415 if `.wdsctl` is a link or
    contains links.
    """
    root = normalize_root(root)
    if is_url(root):
        return _locate_url(root, catalog)
    path = os.path.abspath(root)
    if os.path.islink(path) and os.path.isfile(path):
        path = os.path.realpath(path)  # a link to a file means that file
    root, single_file = split_file_root(path) if not os.path.isdir(path) else (path, "")
    if single_file:
        _check_file(path)
    _check_root(root)
    real_root = real_root or os.path.realpath(root)
    if catalog:
        return _check_meta_folder(DatasetLocation(root, _resolve_catalog_folder(catalog), single_file, real_root))
    shared = os.environ.get(CATALOG_VARIABLE)
    if shared:
        return _check_meta_folder(
            DatasetLocation(
                root, os.path.join(_resolve_catalog_folder(shared), _catalog_folder_name(path)), single_file, real_root
            )
        )
    inside = DatasetLocation(root, os.path.join(real_root, meta_folder_name(single_file)), single_file, real_root)
    is_lone_tar = single_file.lower().endswith(TAR_SUFFIX) and not (writing or os.path.exists(inside.catalog_path))
    if not is_lone_tar:
        _check_meta_folder(inside)
    if not is_lone_tar and os.access(inside.meta if os.path.isdir(inside.meta) else root, os.W_OK | os.X_OK):
        return inside
    own = DatasetLocation(root, os.path.join(user_data_folder(), _catalog_folder_name(path)), single_file, real_root)
    if is_lone_tar or os.path.exists(own.catalog_path):
        return own
    if writing and os.path.exists(inside.catalog_path):
        raise PermissionDenied(
            "no permission to write the dataset's catalog",
            where=inside.meta,
            hint="ask the owner for write permission, or create another catalog with `--catalog DIR`",
        )
    return own if writing else inside


def _check_meta_folder(location: DatasetLocation) -> DatasetLocation:
    """Raise InputError WDS415 if wdsctl's folder is or contains a link, WDS417 for pipes and devices in it.

    The folder may come with a dataset from any source, and wdsctl reads and writes in it.
    """
    if os.path.islink(location.meta):
        raise link_error(location.meta)
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError), os.scandir(location.meta) as entries:
        for entry in entries:
            if entry.name.startswith(LOCK_FILE):  # wdsctl/core/dataset/lock.py accepts anything at this path
                continue
            if entry.is_symlink():
                raise link_error(entry.path)
            if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)):
                raise not_regular_error(entry.path)
    return location


def _locate_url(root: str, catalog: str | None) -> DatasetLocation:
    if not root.partition("://")[2]:
        raise InputError(
            "the URL has no folder", where=root, hint="write a URL with a folder, for example s3://bucket/shards"
        )
    url = _check_layers(root)
    root, single_file = split_file_root(url)
    if single_file:
        _check_compressed_name(single_file, url)
    if catalog:
        return _check_meta_folder(DatasetLocation(root, _resolve_catalog_folder(catalog), single_file))
    shared = os.environ.get(CATALOG_VARIABLE)
    name = _catalog_folder_name(redact_secrets(url), url_identity(store_url(url)))
    if shared:
        return _check_meta_folder(
            DatasetLocation(root, os.path.join(_resolve_catalog_folder(shared), name), single_file)
        )
    meta = os.path.join(user_data_folder(), name)
    # A tar is probably a shard of a dataset, which is not to get a second catalog. A signature is that of one object.
    if single_file.lower().endswith(TAR_SUFFIX) or is_signed(root):
        return DatasetLocation(root, meta, single_file)
    published_url = f"{store_url(root)}/{meta_folder_name(single_file)}"
    return _check_meta_folder(DatasetLocation(root, meta, single_file, published_url=published_url))


def _check_layers(root: str) -> str:
    """Return the URL of a dataset, with its signature hidden. Raises InputError for chains other than caches, and for
    queries other than the signature of one file."""
    if is_chained(root) and not cache_layer(root):
        raise InputError(
            "the chained URL is not supported: wdsctl reads through one cache of fsspec only "
            f"({', '.join(CACHE_LAYERS)})",
            where=redact_secrets(root),
            hint="pass the URL of the store itself",
        )
    plain, mark, query = root.partition("?")
    if not mark:
        return root
    if (
        protocol(root) not in ("http", "https")
        or cache_layer(root)
        or "@" in plain.partition("://")[2].partition("/")[0]
    ):
        raise InputError(
            "only http:// and https:// URLs without cache and user may have a query",
            where=redact_secrets(root),
            hint="remove the part after `?`, and configure credentials for the driver",
        )
    if not split_file_root(plain)[1]:
        raise InputError(
            "a signed URL must name one file, because each file has its own signature",
            where=redact_secrets(root),
            hint="pass the signed URL of one .tar or .jsonl file, or the folder with credentials for the driver",
        )
    if not is_signature(query):
        raise InputError(
            "the query of the URL is not only a signature: it may select which file the server sends",
            where=redact_secrets(root),
            hint="pass a URL that names the file without other parameters; copy another version of an object",
        )
    return hide_query(root)


def _check_file(path: str) -> None:
    if not os.path.exists(path):
        raise InputError("the dataset does not exist", where=path, hint="check the path")
    _check_compressed_name(os.path.basename(path), path)
    if not os.path.isfile(path):
        raise InputError(
            "the dataset is not a regular file", where=path, hint="pass a .tar file, a .jsonl file or a folder"
        )
    with translate_os_errors(path, "read"), open_named(path) as file:
        compression = "" if is_jsonl_name(path) else detect_compression(file.read(COMPRESSION_HEAD_BYTES))
    if compression:
        raise _compressed_error(compression, path)


def _compressed_error(kind: str, path: str) -> InputError:
    return InputError(
        f"the file is compressed with {kind}, so it has no random access",
        where=path,
        hint=f"run `wdsctl convert {shlex.quote(path)} DEST` to decompress it into shards",
        code="WDS113",
    )


def _check_compressed_name(name: str, path: str) -> None:
    tool = unpack_command(name)
    if tool:
        quoted = shlex.quote(redact_secrets(path))
        raise InputError(
            "compressed JSONL has no random access",
            where=redact_secrets(path),
            hint=f"`wdsctl prepare {quoted} DEST` writes its lines into shards; `{tool} {quoted}` decompresses it",
            code="WDS113",
        )


def _check_root(root: str) -> None:
    if not os.path.isdir(root):
        kind = "is a file, not a folder" if os.path.exists(root) else "does not exist"
        if os.path.isfile(root):
            with translate_os_errors(root, "read"), open_named(root) as file:
                compression = detect_compression(file.read(COMPRESSION_HEAD_BYTES))
            if compression:
                raise _compressed_error(compression, root)
        dataset, _, view = root.rpartition("@")
        if view and os.path.isdir(dataset) and not os.path.lexists(root):
            raise UsageError(
                f"the command works on whole datasets only, not on the view {view!r}",
                where=root,
                hint=f"remove @{view}; or write the view to a dataset first: `wdsctl convert ROOT@VIEW DEST`",
            )
        hint = "pass the folder of the shards, or one .tar or .jsonl file"
        if os.path.isfile(root) and root.lower().endswith((".yaml", ".yml")):
            hint = "the command works on one dataset: pass the path of a dataset that the blend file names"
        elif os.path.isfile(root):
            hint = f"make a dataset of the file: {shell_command('prepare', redact_secrets(root), 'DEST')}"
        raise InputError(f"the dataset {kind}", where=root, hint=hint)
    if not os.access(root, os.R_OK | os.X_OK):
        raise PermissionDenied(
            "no permission to read the dataset's folder", where=root, hint="check the owner and the mode of the folder"
        )


def _resolve_catalog_folder(folder: str) -> str:
    folder = normalize_root(folder)
    if is_url(folder):
        raise InputError(
            "the catalog folder is a URL, expected a folder on a disk or a mounted file system",
            where=redact_secrets(folder),
            hint="pass a folder: `--catalog DIR`",
        )
    return os.path.realpath(os.path.expanduser(folder))


def _catalog_folder_name(root: str, identity: str = "") -> str:
    """Return a unique name for the catalog's folder of a root: its base name and a hash.

    The hash is that of `identity`, or of the path.
    """
    from hashlib import blake2b  # loads OpenSSL, and most catalogs are inside their root

    digest = blake2b(os.fsencode(identity or root), digest_size=8).hexdigest()
    return f"{os.path.basename(root) or 'root'}-{digest}"


def data_folders(location: DatasetLocation) -> tuple[str, ...]:
    """Return the local folders of a dataset: its root, unless that is a file or URL, and the catalog's folder."""
    return (location.meta,) if location.single_file or is_url(location.root) else (location.root, location.meta)


UNKNOWN_DATASET = "DATASET"


def shell_command(verb: str, *arguments: str, operands: Sequence[str] = ()) -> str:
    """Return `wdsctl validate 'my data'` in backticks. A verb may have two words, such as `view show`.

    `operands`: arguments that data names, such as keys. They come last, and after `--` if one begins with a dash.
    """
    end_of_options = ["--"] if any(each.startswith("-") for each in operands) else []
    words = map(quote_shell_word, [*arguments, *end_of_options, *operands])
    return f"`{' '.join(['wdsctl', *verb.split(), *words])}`"


def quote_shell_word(word: str) -> str:
    """Quote a word for a shell, without terminal control characters."""
    return shlex.quote(word) if word.isprintable() else quote_ansi_c(word)


def shell_command_at(location: DatasetLocation, verb: str, *arguments: str) -> str:
    """Return the command for the dataset at `location`."""
    return shell_command(
        verb, location.display_path, *arguments, *(() if location.has_catalog_inside else ("--catalog", location.meta))
    )


def shell_command_for_file(path: str, verb: str, *arguments: str) -> str:
    """Return the command for the dataset that a file in a catalog's folder belongs to."""
    root = root_of_catalog_file(path)
    elsewhere = ("--catalog", os.path.dirname(os.path.abspath(path))) if root == UNKNOWN_DATASET else ()
    return shell_command(verb, root, *arguments, *elsewhere)


def root_of_catalog_file(path: str) -> str:
    """Return the dataset of a file in a catalog's folder; `DATASET` if neither the folder's place nor its files say."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(os.path.join(folder, ".published")):
        from wdsctl.core.remote_catalogs.mirror import mirrored_url

        folder = mirrored_url(folder) or folder
    above, name = os.path.split(folder)
    if name.startswith(f"{META_FOLDER}-"):  # beside a dataset that is one file
        return os.path.join(above, name.removeprefix(f"{META_FOLDER}-"))
    return above if name == META_FOLDER else UNKNOWN_DATASET


def note_catalog_location(location: DatasetLocation, catalog: str | None, progress: Progress) -> None:
    """Tell the user, before the first index, that the catalog is not in the dataset's folder."""
    if not location.has_catalog_inside and catalog is None and not os.path.exists(location.catalog_path):
        progress.note(f"using the catalog in {location.meta}")
