"""ImageFolder: a folder of images per class. Parts: the image, `cls` (number of the class) and `txt` (its name).

Source: https://pytorch.org/vision/stable/generated/torchvision.datasets.ImageFolder.html (classes sorted by name).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.raw_folder_walk import LITTER_NAMES
from wdsctl.core.errors import DatasetError, InputError, WdsctlError, translate_os_errors
from wdsctl.core.importers.protocol import FilePart, FormatMatch, Options, Part, Source, SourceDescription
from wdsctl.core.importers.records import values as given
from wdsctl.core.importers.records.files import extension_of_name
from wdsctl.core.importers.records.samples import SourceSample, failed_sample, row_number_key, safe_key, strip_extension
from wdsctl.core.importers.records.source import SampleSource
from wdsctl.core.media.kinds import media_extensions
from wdsctl.core.safe_open import check_entries_beneath
from wdsctl.core.samples.naming import split_name
from wdsctl.core.text import path_for_message

IMAGE_EXTENSIONS = frozenset(media_extensions("image"))
SPLIT_FOLDERS = frozenset({"train", "val", "valid", "validation", "test"})

_PROBED_FILES = 50  # files per class
_PROBED_CLASSES = 3


class ImageFolderImporter:
    """Folders of classes, optionally below folders of splits: train/dog/1.jpg is in the split `train`.

    Keys are the paths without the extension.
    """

    name = "imagefolder"
    about = "a folder of images for each class, below train, val, test or directly"

    def recognise(self, path: str) -> FormatMatch | None:
        try:
            folders, files = _list_folder(path, path)
            if not folders or any(extension_of_name(name) in IMAGE_EXTENSIONS for name in files):
                return None
            classes = _classes(path, folders)
            looked = [_list_folder(os.path.join(path, name), path) for name in classes[:_PROBED_CLASSES]]
        except OSError:
            return None
        each = [
            [split_name(name) for name in found[:_PROBED_FILES] if extension_of_name(name) in IMAGE_EXTENSIONS]
            for _, found in looked
        ]
        are_images = all(
            len(names) == len(found[:_PROBED_FILES]) for names, (_, found) in zip(each, looked, strict=True)
        )
        # Images that share a name are the parts of one sample, such as a photo and its mask: that is another format.
        are_alone = all(len({key and key[0] for key in names}) == len(names) for names in each)
        if len(classes) < 2 or not any(each) or not are_images or not are_alone:
            return None
        return FormatMatch(0.7, f"images in a folder for each class, such as {path_for_message(classes[0])}")

    def open(self, path: str, options: Options) -> Source:
        given.check_format_options(self.name, options, ())
        with translate_os_errors(path, "list"):
            folders, _ = _list_folder(path, path)
            classes = _classes(path, folders)
        if not classes:
            raise InputError(
                "no class folders found",
                hint="check the path: every class needs a folder of its own",
                where=path_for_message(path),
                code="WDS003",
            )
        has_splits = "/" in classes[0]
        walk = _ImageFolderSamples(path, {os.path.basename(name) for name in classes}, has_splits)
        describe = lambda: SourceDescription(config=image_folder_config(path))  # noqa: E731
        return SampleSource(walk, folders if has_splits else (), describe)


IMPORTER = ImageFolderImporter()


def image_folder_config(path: str) -> DatasetConfig | None:
    """The dataset.yaml of an ImageFolder: images with classes; None if there are no images. Cost: lists all folders."""
    images = ",".join(sorted({extension_of_name(name) for name in _walk_files(path, "")} & IMAGE_EXTENSIONS))
    field_map = {"image": images, "label": "cls", "label_name": "txt"}
    return DatasetConfig("ImageClassificationSample", field_map) if images else None


class _ImageFolderSamples:
    """Walks through the folders in the order of names, with the names of one folder in memory at a time."""

    def __init__(self, root: str, classes: set[str], has_splits: bool) -> None:
        self._root = root
        self._numbers = {name: number for number, name in enumerate(sorted(classes))}
        self._depth = int(has_splits)  # position of the class in a path

    def samples(self, start: int) -> Iterator[SourceSample]:
        for sample_index, path in enumerate(islice(_walk_files(self._root, ""), start, None), start):
            yield self._sample(sample_index, path)

    def _sample(self, sample_index: int, path: str) -> SourceSample:
        where = os.path.join(self._root, path)
        segments = path.split("/")
        if extension_of_name(path) not in IMAGE_EXTENSIONS or len(segments) < self._depth + 2:
            what = (
                "is no image by its name"
                if extension_of_name(path) not in IMAGE_EXTENSIONS
                else "is in no class's folder"
            )
            fault = DatasetError(f"the file {what}", hint="move it away", where=path_for_message(where), code="WDS232")
            return failed_sample(sample_index, fault)
        label = segments[self._depth]
        try:
            with translate_os_errors(where, "read"):
                size = os.stat(where).st_size
        except WdsctlError as error:  # for example a broken link
            return failed_sample(sample_index, error)
        parts = (
            Part("cls", str(self._numbers[label]).encode()),
            FilePart(extension_of_name(path), where, 0, size, self._root),
            Part("txt", label.encode("utf-8", "surrogateescape")),
        )
        key = safe_key(strip_extension(path)) or row_number_key(sample_index)
        split = segments[0] if self._depth else ""
        return SourceSample(key, tuple(sorted(parts, key=lambda part: part.name)), split=split)

    def digest(self) -> bytes:
        """A digest of the names, sizes and times of all files."""
        digest = blake2b(digest_size=16)
        for path in _walk_files(self._root, ""):
            try:
                status = os.stat(os.path.join(self._root, path))
                facts = f"{status.st_size}\0{status.st_mtime_ns}"
            except OSError as error:
                facts = str(error.errno)
            digest.update(f"{path}\0{facts}\0".encode("utf-8", "surrogateescape"))
        return digest.digest()

    def close(self) -> None:
        """Do nothing: no file stays open."""


def _classes(root: str, folders: Sequence[str]) -> list[str]:
    """The folders of classes: those in `root`, or one level below if all folders in `root` are named like splits."""
    if not SPLIT_FOLDERS.issuperset(folders):
        return list(folders)
    return [f"{split}/{name}" for split in folders for name in _list_folder(os.path.join(root, split), root)[0]]


def _list_folder(folder: str, root: str) -> tuple[list[str], list[str]]:
    """(folders, files) in a folder, sorted, without hidden files and files that desktops leave.

    Raises PermissionDenied WDS409 if an entry leads out of `root`.
    """
    with os.scandir(folder) as entries:
        found = [
            entry
            for entry in check_entries_beneath(entries, root)
            if not entry.name.startswith(".") and entry.name not in LITTER_NAMES
        ]
        folders = sorted(entry.name for entry in found if entry.is_dir())
        return folders, sorted(entry.name for entry in found if not entry.is_dir())


def _walk_files(root: str, prefix: str, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[str]:
    """Yield the paths of files below the root. Follows links, except to a folder that contains them."""
    folder = os.path.join(root, prefix)
    with translate_os_errors(folder, "list"):
        status = os.stat(folder)
        folders, files = _list_folder(folder, root)
    here = (status.st_dev, status.st_ino)
    if here in above:
        return
    yield from (f"{prefix}{name}" for name in files)
    for name in folders:
        yield from _walk_files(root, f"{prefix}{name}/", above | {here})
