"""Speech whose transcripts are lines of an id and a text: Kaldi's data folders (`wav.scp`, `text`), and AISHELL.

Parts: the audio file; `txt`, the transcript; `json` with the id and, if it is known, the speaker. Keys are the ids.
Folders such as `train` and `dev` are splits. A line of wav.scp that is a command is never run.

Sources: https://kaldi-asr.org/doc/data_prep.html (the files); https://www.openslr.org/33 (AISHELL-1:
`wav/SPLIT/SPEAKER` and one file in `transcript`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.annotations.annotated import (
    AnnotatedSample,
    AnnotationFormat,
    endings_of,
    make_annotated_source,
    missing_error,
    name_splits,
    not_found_error,
    split_uses,
    unused_files,
)
from wdsctl.core.importers.annotations.transcripts import (
    not_utf8_error,
    read_lines,
    split_of_folders,
    transcript_findings,
)
from wdsctl.core.importers.common.folder_files import FolderFiles, media_type_of, probe_folders
from wdsctl.core.importers.common.values import encode_json, read_head
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Part, Source, SourceDescription
from wdsctl.core.samples.naming import strip_extension
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message, pluralize

_TEXT, _AUDIO, _SPEAKERS, _SEGMENTS = "text", "wav.scp", "utt2spk", "segments"
#: Files of a data folder that Kaldi derives from the others, or that features belong to.
_DERIVED = frozenset({"spk2utt", "utt2dur", "utt2num_frames", "reco2dur", "spk2gender", "utt2lang", "frame_shift"})
_TRANSCRIPTS = "transcript"  # AISHELL's folder
_MAX_DEPTH = 3
_PROBED_FOLDERS = 50


def _match(path: str) -> FormatMatch | None:
    found = _find_texts(path, _PROBED_FOLDERS)
    return FormatMatch(0.95, f"{path_for_message(found[0])} has lines of an id and a transcript") if found else None


def _read(path: str) -> Source:
    texts = _find_texts(path)
    if not texts:
        hint = "check the path: pass a data folder of Kaldi, or the folder of several"
        raise not_found_error(f"the folder has no files {_TEXT} and {_AUDIO}", path, hint)
    folder = _Transcripts(path, texts)
    return make_annotated_source(
        folder.files, folder.lines, _read_parts, folder.describe, make_missing_error=_missing_audio_error
    )


def _find_texts(root: str, limit: int | None = None) -> list[str]:
    """The files of transcripts below a folder, relative to it. `limit`: of the folders that are searched."""
    found: list[str] = []
    for prefix, names in probe_folders(root, depth=_MAX_DEPTH, limit=limit):
        if _TEXT in names.files and _AUDIO in names.files:
            found.append(f"{prefix}{_TEXT}")
        elif prefix.endswith(f"{_TRANSCRIPTS}/"):
            found += [f"{prefix}{name}" for name in names.files if _is_aishell(root, f"{prefix}{name}")]
    return found


def _is_aishell(root: str, path: str) -> bool:
    """Whether a file begins with the id of one of AISHELL's recordings, such as BAC009S0002W0122."""
    head = read_head(os.path.join(root, path), 256)
    return path.endswith(".txt") and bool(re.match(rb"[A-Z]+[0-9]+S[0-9]+W[0-9]+ +[^ \n]", head))


class _Line(NamedTuple):
    key: str
    text: str
    speaker: str


def _read_parts(line: _Line) -> list[Part]:
    facts = {"id": line.key} | ({"speaker": line.speaker} if line.speaker else {})
    return [Part("txt", line.text.encode()), Part("json", encode_json(facts))]


def _missing_audio_error(sample: AnnotatedSample) -> DatasetError:
    shown = path_for_message(sample.label.key)
    if sample.reference.endswith("|"):
        problem = f"the audio of {shown} is a command, which wdsctl never runs: {sample.reference!r}"
        hint = f"run the commands, and write the names of the files that they make into {_AUDIO}"
    else:
        problem = f"no audio file {path_for_message(sample.reference) if sample.reference else shown}"
        hint = "copy the recordings into the folder of the transcripts"
    return missing_error(problem, hint, sample.where)


class _Transcripts:
    """The lines of all transcripts, and the audio files that they are about."""

    def __init__(self, root: str, texts: Sequence[str]) -> None:
        self.files = FolderFiles(root)
        self._tables: list[str] = []
        self._by_name: dict[str, list[str]] = {}
        for path in self.files.paths:
            if media_type_of(path) == "audio":
                name = path.rpartition("/")[2]
                self._by_name.setdefault(name, []).append(path)
                self._by_name.setdefault(strip_extension(name), []).append(path)
        self.lines = name_splits(line for path in texts for line in self._read_text(path))

    def _read_text(self, path: str) -> Iterator[AnnotatedSample]:
        """Raises DatasetError WDS232 for a data folder whose texts are parts of recordings."""
        folder = path[: path.rfind("/") + 1]
        is_kaldi = path == f"{folder}{_TEXT}"
        if f"{folder}{_SEGMENTS}" in self.files.paths:
            raise DatasetError(
                f"{_SEGMENTS} says that each text is about a part of a recording, which wdsctl does not cut",
                hint="cut the recordings with Kaldi's extract-segments or `lhotse cut trim-to-supervisions`, and write "
                f"a data folder without {_SEGMENTS}",
                where=path_for_message(os.path.join(self.files.root, folder)),
                code="WDS232",
            )
        audio, speakers = dict[str, str](), dict[str, str]()
        if is_kaldi:
            audio = {key: rest for _, key, rest in self._read_pairs(f"{folder}{_AUDIO}")}
            speakers = {key: rest for _, key, rest in self._read_pairs(f"{folder}{_SPEAKERS}")}
        for where, key, text in self._read_pairs(path):
            reference = audio.get(key, "") if is_kaldi else key
            found = self._find_audio(reference, folder)
            speaker = speakers.get(key, "") if is_kaldi else os.path.basename(os.path.dirname(found))
            split = split_of_folders(folder if is_kaldi else found)
            yield AnnotatedSample(found, _Line(key, text, speaker), where, reference, split, key=key)

    def _read_pairs(self, path: str) -> Iterator[tuple[str, str, str]]:
        """(place, first word, the rest) of each line; nothing if there is no such file. Raises DatasetError WDS124."""
        if path not in self.files.paths:
            return
        self._tables.append(path)
        for where, line in read_lines(self.files, path):
            try:
                key, _, rest = line.decode().strip().partition(" ")
            except UnicodeDecodeError as error:
                raise not_utf8_error(where, "GB18030") from error
            if key:
                yield where, key, rest.strip()

    def _find_audio(self, reference: str, folder: str) -> str:
        """The audio file that a line names; of a path of another machine, the only file with its name."""
        root = source_files.absolute(self.files.root)
        below = os.path.relpath(reference, root) if os.path.isabs(reference) else reference
        for path in (os.path.normpath(f"{folder}{below}"), os.path.normpath(below)):
            if reference and path in self.files.paths:
                return path
        found = self._by_name.get(reference.rpartition("/")[2], [])
        return found[0] if len(found) == 1 else ""

    def describe(self) -> SourceDescription:
        unused = unused_files(self.files, self.lines, self._tables)
        derived = [path for path in unused if path.rpartition("/")[2] in _DERIVED]
        rest = tuple(path for path in unused if path not in derived)
        empty = [each.where for each in self.lines if not each.label.text]
        endings = endings_of(self.lines)
        uses = (
            FieldUse("transcripts", "txt", pluralize(len(self.lines), "line")),
            FieldUse("audio files", endings, pluralize(len({each.path for each in self.lines if each.path}), "file")),
            FieldUse("speakers", "json[speaker]", f"{len({each.label.speaker for each in self.lines}):,}"),
            *(FieldUse(path, "", "follows from the other files") for path in derived),
            *split_uses("folders", self.lines),
        )
        fields = {"audio": endings or "wav", "text": "txt", "speaker": "json[speaker]"}
        config = DatasetConfig("TranscriptionSample", fields, optional=("speaker",))
        return SourceDescription(uses, tuple(transcript_findings(self.files, empty, rest)), config, rest)


IMPORTER = AnnotationFormat(
    "kaldi", "speech with lines of an id and a text, as Kaldi's data folders and AISHELL have them", _match, _read
)
