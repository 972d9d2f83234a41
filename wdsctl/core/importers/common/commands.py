"""The user's own command with other options: what a hint of an importer prints, to run as it is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from wdsctl.core.dataset.location import shell_command
from wdsctl.core.invocation import current_invocation
from wdsctl.core.urls import is_url, redact_secrets

_OPTION = re.compile("-O=?|--option(=|$)")
_PYTHON_ARGUMENT = re.compile("[a-z_]+=")  # what the record of a call from Python has in the place of options


def repeat_command(
    source: str,
    path: str,
    options: Mapping[str, str],
    *flags: str,
    without: Sequence[str] = (),
    keeps_folder: bool = False,
    dest: str = "DEST",
) -> str:
    """The command line with `path` in the place of `source`, or of a folder above `path`, with further options.

    `source`: empty to keep all words.
    `without`: flags, and options of the format, that the command leaves out. `keeps_folder`: leave a folder above
    `path` in the command, whose other files the rows may name. If the words of the command are unknown, such as in a
    worker, it has `path` and `dest`.
    """
    invocation = current_invocation("convert", ())
    words, found = list[str](), False
    given = iter(invocation.arguments)
    before = ""
    for word in given:
        is_value, before = before.startswith("--"), word
        if option := _OPTION.match(word):
            value = word[option.end() :] or next(given, "")
            if value.partition("=")[0] not in (*options, *without):
                words += ["-O", value]
        elif word not in without and (is_value or not _PYTHON_ARGUMENT.match(word)):
            is_source = not found and (_is_same(word, source) or _is_folder_of(word, path))
            found = found or is_source
            keeps = not is_source or (keeps_folder and not _is_same(word, path))
            words.append(word if keeps else _place_at(word, path))
    if not found and (source or not words):
        words = [redact_secrets(path) or "SOURCE", redact_secrets(dest)]
    pairs = (word for name, value in options.items() for word in ("-O", f"{name}={value}"))
    return shell_command(invocation.command, *words, *pairs, *flags)


def _is_same(word: str, source: str) -> bool:
    if is_url(word) or is_url(source):
        return word.rstrip("/") == redact_secrets(source).rstrip("/")
    return bool(word and source) and os.path.abspath(word) == os.path.abspath(source)


def _is_folder_of(word: str, path: str) -> bool:
    return not is_url(word) and os.path.isdir(word) and os.path.abspath(path).startswith(f"{os.path.abspath(word)}/")


def _place_at(word: str, path: str) -> str:
    """The path, in the way in which the user's word names it, or a folder above it."""
    if is_url(word) or is_url(path):
        return redact_secrets(path)
    below = os.path.relpath(os.path.abspath(path), os.path.abspath(word))
    return word if below == "." else path if below.startswith("..") else os.path.join(word, below)
