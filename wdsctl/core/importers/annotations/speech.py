"""Speech with transcripts: LibriSpeech (`*.trans.txt` in every folder) and LJSpeech (`metadata.csv` and `wavs/`).

Parts: the audio file and `json`; of LibriSpeech also `txt`, the transcript. Folders such as `train-clean-100` and
`dev-other` are the splits `train` and `val`. Keys are the paths of the audio files without the extension.

Sources: https://www.openslr.org/12 (LibriSpeech: lines of an id, a blank and the transcript; ids are speaker, chapter,
utterance); https://keithito.com/LJ-Speech-Dataset/ (LJSpeech: id|transcript|normalised transcript, without a header).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import DatasetError
from wdsctl.core.importers.annotations.annotated import (
    AnnotatedSample,
    AnnotationFormat,
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
from wdsctl.core.importers.common.files import extension_of_name
from wdsctl.core.importers.common.folder_files import FolderFiles, media_type_of, walk_folders
from wdsctl.core.importers.common.values import encode_json, read_head
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Part, Source, SourceDescription
from wdsctl.core.samples.naming import strip_extension
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message, pluralize

_TRANSCRIPT_ENDING = ".trans.txt"
_TABLE, _WAVS = "metadata.csv", "wavs"
_PROBED_FOLDERS = 500
_UTTERANCE = re.compile(r"([0-9]+)-([0-9]+)-[0-9]+")
#: Files of LibriSpeech about its speakers and books.
_ABOUT = frozenset({"SPEAKERS.TXT", "CHAPTERS.TXT", "BOOKS.TXT", "README.TXT", "LICENSE.TXT"})


def _match(path: str) -> FormatMatch | None:
    folder = _folder_of(path)
    wav = _first_wav_of_table(folder) if folder else ""
    if wav:
        return FormatMatch(0.95, f"{_TABLE} has transcripts of files such as {path_for_message(wav)}")
    if not folder or folder != path:
        return None
    for prefix, names in islice(walk_folders(path), _PROBED_FOLDERS):
        found = next((name for name in names.files if name.endswith(_TRANSCRIPT_ENDING)), "")
        if found and any(media_type_of(name) == "audio" for name in names.files):
            return FormatMatch(0.95, f"has transcripts such as {path_for_message(prefix + found)}")
    return None


def _read(path: str) -> Source:
    folder = _SpeechFolder(_folder_of(path) or path)
    return make_annotated_source(
        folder.files, folder.lines, folder.read_parts, folder.describe, make_missing_error=folder.missing_audio_error
    )


def _folder_of(path: str) -> str:
    """The folder of a dataset that the user names by itself, or by its metadata.csv; empty for any other file."""
    if source_files.is_folder(path):
        return path
    return (os.path.dirname(path) or ".") if os.path.basename(path) == _TABLE and source_files.is_file(path) else ""


class _Line(NamedTuple):
    """One line: its place, the id, and the fields after the id."""

    where: str
    name: str
    fields: tuple[str, ...]


class _SpeechFolder:
    """The lines of all transcripts, and the audio files they are about."""

    def __init__(self, root: str) -> None:
        self.files = FolderFiles(root)
        self.has_table = bool(_first_wav_of_table(root))
        self._audio = {strip_extension(path): path for path in self.files.paths if media_type_of(path) == "audio"}
        of_folders = (path for path in self.files.paths if path.endswith(_TRANSCRIPT_ENDING))
        self._transcripts = [_TABLE] if self.has_table else [*of_folders]
        self.lines = name_splits(line for path in self._transcripts for line in self._read_transcript(path))
        if not self.lines:
            hint = f"check the path: expected files *{_TRANSCRIPT_ENDING}, or {_TABLE} next to a folder {_WAVS}"
            raise not_found_error("the folder has no transcripts", root, hint)

    def _read_transcript(self, path: str) -> Iterator[AnnotatedSample]:
        folder = f"{_WAVS}/" if self.has_table else path[: path.rfind("/") + 1]
        split = split_of_folders(path)
        for where, row in read_lines(self.files, path):
            line = row.decode("utf-8", "surrogateescape").strip("\r")
            name, *fields = line.split("|") if self.has_table else line.split(" ", 1)
            stem = f"{folder}{name}"
            label = _Line(where, stem.rpartition("/")[2], tuple(fields))
            yield AnnotatedSample(self._audio.get(stem, ""), label, where, stem, split, key=stem)

    def missing_audio_error(self, sample: AnnotatedSample) -> DatasetError:
        """The error of a line without an audio file. Raises the one of a line that cannot be read."""
        self.read_parts(sample.label)
        problem = f"no audio file {path_for_message(sample.reference)}.*"
        return missing_error(problem, "copy the dataset again from its origin", sample.where)

    def read_parts(self, line: _Line) -> list[Part]:
        """Raises DatasetError WDS124 for a line that is not UTF-8, WDS232 for another number of fields."""
        if any("\udc80" <= letter <= "\udcff" for letter in "".join((line.name, *line.fields))):
            raise not_utf8_error(line.where, "LATIN1")
        if len(line.fields) not in ((1, 2) if self.has_table else (1,)):
            expected, layout = ("1 or 2", "ID|text|normalized text") if self.has_table else ("1", "ID text")
            raise DatasetError(
                f"the line has {pluralize(len(line.fields), 'field')} after the id, expected {expected}",
                hint=f"write the line as `{layout}`",
                where=line.where,
                code="WDS232",
            )
        facts = {"id": line.name}
        if self.has_table:
            facts |= dict(zip(("text", "normalized_text"), line.fields, strict=False))
            return [Part("json", encode_json(facts))]
        if found := _UTTERANCE.fullmatch(line.name):
            facts |= {"speaker": found[1], "chapter": found[2]}
        return [Part("json", encode_json(facts)), Part("txt", line.fields[0].strip().encode())]

    def describe(self) -> SourceDescription:
        unused = unused_files(self.files, self.lines, self._transcripts)
        unused = tuple(path for path in unused if os.path.basename(path) not in _ABOUT)
        empty = [each.where for each in self.lines if each.label.fields and not "".join(each.label.fields).strip()]
        findings = tuple(transcript_findings(self.files, empty, unused))
        endings = ",".join(sorted({extension_of_name(path) for path in self._audio.values()}))
        return SourceDescription(tuple(self._field_uses(endings)), findings, self._config(endings), unused)

    def _config(self, endings: str) -> DatasetConfig:
        if self.has_table:
            fields = {"audio": endings, "text": "json[normalized_text],json[text]"}
            return DatasetConfig("TranscriptionSample", fields)
        fields = {"audio": endings, "text": "txt", "speaker": "json[speaker]"}
        return DatasetConfig("TranscriptionSample", fields, optional=("speaker",))

    def _field_uses(self, endings: str) -> Iterator[FieldUse]:
        yield FieldUse("audio files", endings, pluralize(len(self._audio), "file"))
        if self.has_table:
            yield FieldUse(f"{_TABLE}: id", "json[id]", pluralize(len(self.lines), "line"))
            yield FieldUse(f"{_TABLE}: transcript", "json[text]")
            yield FieldUse(f"{_TABLE}: normalised transcript", "json[normalized_text]", "the text of the samples")
            return
        lines = f"{len(self._transcripts):,} files, {pluralize(len(self.lines), 'line')}"
        yield FieldUse(f"*{_TRANSCRIPT_ENDING}", "txt", lines)
        yield FieldUse("ids", "json[id], json[speaker], json[chapter]")
        for name in sorted({name for name in map(os.path.basename, self.files.paths) if name in _ABOUT}):
            yield FieldUse(name, "", "about the dataset, its speakers and books, not about one sample")
        yield from split_uses("folders", self.lines)


def _first_wav_of_table(root: str) -> str:
    """The audio file of the first line of metadata.csv, relative to the root; empty if the folder is no LJSpeech."""
    lines = read_head(os.path.join(root, _TABLE)).removeprefix(b"\xef\xbb\xbf").splitlines()
    name = lines[0].decode("utf-8", "surrogateescape").partition("|")[0] if lines and b"|" in lines[0] else ""
    path = f"{_WAVS}/{name}.wav"
    return (
        path if name and "/" not in name and "\0" not in name and source_files.is_file(os.path.join(root, path)) else ""
    )


IMPORTER = AnnotationFormat("speech", "speech with transcripts, as LibriSpeech and LJSpeech have them", _match, _read)
