"""Speech whose transcripts are lines of an id and a text: Kaldi's data folders (`wav.scp`, `text`), and AISHELL.

Parts: the audio file; `txt`, the transcript; `json` with the id and, if it is known, the speaker. Keys are the ids.
Folders such as `train` and `dev` are splits. A line of wav.scp that is a command is never run.

Sources: https://kaldi-asr.org/doc/data_prep.html (the files); https://www.openslr.org/33 (AISHELL-1:
`wav/SPLIT/SPEAKER` and one file in `transcript`).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
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
    probe_folders,
    unused_files_findings,
)
from wdsctl.core.importers.common.samples import SourceSample
from wdsctl.core.importers.common.source import SampleSource
from wdsctl.core.importers.common.values import check_format_options, encode_json, read_head
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Options, Part, Source, SourceDescription
from wdsctl.core.samples.naming import safe_key, strip_extension
from wdsctl.core.storage import source_files
from wdsctl.core.text import path_for_message, pluralize

_TEXT, _AUDIO, _SPEAKERS, _SEGMENTS = "text", "wav.scp", "utt2spk", "segments"
#: Files of a data folder that Kaldi derives from the others, or that features belong to.
_DERIVED = frozenset({"spk2utt", "utt2dur", "utt2num_frames", "reco2dur", "spk2gender", "utt2lang", "frame_shift"})
_TRANSCRIPTS = "transcript"  # AISHELL's folder
_MAX_DEPTH = 3
_PROBED_FOLDERS = 50
_SPLIT_FOLDER = re.compile("(train|dev|test)([-_].*)?")


class KaldiImporter:
    """There are no options."""

    name = "kaldi"
    about = "speech with lines of an id and a text, as Kaldi's data folders and AISHELL have them"

    def recognise(self, path: str) -> FormatMatch | None:
        try:
            found = _find_texts(path, _PROBED_FOLDERS)
        except (OSError, WdsctlError):
            return None
        return FormatMatch(0.95, f"{path_for_message(found[0])} has lines of an id and a transcript") if found else None

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, ())
        texts = _find_texts(path)
        if not texts:
            raise InputError(
                f"the folder has no files {_TEXT} and {_AUDIO}",
                hint="check the path: pass a data folder of Kaldi, or the folder of several",
                where=path_for_message(path),
                code="WDS003",
            )
        folder = _Utterances(path, texts)
        return SampleSource(
            ListedSamples(folder.files, folder.lines, folder.make_sample), folder.split_names, folder.describe
        )


IMPORTER = KaldiImporter()


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
    """A transcript and the audio file it is about: `audio` is empty if there is none, and `reference` names it."""

    where: str
    key: str
    text: str
    audio: str
    reference: str
    speaker: str
    split: str


class _Utterances:
    def __init__(self, root: str, texts: Sequence[str]) -> None:
        self.files = FolderFiles(root)
        self._texts = list(texts)
        self._tables: list[str] = []
        self._by_name: dict[str, list[str]] = {}
        for path in self.files.paths:
            if media_type_of(path) == "audio":
                name = path.rpartition("/")[2]
                self._by_name.setdefault(name, []).append(path)
                self._by_name.setdefault(strip_extension(name), []).append(path)
        self.lines = [line for path in texts for line in self._read_text(path)]
        self._splits = normalize_split_names(dict.fromkeys(each.split for each in self.lines if each.split))

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(self._splits.values())

    def _read_text(self, path: str) -> Iterator[_Line]:
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
        audio = dict(self._read_pairs(f"{folder}{_AUDIO}")) if is_kaldi else {}
        speakers = dict(self._read_pairs(f"{folder}{_SPEAKERS}")) if is_kaldi else {}
        for number, (key, text) in enumerate(self._read_pairs(path), 1):
            reference = audio.get(key, "") if is_kaldi else key
            found = self._find_audio(reference, folder)
            speaker = speakers.get(key, "") if is_kaldi else os.path.basename(os.path.dirname(found))
            split = _split_of(folder if is_kaldi else found)
            where = f"{path_for_message(os.path.join(self.files.root, path))}:{number}"
            yield _Line(where, key, text, found, reference, speaker, split)

    def _read_pairs(self, path: str) -> Iterator[tuple[str, str]]:
        """(first word, the rest) of each line; nothing if there is no such file. Raises DatasetError WDS124."""
        if path not in self.files.paths:
            return
        self._tables.append(path)
        text = self.files.read(path, MAX_INDEX_BYTES).removeprefix(b"\xef\xbb\xbf")
        for number, line in enumerate(text.split(b"\n"), 1):
            try:
                key, _, rest = line.decode().strip().partition(" ")
            except UnicodeDecodeError as error:
                raise DatasetError(
                    "the line is not UTF-8",
                    hint="convert the file: `iconv -f GB18030 -t UTF-8 OLD > NEW`, with its encoding for GB18030",
                    where=f"{path_for_message(os.path.join(self.files.root, path))}:{number}",
                    code="WDS124",
                ) from error
            if key:
                yield key, rest.strip()

    def _find_audio(self, reference: str, folder: str) -> str:
        """The audio file that a line names; of a path of another machine, the only file with its name."""
        root = source_files.absolute(self.files.root)
        below = os.path.relpath(reference, root) if os.path.isabs(reference) else reference
        for path in (os.path.normpath(f"{folder}{below}"), os.path.normpath(below)):
            if reference and path in self.files.paths:
                return path
        found = self._by_name.get(reference.rpartition("/")[2], [])
        return found[0] if len(found) == 1 else ""

    def make_sample(self, line: _Line) -> SourceSample:
        """Raises DatasetError WDS231 for a line without an audio file."""
        if not line.audio:
            is_command = line.reference.endswith("|")
            raise DatasetError(
                f"the audio of {path_for_message(line.key)} is a command, which wdsctl never runs: {line.reference!r}"
                if is_command
                else f"no audio file {path_for_message(line.reference or line.key)}",
                hint=f"run the commands, and write the names of the files that they make into {_AUDIO}"
                if is_command
                else "copy the recordings into the folder of the transcripts",
                where=line.where,
                code="WDS231",
            )
        facts = {"id": line.key} | ({"speaker": line.speaker} if line.speaker else {})
        parts = (
            self.files.part(extension_of_name(line.audio), line.audio),
            Part("txt", line.text.encode()),
            Part("json", encode_json(facts)),
        )
        return SourceSample(safe_key(line.key), parts, split=self._splits.get(line.split, ""))

    def describe(self) -> SourceDescription:
        used = {*self._tables, *(each.audio for each in self.lines)}
        unused = tuple(path for path in self.files.paths if path not in used)
        derived = [path for path in unused if path.rpartition("/")[2] in _DERIVED]
        rest = tuple(path for path in unused if path not in derived)
        endings = ",".join(sorted({extension_of_name(each.audio) for each in self.lines if each.audio}))
        fields = {"audio": endings or "wav", "text": "txt", "speaker": "json[speaker]"}
        config = DatasetConfig("TranscriptionSample", fields, optional=("speaker",))
        uses = [
            FieldUse("transcripts", "txt", pluralize(len(self.lines), "line")),
            FieldUse("audio files", endings, pluralize(len({each.audio for each in self.lines if each.audio}), "file")),
            FieldUse("speakers", "json[speaker]", f"{len({each.speaker for each in self.lines}):,}"),
            *(FieldUse(path, "", "follows from the other files") for path in derived),
        ]
        counts = Counter(self._splits.get(each.split, "") for each in self.lines)
        uses += [
            FieldUse("folders", f"split {split}", pluralize(counts[split], "sample")) for split in self.split_names
        ]
        return SourceDescription(tuple(uses), tuple(self._findings(rest)), config, rest)

    def _findings(self, unused: Sequence[str]) -> Iterator[Finding]:
        empty = [each for each in self.lines if not each.text]
        if empty:
            message = f"{pluralize(len(empty), 'transcript')} without text, such as {empty[0].where}"
            yield Finding(code="WDS148", severity="warning", message=message, count=len(empty))
        yield from unused_files_findings(unused, "no line of a transcript names it", self.files.hidden)


def _split_of(path: str) -> str:
    found = (_SPLIT_FOLDER.fullmatch(name) for name in path.split("/")[:-1])
    return next((each[1] for each in found if each), "")
