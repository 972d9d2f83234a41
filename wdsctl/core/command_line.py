"""Commands as hints name them: whole and quoted, so that they can be copied and run."""

from __future__ import annotations

import os
import shlex

from wdsctl.core.place import META, Place
from wdsctl.core.printable import shell_word

UNKNOWN = "DATASET"


def command(verb: str, *words: str) -> str:
    """`wdsctl validate 'my data'`, in backticks. A verb of a group has two words: `view show`."""
    return f"`{' '.join(['wdsctl', *verb.split(), *map(quoted, words)])}`"


def quoted(word: str) -> str:
    """A word as a shell takes it, with nothing in it that a terminal obeys."""
    return shlex.quote(word) if word.isprintable() else shell_word(word)


def command_at(place: Place, verb: str, *words: str) -> str:
    """The command for the dataset at `place`."""
    return command(verb, place.shown, *words, *(() if place.is_inside else ("--catalog", place.meta)))


def command_beside(path: str, verb: str, *words: str) -> str:
    """The command for the dataset that the file `path` in a catalog's folder is of."""
    root = root_beside(path)
    elsewhere = ("--catalog", os.path.dirname(os.path.abspath(path))) if root == UNKNOWN else ()
    return command(verb, root, *words, *elsewhere)


def root_beside(path: str) -> str:
    """That dataset: a folder that lies in it tells which it is; for others, a word stands in its place."""
    folder = os.path.dirname(os.path.abspath(path))
    above, name = os.path.split(folder)
    if name.startswith(f"{META}-"):  # beside a dataset that is one file
        return os.path.join(above, name.removeprefix(f"{META}-"))
    return above if name == META else UNKNOWN
