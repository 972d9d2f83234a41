"""Names of classes from a text file beside class folders, such as ImageNet's LOC_synset_mapping.txt; and the classes of
its pictures for validation, which are in no class folder.

The file is taken if it names every class folder:

- lines that begin with a folder's name, then a space, tab or comma, then the name of the class;
- lines of names, if the folders are numbers: the first line names the folder 0, or the folder 1 if there is no 0;
- lines that are the folders' names, or end in them: they say nothing new.

Sources: https://www.kaggle.com/c/imagenet-object-localization-challenge/data (LOC_synset_mapping.txt);
https://www.vision.caltech.edu/datasets/cub_200_2011/ (classes.txt).
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Sequence
from typing import NamedTuple

from wdsctl.core.errors import translate_os_errors
from wdsctl.core.storage import source_files

_FILE_NAMES = re.compile(
    r"(loc_synset_mapping|synset_words|synsets?|wnids|words|classes|class_?names|labels|names)\.txt", re.IGNORECASE
)
_MAX_BYTES = 16 << 20
_PAIR = re.compile(r"([^\s,]+)[\s,]+(\S.*)")


class ClassNames(NamedTuple):
    """`names`: folder -> name of the class; empty if no file has any. `source`: the file that has them.

    `files`: all files that list the classes, relative to the root.
    """

    names: dict[str, str]
    source: str
    files: tuple[str, ...]


def read_class_names(root: str, candidates: Sequence[str], folders: Sequence[str]) -> ClassNames:
    """Read the names of these class folders. `candidates`: paths of files below the root.

    If several files have names, the first one counts, and the others are not in `files`.
    """
    names, source, files = dict[str, str](), "", list[str]()
    for path in candidates:
        if not _FILE_NAMES.fullmatch(os.path.basename(path)):
            continue
        found = _names_in(_read_lines(os.path.join(root, path)), folders)
        if found is None or (found and names):
            continue
        files.append(path)
        if found:
            names, source = found, path
    return ClassNames(names, source, tuple(files))


_VAL_SOLUTION, _TRAIN_SOLUTION = "LOC_val_solution.csv", "LOC_train_solution.csv"


class Solutions(NamedTuple):
    """`labels`: the name of a picture for validation, without its extension -> its class folder. `files`: the tables,
    the one of these labels first.
    """

    labels: dict[str, str]
    files: tuple[str, ...]


def read_solutions(root: str, candidates: Sequence[str], folders: Container[str]) -> Solutions:
    """Read the classes of pictures for validation from Kaggle's table of ImageNet: lines of a name, a comma, and the
    class with boxes. The table of training pictures says what the class folders say.

    Lines of other classes are no labels.
    """
    paths = {os.path.basename(path): path for path in reversed(candidates)}
    if _VAL_SOLUTION not in paths:
        return Solutions({}, ())
    labels: dict[str, str] = {}
    for line in _read_lines(os.path.join(root, paths[_VAL_SOLUTION])):
        name, _, boxes = line.partition(",")
        label = boxes.split(" ", 1)[0]
        if label in folders:
            labels[name] = label
    return Solutions(labels, tuple(paths[name] for name in (_VAL_SOLUTION, _TRAIN_SOLUTION) if name in paths))


def lists_class_names(name: str) -> bool:
    """Whether a file beside class folders lists the classes by its name, such as `classes.txt`."""
    return bool(_FILE_NAMES.fullmatch(name))


def _read_lines(path: str) -> list[str]:
    with translate_os_errors(path, "read"), source_files.open_file(path) as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        return []
    return [line.strip() for line in data.decode("utf-8-sig", "replace").splitlines() if line.strip()]


def _names_in(lines: Sequence[str], folders: Sequence[str]) -> dict[str, str] | None:
    """Folder -> name; empty if the lines are the folders' names; None if the lines do not name every folder."""
    distinct = set(folders)
    if distinct <= set(lines) or distinct <= {line.split(maxsplit=1)[-1] for line in lines}:
        return {}
    pairs = [match.groups() for line in lines if (match := _PAIR.fullmatch(line))]
    named = {folder: name for folder, name in reversed(pairs) if folder in distinct}
    if len(named) == len(distinct):
        return named
    if len(lines) == len(distinct) and all(folder.isascii() and folder.isdigit() for folder in folders):
        numbers = {int(folder): folder for folder in folders}
        first = min(numbers, default=0)
        if first in (0, 1) and sorted(numbers) == list(range(first, first + len(lines))):
            return {numbers[first + i]: line for i, line in enumerate(lines)}
    return None
