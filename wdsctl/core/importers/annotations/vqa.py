"""VQA v1 and v2: JSON files of questions and of annotations, about pictures of COCO.

A question is a sample: the picture, and `json` with the records of the question and of its annotation. Keys are ids of
questions. Files of different splits (`train2014`, `val2014`) make splits; a split without annotations has no answers.

Source: https://visualqa.org/vqa_v2_teaser.html, https://visualqa.org/download.html (the files and their fields).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import DatasetError, Finding, InputError, WdsctlError
from wdsctl.core.importers.annotations.labelled import PictureIndex
from wdsctl.core.importers.common.files import extension_of_name
from wdsctl.core.importers.common.folder_files import (
    FolderFiles,
    ListedSamples,
    normalize_split_names,
    probe_folders,
    split_of_folder,
    unused_files_findings,
)
from wdsctl.core.importers.common.samples import SourceSample
from wdsctl.core.importers.common.source import SampleSource
from wdsctl.core.importers.common.text import JsonFile
from wdsctl.core.importers.common.values import check_format_options, encode_json, read_head
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Options, Part, Source, SourceDescription
from wdsctl.core.samples.naming import safe_key
from wdsctl.core.text import path_for_message, pluralize

_QUESTIONS, _ANNOTATIONS = "questions", "annotations"
_KEYS = {
    _QUESTIONS: (b'"questions"', b'"question_id"', b'"question"'),
    _ANNOTATIONS: (b'"annotations"', b'"question_id"', b'"answers"'),
}
_READ = ("question", "answers")
_HEAD_BYTES = 1 << 16
_Span = tuple[int, int, int]  # file, start, stop


class VqaImporter:
    """Keys are the ids of questions. There are no options."""

    name = "vqa"
    about = "VQA v1 and v2: questions and answers about pictures, in JSON files"

    def recognise(self, path: str) -> FormatMatch | None:
        try:
            found = _find_files(path)
        except (OSError, WdsctlError):
            return None
        questions = [name for name, kind in found.items() if kind == _QUESTIONS]
        return FormatMatch(0.95, f"{path_for_message(questions[0])} has questions of VQA") if questions else None

    def open(self, path: str, options: Options) -> Source:
        check_format_options(self.name, options, ())
        found = _find_files(path)
        if _QUESTIONS not in found.values():
            raise InputError(
                "the folder has no JSON file with questions of VQA",
                hint="check the path: pass the folder of the questions, annotations and pictures",
                where=path_for_message(path),
                code="WDS003",
            )
        folder = _VqaFolder(path, found)
        samples = ListedSamples(folder.files, folder.questions, folder.make_sample, close=folder.close)
        return SampleSource(samples, folder.split_names, folder.describe)


IMPORTER = VqaImporter()


def _find_files(path: str) -> dict[str, str]:
    """Files of questions and annotations in a folder and the folders in it, relative to it -> what they hold."""
    names = [f"{prefix}{name}" for prefix, names in probe_folders(path, depth=1) for name in names.files]
    found: dict[str, str] = {}
    for name in names:
        if name.lower().endswith(".json") and re.search("question|annotation|vqa", name, re.IGNORECASE):
            head = read_head(os.path.join(path, name), _HEAD_BYTES)
            kinds = [kind for kind, keys in _KEYS.items() if all(key in head for key in keys)]
            if kinds:
                found[name] = kinds[0]
    return found


class _Question(NamedTuple):
    """`picture`: empty if no picture has the name `reference`. `split`: the word for it in the name of the subset."""

    question: _Span
    number: Any
    picture: str
    reference: str
    split: str


class _VqaFolder:
    """The questions of all files, and where their annotations are. Memory: about 500 bytes for each question."""

    def __init__(self, root: str, found: dict[str, str]) -> None:
        self.files = FolderFiles(root)
        self._names = list(found)
        self._opened = [JsonFile(os.path.join(root, name)) for name in found]
        self._answers: dict[Any, _Span] = {}
        self._lists = {kind: [n for n, each in enumerate(found.values()) if each == kind] for kind in _KEYS}
        self.questions: list[_Question] = []
        try:
            for number in self._lists[_ANNOTATIONS]:
                self._index_answers(number)
            index = PictureIndex(self.files)
            for number in self._lists[_QUESTIONS]:
                self.questions += self._index_questions(number, index)
        except BaseException:  # also on Ctrl-C: no caller can close the files yet
            self.close()
            raise
        self._splits = normalize_split_names(dict.fromkeys(each.split for each in self.questions if each.split))

    @property
    def split_names(self) -> tuple[str, ...]:
        return tuple(self._splits.values())

    def _facts_of(self, number: int, name: str) -> tuple[dict[str, str], int]:
        """(the texts beside the list of a file, the offset of the list). Raises DatasetError WDS233."""
        file = self._opened[number]
        facts: dict[str, str] = {}
        begin = -1
        for member, at in file.members():
            if member == name:
                begin = at
            elif file.first_byte(at) == b'"':
                facts[member] = str(file.parse(at, file.value_end(at)))
        if begin < 0 or file.first_byte(begin) != b"[":
            raise self._damaged_error(number, f"the file has no list of {name}")
        return facts, begin

    def _index_answers(self, number: int) -> None:
        _, begin = self._facts_of(number, _ANNOTATIONS)
        for start, stop in self._opened[number].elements(begin):
            record = self._parse(number, start, stop)
            self._answers[record["question_id"]] = number, start, stop

    def _index_questions(self, number: int, index: PictureIndex) -> Iterator[_Question]:
        facts, begin = self._facts_of(number, _QUESTIONS)
        subset = facts.get("data_subtype", "")
        kind = "COCO" if facts.get("data_type", "mscoco") == "mscoco" else facts["data_type"]
        split = split_of_folder(subset.split("-")[0])
        of_pictures = re.sub("-dev", "", subset)  # test-dev2015 has pictures of test2015
        for start, stop in self._opened[number].elements(begin):
            record = self._parse(number, start, stop)
            image = record.get("image_id")
            stem = f"{image:012d}" if isinstance(image, int) else str(image)
            reference = f"{of_pictures}/{kind}_{of_pictures}_{stem}"
            names = (reference, f"{of_pictures}/{stem}", f"{of_pictures}/{image}")
            endings = ("jpg", "png")
            picture = next(filter(None, (index.find(f"{name}.{ending}") for name in names for ending in endings)), "")
            yield _Question((number, start, stop), record["question_id"], picture, f"{reference}.jpg", split)

    def _parse(self, number: int, start: int, stop: int) -> dict[str, Any]:
        record = self._opened[number].parse(start, stop)
        if not isinstance(record, dict) or not isinstance(record.get("question_id"), int | str):
            raise self._damaged_error(number, f"an entry has no question_id (byte {start:,})")
        return record

    def _damaged_error(self, number: int, what: str) -> DatasetError:
        where = path_for_message(os.path.join(self.files.root, self._names[number]))
        return DatasetError(what, hint="check its origin: the file is not VQA's", where=where, code="WDS233")

    def make_sample(self, question: _Question) -> SourceSample:
        """Read a question and its annotation. Raises DatasetError WDS231 if there is no picture."""
        if not question.picture:
            raise DatasetError(
                f"{path_for_message(question.reference)!r}: no picture of this name is in the folder",
                hint="copy the pictures of COCO into the folder of the questions",
                where=f"{path_for_message(self._names[question.question[0]])}, question {question.number}",
                code="WDS231",
            )
        facts = self._parse(*question.question)
        if question.number in self._answers:
            facts |= self._parse(*self._answers[question.number])
        picture = self.files.part(extension_of_name(question.picture), question.picture)
        split = self._splits.get(question.split, "")
        return SourceSample(safe_key(str(question.number)), (picture, Part("json", encode_json(facts))), split=split)

    def describe(self) -> SourceDescription:
        used = {*self._names, *(each.picture for each in self.questions)}
        unused = tuple(path for path in self.files.paths if path not in used)
        endings = ",".join(sorted({extension_of_name(each.picture) for each in self.questions if each.picture}))
        fields = {"image": endings or "jpg", "context": "json[question]", "answers": "json[answers][*][answer]"}
        config = DatasetConfig("VQASample", fields, optional=("answers",))
        return SourceDescription(tuple(self._field_uses(endings)), tuple(self._findings(unused)), config, unused)

    def _field_uses(self, endings: str) -> Iterator[FieldUse]:
        pictures = {each.picture for each in self.questions if each.picture}
        yield FieldUse("questions", "json[question]", f"{pluralize(len(self.questions), 'question')}, one sample each")
        yield FieldUse("pictures", endings, pluralize(len(pictures), "picture"))
        yield FieldUse("annotations", "json[answers]", f"{len(self._answers):,}, joined by question_id")
        for key in self._other_keys():
            yield FieldUse(key, f"json[{key}]")
        counts = Counter(self._splits.get(each.split, "") for each in self.questions)
        for split in self.split_names:
            yield FieldUse("data_subtype", f"split {split}", pluralize(counts[split], "sample"))

    def _other_keys(self) -> list[str]:
        """The keys of the first annotated question and of its annotation that no field of the sample type reads."""
        for first in self.questions:
            if first.number in self._answers:
                facts = self._parse(*first.question) | self._parse(*self._answers[first.number])
                return [key for key in facts if key not in _READ]
        return []

    def _findings(self, unused: Sequence[str]) -> Iterator[Finding]:
        numbers = {each.number for each in self.questions}
        lone = [number for number in self._answers if number not in numbers]
        if lone:
            yield Finding(
                code="WDS232",
                severity="error",
                message=f"{pluralize(len(lone), 'annotation')} without a question, such as {lone[0]!r}",
                count=len(lone),
            )
        with_answers = {each.split for each in self.questions if each.number in self._answers}
        bare = [each for each in self.questions if each.split in with_answers and each.number not in self._answers]
        if bare:
            yield Finding(
                code="WDS148",
                severity="warning",
                message=f"{pluralize(len(bare), 'question')} without an annotation, such as {bare[0].number!r}",
                count=len(bare),
            )
        yield from unused_files_findings(unused, "no question names it", self.files.hidden)

    def close(self) -> None:
        for file in self._opened:
            file.close()
