"""ImageFolder: a folder a class, images in it. Parts: the image, `cls` (the class's number) and `txt` (its name).

Source: https://pytorch.org/vision/stable/generated/torchvision.datasets.ImageFolder.html (classes sorted by name).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice

from wdsctl.core.beneath import inside_only
from wdsctl.core.convert.rows import options as given
from wdsctl.core.convert.rows.extensions import of_name
from wdsctl.core.convert.rows.safe_keys import numbered, safe_key, stem
from wdsctl.core.convert.rows.samples import Sample, failed
from wdsctl.core.convert.rows.source import SampleSource
from wdsctl.core.convert.source import LargePart, Options, Part, Recognised, Source
from wdsctl.core.dataset_yaml import DatasetConfig
from wdsctl.core.errors import DatasetError, InputError, WdsctlError
from wdsctl.core.formats.folder_walk import LITTER
from wdsctl.core.naming import split_name
from wdsctl.core.os_errors import translated
from wdsctl.core.printable import named

IMAGES = frozenset({"jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp", "gif"})
SPLITS = frozenset({"train", "val", "valid", "validation", "test"})

_LOOKED_AT = 50  # files of a class
_CLASSES = 3  # classes that are looked at


class ImageFolder:
    """Above the classes there may be folders of splits: train/dog/1.jpg is in the split `train`.

    Keys are the paths without the ending.
    """

    name = "imagefolder"
    about = "a folder of images for each class, below train, val, test or directly"

    def recognise(self, path: str) -> Recognised | None:
        try:
            folders, files = _listed(path, path)
            if not folders or any(of_name(name) in IMAGES for name in files):
                return None
            classes = _classes(path, folders)
            looked = [_listed(os.path.join(path, name), path) for name in classes[:_CLASSES]]
        except OSError:
            return None
        each = [[split_name(name) for name in found[:_LOOKED_AT] if of_name(name) in IMAGES] for _, found in looked]
        are_images = all(len(names) == len(found[:_LOOKED_AT]) for names, (_, found) in zip(each, looked, strict=True))
        # Several images of one name are the parts of a sample, such as a photo and its mask.
        are_alone = all(len({key and key[0] for key in names}) == len(names) for names in each)
        if len(classes) < 2 or not any(each) or not are_images or not are_alone:
            return None
        return Recognised(0.7, f"images in a folder for each class, such as {named(classes[0])}")

    def open(self, path: str, options: Options) -> Source:
        given.checked(self.name, options, ())
        with translated(path, "list"):
            folders, _ = _listed(path, path)
            classes = _classes(path, folders)
        if not classes:
            raise InputError("there is no folder of a class", hint="check the path", where=named(path), code="WDS003")
        has_splits = "/" in classes[0]
        walk = _Walk(path, {os.path.basename(name) for name in classes}, has_splits)
        return SampleSource(walk, folders if has_splits else ())


IMPORTER = ImageFolder()


def described(path: str) -> DatasetConfig | None:
    """What the samples are: images of classes; None where there are no images. Cost: a walk through the folders."""
    images = ",".join(sorted({of_name(name) for name in _files(path, "")} & IMAGES))
    field_map = {"image": images, "label": "cls", "label_name": "txt"}
    return DatasetConfig("ImageClassificationSample", field_map) if images else None


class _Walk:
    """Goes through the folders in the order of names, and holds one folder's names at a time."""

    def __init__(self, root: str, classes: set[str], has_splits: bool) -> None:
        self._root = root
        self._numbers = {name: number for number, name in enumerate(sorted(classes))}
        self._depth = int(has_splits)  # of a class's folder in a path

    def samples(self, start: int) -> Iterator[Sample]:
        for place, path in enumerate(islice(_files(self._root, ""), start, None), start):
            yield self._sample(place, path)

    def _sample(self, place: int, path: str) -> Sample:
        where = os.path.join(self._root, path)
        segments = path.split("/")
        if of_name(path) not in IMAGES or len(segments) < self._depth + 2:
            what = "is no image by its name" if of_name(path) not in IMAGES else "is in no class's folder"
            fault = DatasetError(f"the file {what}", hint="move it away", where=named(where), code="WDS232")
            return failed(place, fault)
        label = segments[self._depth]
        try:
            with translated(where, "read"):
                size = os.stat(where).st_size
        except WdsctlError as error:  # a link that leads nowhere, say
            return failed(place, error)
        parts = (
            Part("cls", str(self._numbers[label]).encode()),
            LargePart(of_name(path), where, 0, size, self._root),
            Part("txt", label.encode("utf-8", "surrogateescape")),
        )
        key = safe_key(stem(path)) or numbered(place)
        split = segments[0] if self._depth else ""
        return Sample(key, tuple(sorted(parts, key=lambda part: part.name)), split=split)

    def mark(self) -> bytes:
        """Of all files: names, sizes and times."""
        digest = blake2b(digest_size=16)
        for path in _files(self._root, ""):
            try:
                status = os.stat(os.path.join(self._root, path))
                facts = f"{status.st_size}\0{status.st_mtime_ns}"
            except OSError as error:
                facts = str(error.errno)
            digest.update(f"{path}\0{facts}\0".encode("utf-8", "surrogateescape"))
        return digest.digest()

    def close(self) -> None:
        """Nothing is open."""


def _classes(root: str, folders: Sequence[str]) -> list[str]:
    """The folders of classes: those in `root`, or those in its folders where these are splits."""
    if not SPLITS.issuperset(folders):
        return list(folders)
    return [f"{split}/{name}" for split in folders for name in _listed(os.path.join(root, split), root)[0]]


def _listed(folder: str, root: str) -> tuple[list[str], list[str]]:
    """(folders, files) in a folder, sorted; without hidden ones and what desktops leave.

    Raises PermissionDenied WDS409 where one leads out of `root`.
    """
    with os.scandir(folder) as entries:
        found = [
            entry for entry in inside_only(entries, root) if not entry.name.startswith(".") and entry.name not in LITTER
        ]
        folders = sorted(entry.name for entry in found if entry.is_dir())
        return folders, sorted(entry.name for entry in found if not entry.is_dir())


def _files(root: str, prefix: str, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[str]:
    """Paths below the root. Links are followed, but not back to a folder that they are in."""
    folder = os.path.join(root, prefix)
    with translated(folder, "list"):
        status = os.stat(folder)
        folders, files = _listed(folder, root)
    here = (status.st_dev, status.st_ino)
    if here in above:
        return
    yield from (f"{prefix}{name}" for name in files)
    for name in folders:
        yield from _files(root, f"{prefix}{name}/", above | {here})
