"""VQA v1 and v2: JSON files of questions and of annotations, about pictures of COCO.

A question is a sample: the picture, and `json` with the records of the question and of its annotation. Keys are ids of
questions. Files of different splits (`train2014`, `val2014`) make splits; a split without annotations has no answers.

Source: https://visualqa.org/vqa_v2_teaser.html, https://visualqa.org/download.html (the files and their fields).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import DatasetError, Finding
from wdsctl.core.importers.annotations.annotated import (
    AnnotatedSample,
    AnnotationFormat,
    endings_of,
    findings_about,
    make_annotated_source,
    missing_error,
    name_splits,
    not_found_error,
    split_uses,
    unused_files,
)
from wdsctl.core.importers.annotations.labelled import PictureIndex
from wdsctl.core.importers.common.folder_files import (
    FolderFiles,
    probe_folders,
    split_of_folder,
    unused_files_findings,
)
from wdsctl.core.importers.common.text import JsonFile
from wdsctl.core.importers.common.values import encode_json, read_head
from wdsctl.core.importers.protocol import FieldUse, FormatMatch, Part, Source, SourceDescription
from wdsctl.core.text import path_for_message, pluralize

_QUESTIONS, _ANNOTATIONS = "questions", "annotations"
_KEYS = {
    _QUESTIONS: (b'"questions"', b'"question_id"', b'"question"'),
    _ANNOTATIONS: (b'"annotations"', b'"question_id"', b'"answers"'),
}
_READ = ("question", "answers")
_HEAD_BYTES = 1 << 16
_Span = tuple[int, int, int]  # file, start, stop


def _match(path: str) -> FormatMatch | None:
    questions = [name for name, kind in _find_files(path).items() if kind == _QUESTIONS]
    return FormatMatch(0.95, f"{path_for_message(questions[0])} has questions of VQA") if questions else None


def _read(path: str) -> Source:
    found = _find_files(path)
    if _QUESTIONS not in found.values():
        hint = "check the path: pass the folder of the questions, annotations and pictures"
        raise not_found_error("the folder has no JSON file with questions of VQA", path, hint)
    folder = _VqaFolder(path, found)
    return make_annotated_source(
        folder.files,
        folder.questions,
        folder.read_parts,
        folder.describe,
        make_missing_error=folder.missing_picture_error,
        close=folder.close,
    )


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
    """Where a question is, and its id."""

    span: _Span
    number: Any


class _VqaFolder:
    """The questions of all files, and where their annotations are. Memory: about 700 bytes for each question."""

    def __init__(self, root: str, found: dict[str, str]) -> None:
        self.files = FolderFiles(root)
        self._names = list(found)
        self._opened = [JsonFile(os.path.join(root, name)) for name in found]
        self._answers: dict[Any, _Span] = {}
        lists = {kind: [n for n, each in enumerate(found.values()) if each == kind] for kind in _KEYS}
        try:
            for number in lists[_ANNOTATIONS]:
                self._index_answers(number)
            index = PictureIndex(self.files)
            self.questions = name_splits(
                question for number in lists[_QUESTIONS] for question in self._index_questions(number, index)
            )
        except BaseException:  # also on Ctrl-C: no caller can close the files yet
            self.close()
            raise

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

    def _index_questions(self, number: int, index: PictureIndex) -> Iterator[AnnotatedSample]:
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
            question = _Question((number, start, stop), record["question_id"])
            yield AnnotatedSample(picture, question, reference=f"{reference}.jpg", split=split, key=question.number)

    def _parse(self, number: int, start: int, stop: int) -> dict[str, Any]:
        record = self._opened[number].parse(start, stop)
        if not isinstance(record, dict) or not isinstance(record.get("question_id"), int | str):
            raise self._damaged_error(number, f"an entry has no question_id (byte {start:,})")
        return record

    def _damaged_error(self, number: int, what: str) -> DatasetError:
        where = path_for_message(os.path.join(self.files.root, self._names[number]))
        return DatasetError(what, hint="check its origin: the file is not VQA's", where=where, code="WDS233")

    def missing_picture_error(self, sample: AnnotatedSample) -> DatasetError:
        question: _Question = sample.label
        return missing_error(
            f"{path_for_message(sample.reference)!r}: no picture of this name is in the folder",
            "copy the pictures of COCO into the folder of the questions",
            f"{path_for_message(self._names[question.span[0]])}, question {question.number}",
        )

    def read_parts(self, question: _Question) -> list[Part]:
        return [Part("json", encode_json(self._facts_of_question(question)))]

    def _facts_of_question(self, question: _Question) -> dict[str, Any]:
        facts = self._parse(*question.span)
        return facts | self._parse(*self._answers[question.number]) if question.number in self._answers else facts

    def describe(self) -> SourceDescription:
        unused = unused_files(self.files, self.questions, self._names)
        endings = endings_of(self.questions)
        fields = {"image": endings or "jpg", "context": "json[question]", "answers": "json[answers][*][answer]"}
        config = DatasetConfig("VQASample", fields, optional=("answers",))
        return SourceDescription(tuple(self._field_uses(endings)), tuple(self._findings(unused)), config, unused)

    def _field_uses(self, endings: str) -> Iterator[FieldUse]:
        pictures = {each.path for each in self.questions if each.path}
        yield FieldUse("questions", "json[question]", f"{pluralize(len(self.questions), 'question')}, one sample each")
        yield FieldUse("pictures", endings, pluralize(len(pictures), "picture"))
        yield FieldUse("annotations", "json[answers]", f"{len(self._answers):,}, joined by question_id")
        first = next((each for each in self.questions if each.key in self._answers), None)
        facts = self._facts_of_question(first.label) if first else {}
        yield from (FieldUse(name, f"json[{name}]") for name in facts if name not in _READ)
        yield from split_uses("data_subtype", self.questions)

    def _findings(self, unused: Sequence[str]) -> Iterator[Finding]:
        numbers = {each.key for each in self.questions}
        lone = [number for number in self._answers if number not in numbers]
        yield from findings_about("WDS232", lone, "annotation", "without a question", severity="error", show=repr)
        with_answers = {each.split for each in self.questions if each.key in self._answers}
        bare = [each.key for each in self.questions if each.split in with_answers and each.key not in self._answers]
        yield from findings_about("WDS148", bare, "question", "without an annotation", show=repr)
        yield from unused_files_findings(unused, "no question names it", self.files.hidden)

    def close(self) -> None:
        for file in self._opened:
            file.close()


IMPORTER = AnnotationFormat("vqa", "VQA v1 and v2: questions and answers about pictures, in JSON files", _match, _read)
