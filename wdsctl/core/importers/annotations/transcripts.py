"""Lines of an id and a transcript, about a recording each: what LibriSpeech, LJSpeech, Kaldi and AISHELL share."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from wdsctl.core.errors import DatasetError, Finding
from wdsctl.core.file_limits import MAX_INDEX_BYTES
from wdsctl.core.importers.annotations.annotated import findings_about
from wdsctl.core.importers.common.folder_files import FolderFiles, unused_files_findings
from wdsctl.core.text import path_for_message

_SPLIT_FOLDER = re.compile("(train|dev|test)([-_].*)?")


def split_of_folders(path: str) -> str:
    """The split that a folder of a path names, such as `train-clean-100` or `dev_other`; empty if there is none."""
    found = (_SPLIT_FOLDER.fullmatch(name) for name in path.split("/")[:-1])
    return next((each[1] for each in found if each), "")


def read_lines(files: FolderFiles, path: str) -> Iterator[tuple[str, bytes]]:
    """(its place, for messages; a line) of each line of a file that is not blank."""
    shown = path_for_message(os.path.join(files.root, path))
    for number, line in enumerate(files.read(path, MAX_INDEX_BYTES).removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            yield f"{shown}:{number}", line


def not_utf8_error(where: str, encoding: str) -> DatasetError:
    """Return the error for a line of a transcript. `encoding`: that the language is often written in."""
    return DatasetError(
        "the line is not UTF-8",
        hint=f"convert the file: `iconv -f {encoding} -t UTF-8 OLD > NEW`, with its encoding instead of {encoding}",
        where=where,
        code="WDS124",
    )


def transcript_findings(files: FolderFiles, empty: Sequence[str], unused: Sequence[str]) -> Iterator[Finding]:
    """`empty`: the places of lines without a text. `unused`: files that no line names."""
    yield from findings_about("WDS148", empty, "transcript", "without text", show=str)
    yield from unused_files_findings(unused, "no line of a transcript names it", files.hidden)
