"""Speech with transcripts: LibriSpeech (`*.trans.txt` in every folder) and LJSpeech (`metadata.csv` and `wavs/`).

Parts: the audio file and `json`; of LibriSpeech also `txt`, the transcript. Folders such as `train-clean-100` and
`dev-other` are the splits `train` and `val`.

Sources: https://www.openslr.org/12 (LibriSpeech: lines of an id, a blank and the transcript; ids are speaker, chapter,
utterance); https://keithito.com/LJ-Speech-Dataset/ (LJSpeech: id|transcript|normalised transcript, without a header).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import DatasetError, Finding, InputError, WdsctlError
from wdsctl.core.file_limits import MAX_INDEX_BYTES
from wdsctl.core.importers.common.files import extension_of_name
from wdsctl.core.importers.common.folder_files import (
    FolderFiles,
    ListedSamples,
    media_type_of,
    normalize_split_names,
    unused_files_findings,
    walk_folders,
)
from wdsctl.core.importers.common.samples import SourceSample
from wdsctl.core.importers.common.source import SampleSource
from wdsctl.core.importers.common.values import check_format_options, encode_json, read_head
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Options, Part, Source, SourceDescription
from wdsctl.core.samples.naming import safe_key, strip_extension
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message, pluralize

_TRANSCRIPT_ENDING = ".trans.txt"
_TABLE, _WAVS = "metadata.csv", "wavs"
_PROBED_FOLDERS = 500
_SPLIT_FOLDER = re.compile("(train|dev|test)([-_].*)?")
_UTTERANCE = re.compile(r"([0-9]+)-([0-9]+)-[0-9]+")
#: Files of LibriSpeech about its speakers and books.
_ABOUT = frozenset({"SPEAKERS.TXT", "CHAPTERS.TXT", "BOOKS.TXT", "README.TXT", "LICENSE.TXT"})


class SpeechImporter:
    """Keys are the paths of the audio files without the extension. There are no options."""

    name = "speech"
    about = "speech with transcripts, as LibriSpeech and LJSpeech have them"

    def recognise(self, path: str) -> FormatMatch | None:
        folder = _folder_of(path)
        if not folder:
            return None
        try:
            wav = _first_wav_of_table(folder)
            if wav:
                return FormatMatch(0.95, f"{_TABLE} has transcripts of files such as {path_for_message(wav)}")
            if folder != path:
                return None
            for prefix, names in islice(walk_folders(path), _PROBED_FOLDERS):
                found = next((name for name in names.files if name.endswith(_TRANSCRIPT_ENDING)), "")
                if found and any(media_type_of(name) == "audio" for name in names.files):
                    return FormatMatch(0.95, f"has transcripts such as {path_for_message(prefix + found)}")
        except (OSError, WdsctlError):
            return None
        return None

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, ())
        folder = _SpeechFolder(_folder_of(path) or path)
        samples = ListedSamples(folder.files, folder.utterances, folder.make_sample)
        return SampleSource(samples, folder.split_names, folder.describe)


IMPORTER = SpeechImporter()


def _folder_of(path: str) -> str:
    """The folder of a dataset that the user names by itself, or by its metadata.csv; empty for any other file."""
    if source_files.is_folder(path):
        return path
    return (os.path.dirname(path) or ".") if os.path.basename(path) == _TABLE and source_files.is_file(path) else ""


class _Utterance(NamedTuple):
    """One line: its place, the file without its extension, and the fields after the id."""

    where: str
    stem: str
    fields: tuple[str, ...]
    split: str


class _SpeechFolder:
    """The lines of all transcripts, and the audio files they are about."""

    def __init__(self, root: str) -> None:
        self.files = FolderFiles(root)
        self.has_table = bool(_first_wav_of_table(root))
        self._audio = {strip_extension(path): path for path in self.files.paths if media_type_of(path) == "audio"}
        self._transcripts = [_TABLE] if self.has_table else self._list_transcripts()
        self.utterances: list[_Utterance] = []
        for path in self._transcripts:
            self.utterances += self._read_transcript(path)
        splits = normalize_split_names(each.split for each in self.utterances)
        self.utterances = [each._replace(split=splits[each.split]) for each in self.utterances]
        if not self.utterances:
            raise InputError(
                "the folder has no transcripts",
                hint=f"check the path: expected files *{_TRANSCRIPT_ENDING}, or {_TABLE} next to a folder {_WAVS}",
                where=path_for_message(root),
                code="WDS003",
            )

    def _list_transcripts(self) -> list[str]:
        return [path for path in self.files.paths if path.endswith(_TRANSCRIPT_ENDING)]

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.split for each in self.utterances if each.split))

    def _read_transcript(self, path: str) -> Iterator[_Utterance]:
        folder = f"{_WAVS}/" if self.has_table else path[: path.rfind("/") + 1]
        found = (_SPLIT_FOLDER.fullmatch(name) for name in path.split("/")[:-1])
        split = next((each[1] for each in found if each), "")
        text = self.files.read(path, MAX_INDEX_BYTES).removeprefix(b"\xef\xbb\xbf")
        shown = path_for_message(os.path.join(self.files.root, path))
        for number, line in enumerate(text.split(b"\n"), 1):
            row = line.decode("utf-8", "surrogateescape").strip("\r")
            if row.strip():
                name, *fields = row.split("|") if self.has_table else row.split(" ", 1)
                yield _Utterance(f"{shown}:{number}", f"{folder}{name}", tuple(fields), split)

    def make_sample(self, utterance: _Utterance) -> SourceSample:
        """Find the audio file of a line. Raises DatasetError WDS231 if there is none, WDS232 for an odd line."""
        name = utterance.stem.rpartition("/")[2]
        if any("\udc80" <= letter <= "\udcff" for letter in "".join((name, *utterance.fields))):
            raise DatasetError(
                "the line is not UTF-8",
                hint="convert the file: `iconv -f LATIN1 -t UTF-8 OLD > NEW`, with its encoding instead of LATIN1",
                where=utterance.where,
                code="WDS124",
            )
        if len(utterance.fields) not in ((1, 2) if self.has_table else (1,)):
            expected, layout = ("1 or 2", "ID|text|normalized text") if self.has_table else ("1", "ID text")
            raise DatasetError(
                f"the line has {pluralize(len(utterance.fields), 'field')} after the id, expected {expected}",
                hint=f"write the line as `{layout}`",
                where=utterance.where,
                code="WDS232",
            )
        audio = self._audio.get(utterance.stem)
        if audio is None:
            raise DatasetError(
                f"no audio file {path_for_message(utterance.stem)}.*",
                hint="copy the dataset again from its origin",
                where=utterance.where,
                code="WDS231",
            )
        facts = {"id": name}
        parts = [self.files.part(extension_of_name(audio), audio)]
        if self.has_table:
            facts |= dict(zip(("text", "normalized_text"), utterance.fields, strict=False))
            return SourceSample(safe_key(utterance.stem), (*parts, Part("json", encode_json(facts))))
        if found := _UTTERANCE.fullmatch(name):
            facts |= {"speaker": found[1], "chapter": found[2]}
        text = Part("txt", utterance.fields[0].strip().encode())
        return SourceSample(
            safe_key(utterance.stem), (*parts, Part("json", encode_json(facts)), text), split=utterance.split
        )

    def describe(self) -> SourceDescription:
        unused = self._unused_files()
        return SourceDescription(tuple(self._field_uses()), tuple(self._findings(unused)), self._config(), unused)

    def _unused_files(self) -> tuple[str, ...]:
        named = {each.stem for each in self.utterances}
        used = {*self._transcripts, *(path for stem, path in self._audio.items() if stem in named)}
        return tuple(path for path in self.files.paths if path not in used and os.path.basename(path) not in _ABOUT)

    def _extensions(self) -> str:
        return ",".join(sorted({extension_of_name(path) for path in self._audio.values()}))

    def _config(self) -> DatasetConfig:
        if self.has_table:
            fields = {"audio": self._extensions(), "text": "json[normalized_text],json[text]"}
            return DatasetConfig("TranscriptionSample", fields)
        fields = {"audio": self._extensions(), "text": "txt", "speaker": "json[speaker]"}
        return DatasetConfig("TranscriptionSample", fields, optional=("speaker",))

    def _field_uses(self) -> Iterator[FieldUse]:
        yield FieldUse("audio files", self._extensions(), pluralize(len(self._audio), "file"))
        if self.has_table:
            yield FieldUse(f"{_TABLE}: id", "json[id]", pluralize(len(self.utterances), "line"))
            yield FieldUse(f"{_TABLE}: transcript", "json[text]")
            yield FieldUse(f"{_TABLE}: normalised transcript", "json[normalized_text]", "the text of the samples")
            return
        lines = f"{len(self._transcripts):,} files, {pluralize(len(self.utterances), 'line')}"
        yield FieldUse(f"*{_TRANSCRIPT_ENDING}", "txt", lines)
        yield FieldUse("ids", "json[id], json[speaker], json[chapter]")
        for name in sorted({name for name in map(os.path.basename, self.files.paths) if name in _ABOUT}):
            yield FieldUse(name, "", "about the dataset, its speakers and books, not about one sample")
        by_split = Counter(each.split for each in self.utterances)
        for split in self.split_names:
            yield FieldUse("folders", f"split {split}", pluralize(by_split[split], "sample"))

    def _findings(self, unused: Iterable[str]) -> Iterator[Finding]:
        empty = [each for each in self.utterances if each.fields and not "".join(each.fields).strip()]
        if empty:
            yield Finding(
                code="WDS148",
                severity="warning",
                message=f"{pluralize(len(empty), 'transcript')} without text, such as {empty[0].where}",
                count=len(empty),
            )
        yield from unused_files_findings(unused, "no line of a transcript names it", self.files.hidden)


def _first_wav_of_table(root: str) -> str:
    """The audio file of the first line of metadata.csv, relative to the root; empty if the folder is no LJSpeech."""
    lines = read_head(os.path.join(root, _TABLE)).removeprefix(b"\xef\xbb\xbf").splitlines()
    name = lines[0].decode("utf-8", "surrogateescape").partition("|")[0] if lines and b"|" in lines[0] else ""
    path = f"{_WAVS}/{name}.wav"
    return (
        path if name and "/" not in name and "\0" not in name and source_files.is_file(os.path.join(root, path)) else ""
    )
