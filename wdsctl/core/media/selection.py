"""Which parts of a dataset, or files of a folder, are media: by extension, by glob, by content, or by all of these."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from wdsctl.core.errors import UsageError

AUTO = "auto"
CONTENT = "content"
HINT = "write extensions (jpg,mp4), globs ('*.seg.png'), content, or auto for all that are media by name or content"

#: What a name says of its file: a medium, whatever is in it; one if its content is; none.
Claim = Literal["yes", "maybe", "no"]

_MEDIA = (
    "jpg jpeg jpe jfif png gif bmp dib tif tiff webp jp2 j2k jpx avif heic heif jxl ico ppm pgm pnm "
    "mp4 m4v mov mkv webm avi flv mpg mpeg wmv asf ogv 3gp "
    "mp3 mp2 wav flac ogg oga opus m4a aac aif aiff wma"
)
_OTHER = (
    "txt json jsonl ndjson csv tsv xml html htm md yaml yml cls cls2 id index idx npy npz pth pt pkl pickle "
    "safetensors msgpack mp tok tokens caption url parquet"
)
MEDIA_EXTENSIONS, OTHER_EXTENSIONS = frozenset(_MEDIA.split()), frozenset(_OTHER.split())

_WILD = re.compile(r"[*?\[]")
_EXTENSION = re.compile(r"\.?([^\s.*?/\[\],][^\s*?/\[\],]*)")


@dataclass(frozen=True, slots=True)
class Selection:
    """What `--media` asked for. `text` is it again, in one spelling: equal texts select alike."""

    text: str
    extensions: tuple[str, ...] = ()  # in small letters, without a dot before them
    globs: tuple[str, ...] = ()  # on the file's own name, without its folders

    def claim(self, name: str) -> Claim:
        """What the name of a file says, or of a member of a shard: `000017.seg.png`, without its folders."""
        lower = name.lower()
        if self.text == AUTO:
            last = lower.rpartition(".")[2]
            return "yes" if last in MEDIA_EXTENSIONS else "no" if last in OTHER_EXTENSIONS else "maybe"
        if self.text == CONTENT:
            return "maybe"
        by_extension = any(lower.endswith(f".{each}") for each in self.extensions)
        return "yes" if by_extension or any(_pattern(glob).match(name) for glob in self.globs) else "no"


def parse_selection(text: str) -> Selection:
    """`jpg,mp4`, `*.seg.png`, `content`, `auto`. Raises UsageError WDS321."""
    words = list(dict.fromkeys(word.strip() for word in text.split(",")))
    if words in ([AUTO], [CONTENT]):
        return Selection(words[0])
    globs = tuple(sorted(word for word in words if _WILD.search(word)))
    matches = [_EXTENSION.fullmatch(word) for word in words if not _WILD.search(word)]
    extensions = tuple(sorted({match[1].lower() for match in matches if match}))
    if None in matches or {AUTO, CONTENT} & set(extensions) or any("/" in glob for glob in globs):
        raise UsageError(f"{text!r} does not say which parts are media", hint=HINT, code="WDS321")
    return Selection(",".join((*extensions, *globs)), extensions, globs)


@lru_cache
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(glob))
