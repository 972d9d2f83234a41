"""Describe an installation for a bug report: versions, packages, processes, and the file system of a dataset.

A report can be published: no part of it is a path, a name of a user, a host or a dataset, or the value of a variable.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import re
import resource
import sqlite3
import sys
from dataclasses import dataclass
from importlib import metadata

from wdsctl.core.catalog.open_catalog import schema_version
from wdsctl.core.dataset.location import DatasetLocation
from wdsctl.core.dataset.polylithic import find_polylithic_folder
from wdsctl.core.dataset.shard_names import is_jsonl_name
from wdsctl.core.errors import WdsctlError, translate_os_errors
from wdsctl.core.extras import EXTRA_OF_PACKAGE, install_command
from wdsctl.core.opened.opening import open_dataset
from wdsctl.core.urls import is_url, protocol
from wdsctl.core.version import VERSION

#: What `pip install wdsctl` brings, apart from packages for the terminal.
BASE_PACKAGES = ("av", "fsspec", "numpy", "pillow", "pyyaml", "regex", "rich", "simplejpeg", "sqlalchemy", "typer")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageState:
    name: str
    version: str  # empty if the package is not installed
    install: str  # the command that installs the package; empty if it is installed


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFacts:
    python: str  # implementation and version
    system: str  # kernel and its version, without what its builder appended
    distribution: str  # empty if unknown
    machine: str  # architecture
    libc: str
    sqlite: str
    file_name_encoding: str
    cores: int
    usable_cores: int  # that this process may use
    memory_bytes: int
    shared_memory_bytes: int  # size of /dev/shm; 0 if there is none
    free_shared_memory_bytes: int
    open_files: int  # limit for one process; -1: none
    start_methods: tuple[str, ...]  # of processes; Python's default first


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemFacts:
    type: str  # as the kernel calls it, such as ext4 or nfs4; empty if unknown
    is_read_only: bool
    size_bytes: int
    free_bytes: int  # for this user
    free_files: int  # -1 if the file system has no limit
    block_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFacts:
    form: str  # folder, tar, JSONL, or the protocol of a URL
    file_system: FileSystemFacts | None  # None for a URL
    catalog_place: str  # dataset: inside it or beside its file; elsewhere: in another folder
    catalog_file_system: FileSystemFacts | None  # None if its folder does not exist
    catalog_error: str  # the code of the error that opening the catalog raises; empty if the catalog opens
    schema_version: int | None
    generation: int | None
    shards: int | None
    samples: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    wdsctl: str  # version
    system: SystemFacts
    packages: tuple[PackageState, ...]
    dataset: DatasetFacts | None  # of a polylithic dataset: its primary
    media: DatasetFacts | None  # of a polylithic dataset


def doctor(root: str | None = None, *, catalog: str | None = None) -> DoctorReport:
    """Describe this installation, and the file system and the catalog of a dataset if `root` is given.

    A polylithic dataset has two catalogs. Imports none of the packages, and reads no shard. Raises InputError if there
    is no such dataset.
    """
    folder = None if root is None or catalog else find_polylithic_folder(root)
    if folder is not None:
        root = folder.primary
    packages = (*BASE_PACKAGES, *sorted(EXTRA_OF_PACKAGE))
    return DoctorReport(
        wdsctl=VERSION,
        system=_system_facts(),
        packages=tuple(map(_package_state, packages)),
        dataset=None if root is None else _dataset_facts(root, catalog),
        media=None if folder is None else _dataset_facts(folder.media, None),
    )


def _package_state(name: str) -> PackageState:
    try:
        return PackageState(name=name, version=metadata.version(name), install="")
    except metadata.PackageNotFoundError:
        return PackageState(name=name, version="", install=install_command(name))


def _system_facts() -> SystemFacts:
    shared = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None  # noqa: S108 - asked for its size alone
    return SystemFacts(
        python=f"{platform.python_implementation()} {platform.python_version()}",
        system=f"{platform.system()} {platform.release().partition('-')[0]}",
        distribution=_distribution(),
        machine=platform.machine(),
        libc=" ".join(platform.libc_ver()).strip(),
        sqlite=sqlite3.sqlite_version,
        file_name_encoding=sys.getfilesystemencoding(),
        cores=os.cpu_count() or 1,
        usable_cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        shared_memory_bytes=shared.f_blocks * shared.f_frsize if shared else 0,
        free_shared_memory_bytes=shared.f_bavail * shared.f_frsize if shared else 0,
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        start_methods=tuple(multiprocessing.get_all_start_methods()),
    )


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:  # there is no such file on other systems
        return ""


def _dataset_facts(root: str, catalog: str | None) -> DatasetFacts:
    try:
        dataset = open_dataset(root, catalog)
    except WdsctlError as error:
        if not is_url(root):
            raise
        return DatasetFacts(  # a store that does not answer is what a report may be about
            form=protocol(root),
            file_system=None,
            catalog_place="dataset",
            catalog_file_system=None,
            catalog_error=error.code,
            schema_version=None,
            generation=None,
            shards=None,
            samples=None,
        )
    location, version, state, code = dataset.location, None, None, ""
    try:
        version = schema_version(location.catalog_path)
        with dataset:
            state = dataset.state()
        code = "" if state else "WDS302"
    except WdsctlError as error:
        code = error.code
    return DatasetFacts(
        form=_form(location),
        file_system=None if is_url(location.root) else file_system_facts(location.path),
        catalog_place="dataset" if location.has_catalog_inside else "elsewhere",
        catalog_file_system=file_system_facts(location.meta) if os.path.isdir(location.meta) else None,
        catalog_error=code,
        schema_version=version,
        generation=state["generation"] if state else None,
        shards=state["shards"] if state else None,
        samples=state["samples"] if state else None,
    )


def _form(location: DatasetLocation) -> str:
    if is_url(location.root):
        return protocol(location.root)
    if not location.single_file:
        return "folder"
    return "JSONL" if is_jsonl_name(location.single_file) else "tar"


def file_system_facts(path: str) -> FileSystemFacts:
    """The facts of the file system that holds a path. Raises StorageError if the path cannot be reached."""
    with translate_os_errors(path, "read"):
        found = os.statvfs(path)
    return FileSystemFacts(
        type=_file_system_type(os.path.realpath(path)),
        is_read_only=bool(found.f_flag & os.ST_RDONLY),
        size_bytes=found.f_blocks * found.f_frsize,
        free_bytes=found.f_bavail * found.f_frsize,
        free_files=found.f_favail if found.f_files else -1,
        block_bytes=found.f_bsize,
    )


def _file_system_type(path: str) -> str:
    """The type of the innermost mount that holds a real path. The device and the mount point could name a host."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return find_mount_type(file.read(), path)
    except OSError:  # systems other than Linux do not have it
        return ""


def find_mount_type(mounts: str, path: str) -> str:
    """The type of the innermost mount in a mountinfo text. The later of two mounts in one place hides the other."""
    innermost, found = "", ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), before.split(" ")[4])
        holds = path == point or path.startswith(point.rstrip("/") + "/")
        if holds and len(point) >= len(innermost):
            innermost, found = point, after.split(" ")[0]
    return found
