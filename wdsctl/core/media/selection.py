"""Select the parts of a dataset, or the files of a folder, that are media: by extension, glob or content."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from wdsctl.core.errors import UsageError
from wdsctl.core.media.kinds import MEDIA_EXTENSIONS, OTHER_EXTENSIONS

AUTO = "auto"
BY_CONTENT = "content"
MEDIA_OPTION_HINT = (
    "write extensions (jpg,mp4), globs ('*.seg.png'), content, or auto for all parts that are media by name or content"
)

#: Whether a file is a medium by its name: yes, only if its content is, or no.
MediaGuess = Literal["yes", "maybe", "no"]

_WILDCARD = re.compile(r"[*?\[]")
_EXTENSION = re.compile(r"\.?([^\s.*?/\[\],][^\s*?/\[\],]*)")


@dataclass(frozen=True, slots=True)
class MediaSelection:
    """A parsed `--media` option. `text` is its normal form: selections with equal texts select alike."""

    text: str
    extensions: tuple[str, ...] = ()  # in lower case, without the leading dot
    globs: tuple[str, ...] = ()  # matched against the file name, without its folders

    def guess_by_name(self, name: str) -> MediaGuess:
        """Guess from a file name, without folders, whether the file or member is a medium: `000017.seg.png`."""
        lower = name.lower()
        if self.text == AUTO:
            last = lower.rpartition(".")[2]
            return "yes" if last in MEDIA_EXTENSIONS else "no" if last in OTHER_EXTENSIONS else "maybe"
        if self.text == BY_CONTENT:
            return "maybe"
        by_extension = any(lower.endswith(f".{each}") for each in self.extensions)
        return "yes" if by_extension or any(_compile_glob(glob).match(name) for glob in self.globs) else "no"


def parse_media_selection(text: str) -> MediaSelection:
    """Parse a `--media` option: `jpg,mp4`, `*.seg.png`, `content`, `auto`. Raises UsageError WDS321."""
    items = list(dict.fromkeys(word.strip() for word in text.split(",")))
    if items in ([AUTO], [BY_CONTENT]):
        return MediaSelection(items[0])
    globs = tuple(sorted(word for word in items if _WILDCARD.search(word)))
    matches = [_EXTENSION.fullmatch(word) for word in items if not _WILDCARD.search(word)]
    extensions = tuple(sorted({match[1].lower() for match in matches if match}))
    if None in matches or {AUTO, BY_CONTENT} & set(extensions) or any("/" in glob for glob in globs):
        raise UsageError(f"{text!r} does not select parts", hint=MEDIA_OPTION_HINT, code="WDS321")
    return MediaSelection(",".join((*extensions, *globs)), extensions, globs)


@lru_cache
def _compile_glob(glob: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(glob))
