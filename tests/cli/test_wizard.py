from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.build import some_shards
from tests.cli.reports import DETECTION, a_prepare_report, a_split_report
from tests.energon import energons
from tests.remote import uploaded
from tests.robots import make_v30
from wdsctl.cli.options import parse_field_map_option, parse_size_option
from wdsctl.cli.output import Output
from wdsctl.cli.wizard import (
    Interview,
    PrepareCommand,
    PrepareOutcome,
    command_lines,
    default_dest,
    prepare_with_questions,
)
from wdsctl.core import importers
from wdsctl.core.dataset.split_rules import parse_split_shares
from wdsctl.core.importers.protocol import FormatMatch
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.prepare import PrepareReport
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.split.report import Move
from wdsctl.core.split.split import SamplesWouldMoveError

QUIET = Output(quiet=True)


@dataclass
class Answers:
    """Answers in order; what was asked is kept."""

    answers: Iterator[str | bool]
    asked: list[str] = field(default_factory=list)

    def text(self, question: str, default: str) -> str:
        self.asked.append(question)
        answer = next(self.answers)
        assert isinstance(answer, str)
        return answer or default

    def confirm(self, question: str, *, default: bool = True, choices: str = "") -> bool:
        self.asked.append(question)
        answer = next(self.answers)
        assert isinstance(answer, bool)
        return answer


def answers(*given: str | bool) -> Answers:
    return Answers(iter(given))


@dataclass
class Runs:
    """Stands for the verb: keeps the requests and reports what it is told to."""

    report: PrepareReport = field(default_factory=lambda: a_prepare_report(detection=DETECTION))
    requests: list[PrepareCommand] = field(default_factory=list)

    def __call__(self, request: PrepareCommand, output: Output) -> PrepareReport:
        self.requests.append(request)
        return self.report


def talk(request: PrepareCommand, ask: Answers, runs: Runs, output: Output = QUIET) -> PrepareOutcome:
    """Nothing has run when the last question is asked."""
    return prepare_with_questions(
        request, Interview(ask), output, runs, lambda _request, _output: runs.report.detection
    )


@pytest.fixture
def photos(tmp_path: Path) -> str:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(b"x")
    (folder / "a.txt").write_bytes(b"x")
    return str(folder)


def test_a_raw_folder_needs_a_destination_and_a_split(photos: str) -> None:
    ask, runs = answers("", "8,1,1", True), Runs()

    talk(PrepareCommand(source=photos, dest=None, request=PrepareRequest()), ask, runs)

    [request] = runs.requests
    assert request.dest == f"{photos}-shards"
    assert request.request.split == parse_split_shares("8,1,1")
    assert [question.split()[0] for question in ask.asked] == ["folder", "split,", "use"]


@pytest.mark.parametrize(
    ("source", "dest"),
    [
        ("photos", "photos-shards"),
        ("a/photos//", "a/photos-shards"),
        (".", "{here}-shards"),
        ("./", "{here}-shards"),
        ("sub/..", "{here}-shards"),
    ],
)
def test_the_folder_for_the_shards_is_beside_the_raw_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, dest: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_dest(source) == dest.format(here=tmp_path)


def test_what_the_flags_say_is_not_asked(photos: str) -> None:
    ask, runs = answers(), Runs()
    options = PrepareRequest(split={"train": 1.0}, sample_type="CaptioningSample")

    talk(PrepareCommand(source=photos, dest="shards", request=options), ask, runs)

    assert ask.asked == []
    assert runs.requests == [PrepareCommand(source=photos, dest="shards", request=options)]


def test_an_empty_split_leaves_everything_in_train(photos: str) -> None:
    runs = Runs()
    talk(PrepareCommand(source=photos, dest="shards", request=PrepareRequest()), answers("", True), runs)
    assert runs.requests[0].request.split is None


def test_an_answer_that_makes_no_sense_is_asked_again(photos: str, capsys: pytest.CaptureFixture[str]) -> None:
    runs = Runs()

    request = PrepareCommand(source=photos, dest="shards", request=PrepareRequest())
    talk(request, answers("8,,1", "9,1", True), runs, Output())

    assert runs.requests[0].request.split == parse_split_shares("9,1")
    assert "before or after a comma" in capsys.readouterr().err


def test_a_detection_that_is_rejected_is_replaced_before_anything_runs(photos: str) -> None:
    ask, runs = answers("9,1", False, "vqua", "vqa", "", "image=jpg,context=txt", "image=jpg,context=json[q]"), Runs()

    talk(PrepareCommand(source=photos, dest="shards", request=PrepareRequest()), ask, runs)

    [request] = runs.requests
    assert request.request.sample_type == "VQASample"
    assert request.request.field_map == {"image": "jpg", "context": "json[q]"}


def test_the_detection_is_shown_with_its_reasons(photos: str, capsys: pytest.CaptureFixture[str]) -> None:
    talk(PrepareCommand(source=photos, dest="shards", request=PrepareRequest()), answers("9,1", True), Runs(), Output())

    shown = capsys.readouterr()
    assert shown.out == ""
    assert "CaptioningSample" in shown.err
    assert "not VQASample: no question in json" in shown.err


def test_a_crude_dataset_has_no_fields_to_ask_for(photos: str) -> None:
    runs = Runs()
    talk(PrepareCommand(source=photos, dest="shards", request=PrepareRequest()), answers("", False, "crude"), runs)
    assert (runs.requests[0].request.sample_type, runs.requests[0].request.field_map) == ("CrudeSample", {})


def test_nothing_has_run_when_the_last_question_is_left(photos: str) -> None:
    runs = Runs()
    with pytest.raises(StopIteration):
        talk(PrepareCommand(source=photos, dest="shards", request=PrepareRequest()), answers("8,1,1", False), runs)

    assert runs.requests == []


def test_a_type_that_is_accepted_is_the_one_that_is_written(photos: str) -> None:
    runs = Runs()
    outcome = talk(PrepareCommand(source=photos, dest="shards", request=PrepareRequest()), answers("", True), runs)

    [request] = runs.requests
    assert (request.request.sample_type, request.request.field_map) == (DETECTION.sample_type, DETECTION.field_map)
    assert "--sample-type CaptioningSample" in " ".join(command_lines(outcome.command, 1000))


def test_a_question_mark_lists_the_choices_and_the_question_comes_again(
    photos: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ask, runs = answers("?", "", "?", "8,1,1", False, "?", "vqa", "?", "image=jpg,context=json[q]"), Runs()
    talk(PrepareCommand(source=photos, dest=None, request=PrepareRequest()), ask, runs)

    assert [question.split()[0] for question in ask.asked] == [
        *("folder", "folder", "split,", "split,", "use", "sample", "sample", "field", "field")
    ]
    shown = capsys.readouterr().err
    for said in ("train=0.98,val=0.02", "OCRSample: ", "fields of VQASample", "(optional)", "parts: jpg, json"):
        assert said in shown


def test_a_detection_with_many_reasons_fits_on_a_screen_with_its_question(
    photos: str, capsys: pytest.CaptureFixture[str]
) -> None:
    many = replace(DETECTION, reasons=tuple(f"reason {i} {'so ' * 30}" for i in range(30)))
    runs = Runs(a_prepare_report(detection=many))
    talk(PrepareCommand(source=photos, dest="shards", request=PrepareRequest()), answers("", True), runs, Output())

    shown = capsys.readouterr().err
    assert "more reasons" in shown
    assert len(shown.splitlines()) < 22


def test_a_type_that_was_not_detected_is_not_asked_about(photos: str) -> None:
    ask = answers("")
    talk(
        PrepareCommand(source=photos, dest="shards", request=PrepareRequest()),
        ask,
        Runs(a_prepare_report(detection=None)),
    )
    assert len(ask.asked) == 1


def test_a_dataset_that_is_prepared_already_is_not_asked_about_its_split(tmp_path: Path) -> None:
    (tmp_path / ".wdsctl").mkdir()
    (tmp_path / ".wdsctl" / "dataset.yaml").write_text("")
    (tmp_path / "a.tar").write_bytes(b"")
    ask, runs = answers(), Runs(a_prepare_report(up_to_date=True, detection=None))

    talk(PrepareCommand(source=str(tmp_path), dest=None, request=PrepareRequest()), ask, runs)

    assert ask.asked == []


def test_a_dataset_that_energon_has_divided_is_not_asked_about_its_split(tmp_path: Path) -> None:
    ask, runs = answers(), Runs(report=a_prepare_report(detection=None))
    talk(PrepareCommand(source=energons(tmp_path), dest=None, request=PrepareRequest()), ask, runs)
    assert (ask.asked, runs.requests[0].request.split) == ([], None)


def test_lines_are_prepared_in_place_and_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "qa.jsonl").write_bytes(b"{}\n")
    ask = answers("8,1,1", True)
    runs = Runs()

    talk(PrepareCommand(source=str(tmp_path / "qa.jsonl"), dest=None, request=PrepareRequest()), ask, runs, Output())

    assert "JSONL that names no media files beside it: prepare writes only a catalog" in capsys.readouterr().err
    assert [request.dest for request in runs.requests] == [None]
    assert not any("folder for the shards" in question for question in ask.asked)


def test_yes_confirms_and_still_lets_values_be_asked() -> None:
    interview = Interview(answers("shards"), yes=True)
    assert interview.confirm("use it?")
    assert not interview.has_prompted
    assert interview.text("folder") == "shards"
    assert interview.has_prompted


def test_only_what_differs_from_the_defaults_is_in_the_command() -> None:
    request = PrepareCommand(source="my photos", dest=None, request=PrepareRequest(index=IndexRequest(workers=7)))
    assert command_lines(request, 80) == ["  wdsctl prepare 'my photos' --no-input"]


def test_every_option_can_be_said_in_the_command() -> None:
    options = PrepareRequest(
        shard_samples=5,
        shard_size=1000,
        template="t-{index}.tar",
        parts=("jpg", "txt"),
        on_missing="skip",
        split={"train": 0.9999999, "val": 1e-7},
        split_by="sample",
        seed=3,
        sample_type="CaptioningSample",
        field_map={"image": "jpg,png", "caption": "json[a,b=c]"},
        redetect=True,
        moved=True,
        catalog="my catalog",
        index=IndexRequest(exclude=("a*", "b c"), key="a b", missing="drop", dry_run=True),
    )

    (line,) = command_lines(PrepareCommand(source="a", dest="b", request=options), 1000)
    words = shlex.split(line)

    assert words[:4] == ["wdsctl", "prepare", "a", "b"]
    flags = words[4:]
    said = {flag: flags[i + 1] for i, flag in enumerate(flags[:-1]) if flag.startswith("--")}
    assert parse_split_shares(said["--split"]) == options.split
    assert parse_field_map_option(said["--field-map"]) == options.field_map
    assert parse_size_option(said["--shard-size"]) == 1000
    assert [flags[i + 1] for i, flag in enumerate(flags) if flag == "--exclude"] == ["a*", "b c"]
    expected = replace(options, split=None, field_map={})
    for name in ("shard_samples", "template", "on_missing", "seed", "sample_type", "catalog", "missing", "key"):
        holder = expected if hasattr(expected, name) else expected.index
        assert said[f"--{name.replace('_', '-')}"] == str(getattr(holder, name))
    assert said["--by"] == "sample"
    assert said["--parts"] == "jpg,txt"
    assert {"--redetect", "--yes", "--dry-run", "--no-input"} <= set(flags)


def test_a_dataset_at_a_url_is_asked_for_its_split_and_its_password_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    url = uploaded(some_shards(tmp_path / "local", 1), "memory://ann:secret@wizard/shards")
    ask, runs = answers("8,2", True), Runs()

    outcome = talk(PrepareCommand(source=url, dest=None, request=PrepareRequest()), ask, runs)

    assert runs.requests[0].source == url
    [said] = command_lines(outcome.command, 1000)
    assert said.startswith("  wdsctl prepare memory://wizard/shards --split train=8,val=2 --sample-type ")


def test_a_long_command_goes_on_in_the_next_line_as_a_shell_has_it() -> None:
    options = PrepareRequest(split=parse_split_shares("8,1,1"), template="train-{index:06d}.tar", parts=("jpg", "txt"))
    request = PrepareCommand(source="a folder of photos", dest="a folder of shards", request=options)
    lines = command_lines(request, 60)

    assert len(lines) > 1
    assert max(map(len, lines)) <= 60
    assert all(line.endswith(" \\") for line in lines[:-1])
    (whole,) = command_lines(request, 1000)
    assert shlex.split("\n".join(lines).replace(" \\\n", " ")) == shlex.split(whole)


def test_a_type_that_is_not_sure_is_said_in_the_command_without_questions(photos: str) -> None:
    doubtful = replace(DETECTION, unused_media=("png",))
    ask, runs = answers(True), Runs(report=a_prepare_report(detection=doubtful))
    options = PrepareRequest(split={"train": 1.0})

    outcome = talk(PrepareCommand(source=photos, dest="shards", request=options), ask, runs)

    assert ask.asked == ["the detection is uncertain; use the detected type?"]
    assert [request.request.sample_type for request in runs.requests] == [DETECTION.sample_type]
    assert "--sample-type" in " ".join(command_lines(outcome.command, 200))


@pytest.mark.parametrize("answer", [True, False])
def test_samples_change_their_split_where_the_answer_is_yes(photos: str, answer: bool) -> None:
    move = Move(before="train", after="val", samples=3, keys=("a.tar/1",))
    refused = SamplesWouldMoveError(a_split_report(moved=(move,), reassigned=(move,)))
    requests: list[PrepareCommand] = []

    def run(request: PrepareCommand, _output: Output) -> PrepareReport:
        requests.append(request)
        if not request.request.may_move:
            raise refused
        return a_prepare_report()

    request = PrepareCommand(
        source=photos, dest="shards", request=PrepareRequest(split={"train": 1.0}, sample_type="X")
    )
    with contextlib.nullcontext() if answer else pytest.raises(SamplesWouldMoveError):
        outcome = prepare_with_questions(request, Interview(answers(answer)), QUIET, run)
        assert "--yes" in command_lines(outcome.command, 1000)[0]
    assert len(requests) == 1 + answer


def test_a_source_of_another_format_is_shown_and_keeps_its_own_splits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for split in ("train", "val"):
        for label in ("cat", "dog"):
            picture = tmp_path / "net" / split / label / "0.jpg"
            picture.parent.mkdir(parents=True)
            picture.write_bytes(b"\xff\xd8\xff\xe0")
    ask, runs = answers(""), Runs(a_prepare_report(detection=None))
    command = PrepareCommand(source=str(tmp_path / "net"), dest=None, request=PrepareRequest())
    prepare_with_questions(command, Interview(ask), Output(), runs)

    assert [question.split()[0] for question in ask.asked] == ["folder"]
    assert "ImageClassificationSample (defined by imagefolder)" in capsys.readouterr().err
    assert runs.requests[0].request.split is None


def test_of_two_forms_that_fit_equally_the_answer_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "0.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    both = [(importers.get_importer(name), FormatMatch(0.6, f"looks like {name}")) for name in ("coco", "folder")]
    monkeypatch.setattr(importers, "find_importers", lambda _: both)
    ask, runs = answers("neither", "folder", "", "", True), Runs()
    command = PrepareCommand(source=str(tmp_path / "data"), dest=None, request=PrepareRequest())
    outcome = talk(command, ask, runs)

    assert ask.asked[0] == ask.asked[1] == "the source could be coco or folder; which is it?"
    assert "--from folder" in " ".join(command_lines(outcome.command, 1000))


@pytest.mark.parametrize(
    ("source", "dest"),
    [("photos/labels.csv", "photos-shards"), ("labels.csv", "labels-shards"), ("a/b/", "a/b-shards")],
)
def test_the_default_destination_is_in_no_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, dest: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("photos/labels.csv", "labels.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"a,b\n")
    assert default_dest(source) == dest


def test_robot_data_without_videos_is_prepared_after_the_question_for_a_split(tmp_path: Path) -> None:
    root, given = make_v30(tmp_path / "set", cameras=()), answers("")
    outcome = prepare_with_questions(
        PrepareCommand(source=root, dest=None, request=PrepareRequest()), Interview(given), QUIET
    )
    assert outcome.report.robot is not None
    assert [question.split(",")[0] for question in given.asked] == ["split"]
    assert outcome.report.form is not None
    assert "not in place" not in outcome.report.form.reason
