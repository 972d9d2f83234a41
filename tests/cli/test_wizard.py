from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.build import a_folder, an_image, some_shards
from tests.cli.reports import DETECTION, a_prepare_report, a_split_report
from tests.energon import an_energon_dataset
from tests.remote import upload_shards
from tests.robots import make_v30
from wdsctl.cli.commands.prepare import prepare_renderer
from wdsctl.cli.options import parse_size_option
from wdsctl.cli.output import Output
from wdsctl.cli.wizard import (
    Interview,
    PrepareResult,
    WizardCommand,
    command_lines,
    default_dest,
    prepare_with_questions,
)
from wdsctl.core import importers
from wdsctl.core.dataset.config import load_config
from wdsctl.core.dataset.location import locate
from wdsctl.core.importers.protocol import FormatMatch
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.index.write_dataset_yaml import UnsureTypeError
from wdsctl.core.prepare.prepare import PrepareReport
from wdsctl.core.prepare.prepare import prepare as prepare_dataset
from wdsctl.core.prepare.request import PrepareRequest, parse_field_map
from wdsctl.core.split.report import Move
from wdsctl.core.split.split import SamplesWouldMoveError
from wdsctl.core.split_rules.shares import parse_split_shares

QUIET = Output(quiet=True)
UNSURE = replace(DETECTION, confidence=0.75)
QUESTION_ABOUT_TYPE = "the detection is uncertain; use the detected type?"


@dataclass
class Answers:
    """A prompter that returns the answers in order and records the questions."""

    answers: Iterator[str | bool]
    questions: list[str] = field(default_factory=list)

    def text(self, question: str, default: str) -> str:
        self.questions.append(question)
        answer = next(self.answers)
        assert isinstance(answer, str)
        return answer or default

    def confirm(self, question: str, *, default: bool = True, choices: str = "") -> bool:
        self.questions.append(question)
        answer = next(self.answers)
        assert isinstance(answer, bool)
        return answer


def unsure_prepare() -> FakePrepare:
    """A fake prepare whose detected sample type is uncertain."""
    return FakePrepare(a_prepare_report(detection=UNSURE))


def make_answers(*values: str | bool) -> Answers:
    return Answers(iter(values))


@dataclass
class FakePrepare:
    """A fake prepare that records the requests and returns the given report."""

    report: PrepareReport = field(default_factory=lambda: a_prepare_report(detection=DETECTION))
    requests: list[WizardCommand] = field(default_factory=list)

    def __call__(self, request: WizardCommand, output: Output) -> PrepareReport:
        self.requests.append(request)
        return self.report


def run_wizard(request: WizardCommand, ask: Answers, prepare: FakePrepare, output: Output = QUIET) -> PrepareResult:
    """Run the wizard with these answers and a fake prepare."""
    return prepare_with_questions(
        request, Interview(ask), output, prepare, lambda _request, _output: prepare.report.detection
    )


@pytest.fixture
def photos(tmp_path: Path) -> str:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(b"x")
    (folder / "a.txt").write_bytes(b"x")
    return str(folder)


def test_wizard_asks_for_destination_split_and_uncertain_type_of_raw_folder(photos: str) -> None:
    ask, prepare = make_answers("", "8,1,1", True), unsure_prepare()

    run_wizard(WizardCommand(source=photos, dest=None, request=PrepareRequest()), ask, prepare)

    [request] = prepare.requests
    assert request.dest == f"{photos}-shards"
    assert request.request.split == parse_split_shares("8,1,1")
    assert [question.split()[0] for question in ask.questions] == ["folder", "split,", "the"]


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
def test_default_dest_is_next_to_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, dest: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_dest(source) == dest.format(here=tmp_path)


def test_wizard_asks_nothing_that_options_define(photos: str) -> None:
    ask, prepare = make_answers(), FakePrepare()
    options = PrepareRequest(split={"train": 1.0}, sample_type="CaptioningSample")

    run_wizard(WizardCommand(source=photos, dest="shards", request=options), ask, prepare)

    assert ask.questions == []
    assert prepare.requests == [WizardCommand(source=photos, dest="shards", request=options)]


def test_wizard_empty_split_answer_means_no_split(photos: str) -> None:
    prepare = FakePrepare()
    run_wizard(WizardCommand(source=photos, dest="shards", request=PrepareRequest()), make_answers(""), prepare)
    assert prepare.requests[0].request.split is None


def test_wizard_ignores_options_of_splits_if_split_answer_is_empty(
    photos: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare = FakePrepare()
    request = WizardCommand(source=photos, dest="shards", request=PrepareRequest(split_by="sample", seed=3))
    run_wizard(request, make_answers(""), prepare, Output())
    taken = prepare.requests[0].request
    assert (taken.split, taken.split_by, taken.seed) == (None, "auto", 0)
    assert "ignored without a split: --by and --seed" in capsys.readouterr().err


def test_wizard_asks_again_after_invalid_split(photos: str, capsys: pytest.CaptureFixture[str]) -> None:
    prepare = FakePrepare()

    request = WizardCommand(source=photos, dest="shards", request=PrepareRequest())
    run_wizard(request, make_answers("8,,1", "9,1"), prepare, Output())

    assert prepare.requests[0].request.split == parse_split_shares("9,1")
    assert "before or after a comma" in capsys.readouterr().err


def test_wizard_shows_what_it_asks_about_even_if_quiet(photos: str, capsys: pytest.CaptureFixture[str]) -> None:
    request = WizardCommand(source=photos, dest=None, request=PrepareRequest())
    run_wizard(request, make_answers("", "8,,1", "9,1", True), unsure_prepare(), QUIET)

    shown = capsys.readouterr().err
    assert [text in shown for text in ("folder: ", "before or after a comma", "detected:")] == [True] * 3


def test_wizard_replaces_rejected_detection_before_prepare_runs(photos: str) -> None:
    ask, prepare = (
        make_answers("9,1", False, "vqua", "vqa", "", "image=jpg,context=txt", "image=jpg,context=json[q]"),
        unsure_prepare(),
    )

    run_wizard(WizardCommand(source=photos, dest="shards", request=PrepareRequest()), ask, prepare)

    [request] = prepare.requests
    assert request.request.sample_type == "VQASample"
    assert request.request.field_map == {"image": "jpg", "context": "json[q]"}


def test_wizard_prints_uncertain_detection_with_reasons(photos: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_wizard(
        WizardCommand(source=photos, dest="shards", request=PrepareRequest()),
        make_answers("9,1", True),
        unsure_prepare(),
        Output(),
    )

    shown = capsys.readouterr()
    assert shown.out == ""
    assert "CaptioningSample" in shown.err
    assert "not VQASample: no question in json" in shown.err


def test_wizard_asks_no_fields_of_crude_sample(photos: str) -> None:
    prepare = unsure_prepare()
    run_wizard(
        WizardCommand(source=photos, dest="shards", request=PrepareRequest()),
        make_answers("", False, "crude"),
        prepare,
    )
    assert (prepare.requests[0].request.sample_type, prepare.requests[0].request.field_map) == ("CrudeSample", {})


def test_wizard_runs_nothing_if_aborted_at_last_question(photos: str) -> None:
    prepare = unsure_prepare()
    with pytest.raises(StopIteration):
        run_wizard(
            WizardCommand(source=photos, dest="shards", request=PrepareRequest()),
            make_answers("8,1,1", False),
            prepare,
        )

    assert prepare.requests == []


def test_wizard_shows_sure_type_without_question_and_leaves_it_to_detection_in_whole_dataset(
    photos: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ask, prepare = make_answers(""), FakePrepare()
    command = WizardCommand(source=photos, dest="shards", request=PrepareRequest())
    outcome = run_wizard(command, ask, prepare, Output())

    assert [question.split()[0] for question in ask.questions] == ["split,"]
    shown = capsys.readouterr().err
    assert "detected: CaptioningSample: image=jpg, caption=json[caption] (confidence 97 %)" in shown

    [request] = prepare.requests
    assert (request.request.sample_type, request.request.field_map) == ("", {})
    assert outcome.command.accepted == DETECTION
    assert command_lines(outcome.command, 1000) == [f"  wdsctl prepare {photos} shards --no-input"]


def test_wizard_writes_same_dataset_yaml_as_run_without_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jpg, webp = an_image("jpeg"), an_image("webp")
    pictures = {f"{i:03d}.jpg": jpg for i in range(120)} | {f"{i:03d}.webp": webp for i in range(120, 160)}
    table = "image,caption\n" + "".join(f"{name},caption {i}\n" for i, name in enumerate(pictures))
    source = f"{a_folder(tmp_path / 'raw', {**pictures, 't.csv': table.encode()})}/t.csv"
    with_questions, without = str(tmp_path / "with"), str(tmp_path / "without")

    prepare_dataset(source, without)
    command = WizardCommand(source=source, dest=with_questions, request=PrepareRequest())
    outcome = prepare_with_questions(command, Interview(make_answers("")), QUIET)

    written = load_config(f"{with_questions}/.wdsctl/dataset.yaml")
    assert written.field_map == {"image": "jpg,webp", "caption": "json[caption]"}
    assert written == load_config(f"{without}/.wdsctl/dataset.yaml")
    Output().answer(
        "prepare", outcome.report, prepare_renderer(outcome.command.request, accepted=outcome.command.accepted)
    )
    shown = capsys.readouterr().out
    assert "the preview of some samples was CaptioningSample: image=jpg," in shown
    assert "(chosen by the user)" not in shown


def test_wizard_question_mark_lists_choices_and_asks_again(photos: str, capsys: pytest.CaptureFixture[str]) -> None:
    ask, prepare = (
        make_answers("?", "", "?", "8,1,1", False, "?", "vqa", "?", "image=jpg,context=json[q]"),
        unsure_prepare(),
    )
    run_wizard(WizardCommand(source=photos, dest=None, request=PrepareRequest()), ask, prepare)

    assert [question.split()[0] for question in ask.questions] == [
        *("folder", "folder", "split,", "split,", "the", "sample", "sample", "field", "field")
    ]
    shown = capsys.readouterr().err
    for text in (
        "train=0.98,val=0.02",
        "OCRSample: ",
        "CrudeSample: any parts; ",
        "fields of VQASample",
        "(optional)",
        "parts: jpg, json",
    ):
        assert text in shown


def test_wizard_shortens_long_list_of_reasons(photos: str, capsys: pytest.CaptureFixture[str]) -> None:
    many = replace(UNSURE, reasons=tuple(f"reason {i} {'so ' * 30}" for i in range(30)))
    prepare = FakePrepare(a_prepare_report(detection=many))
    run_wizard(
        WizardCommand(source=photos, dest="shards", request=PrepareRequest()),
        make_answers("", True),
        prepare,
        Output(),
    )

    shown = capsys.readouterr().err
    assert "more reasons" in shown
    assert len(shown.splitlines()) < 22


def test_wizard_asks_no_type_without_detection(photos: str) -> None:
    ask = make_answers("")
    run_wizard(
        WizardCommand(source=photos, dest="shards", request=PrepareRequest()),
        ask,
        FakePrepare(a_prepare_report(detection=None)),
    )
    assert len(ask.questions) == 1


def test_wizard_asks_no_split_of_prepared_dataset(tmp_path: Path) -> None:
    (tmp_path / ".wdsctl").mkdir()
    (tmp_path / ".wdsctl" / "dataset.yaml").write_text("")
    (tmp_path / "a.tar").write_bytes(b"")
    ask, prepare = make_answers(), FakePrepare(a_prepare_report(up_to_date=True, detection=None))

    run_wizard(WizardCommand(source=str(tmp_path), dest=None, request=PrepareRequest()), ask, prepare)

    assert ask.questions == []


@pytest.mark.parametrize(("dest", "answer"), [("made", "all in train"), (None, "as in the source, or all in train")])
def test_wizard_names_default_of_split_question(tmp_path: Path, dest: str | None, answer: str) -> None:
    """Shards in place may be named after splits, or have a field that names splits; raw files have neither."""
    source = a_folder(tmp_path, {"a.txt": b"x"} if dest else {"a.tar": b""})
    ask = make_answers("")
    run_wizard(
        WizardCommand(source=source, dest=dest, request=PrepareRequest()),
        ask,
        FakePrepare(a_prepare_report(detection=None)),
    )
    assert ask.questions == [f"split, such as 8,1,1 (empty: {answer}; ? explains)"]


def test_wizard_asks_no_split_of_energon_dataset_with_splits(tmp_path: Path) -> None:
    ask, prepare = make_answers(), FakePrepare(report=a_prepare_report(detection=None))
    run_wizard(WizardCommand(source=an_energon_dataset(tmp_path), dest=None, request=PrepareRequest()), ask, prepare)
    assert (ask.questions, prepare.requests[0].request.split) == ([], None)


def test_wizard_prepares_jsonl_in_place_and_prints_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "qa.jsonl").write_bytes(b"{}\n")
    ask = make_answers("8,1,1", True)
    prepare = FakePrepare()

    run_wizard(
        WizardCommand(source=str(tmp_path / "qa.jsonl"), dest=None, request=PrepareRequest()), ask, prepare, Output()
    )

    assert "JSONL that names no media files beside it: prepare writes only a catalog" in capsys.readouterr().err
    assert [request.dest for request in prepare.requests] == [None]
    assert not any("folder for the shards" in question for question in ask.questions)


def test_interview_with_yes_confirms_but_asks_for_values() -> None:
    interview = Interview(make_answers("shards"), yes=True)
    assert interview.confirm("use it?")
    assert not interview.has_prompted
    assert interview.text("folder") == "shards"
    assert interview.has_prompted


def test_command_lines_omit_default_options() -> None:
    request = WizardCommand(source="my photos", dest=None, request=PrepareRequest(index=IndexRequest(workers=7)))
    assert command_lines(request, 80) == ["  wdsctl prepare 'my photos' --no-input"]


def test_command_lines_include_allowed_paths() -> None:
    command = WizardCommand(source="photos", dest="out", request=PrepareRequest())
    (line,) = command_lines(command, 1000, ["/my data"])
    assert line == "  wdsctl prepare photos out --no-input --allow-path '/my data'"


def test_command_lines_include_every_option() -> None:
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
        source_moved=True,
        catalog="my catalog",
        index=IndexRequest(exclude=("a*", "b c"), key="a b", missing="drop", dry_run=True),
    )

    (line,) = command_lines(WizardCommand(source="a", dest="b", request=options), 1000)
    words = shlex.split(line)

    assert words[:4] == ["wdsctl", "prepare", "a", "b"]
    flags = words[4:]
    values = {flag: flags[i + 1] for i, flag in enumerate(flags[:-1]) if flag.startswith("--")}
    assert parse_split_shares(values["--split"]) == options.split
    assert parse_field_map(values["--field-map"]) == options.field_map
    assert parse_size_option(values["--shard-size"]) == 1000
    assert [flags[i + 1] for i, flag in enumerate(flags) if flag == "--exclude"] == ["a*", "b c"]
    expected = replace(options, split=None, field_map={})
    for name in ("shard_samples", "template", "on_missing", "seed", "sample_type", "catalog", "missing", "key"):
        holder = expected if hasattr(expected, name) else expected.index
        assert values[f"--{name.replace('_', '-')}"] == str(getattr(holder, name))
    assert values["--by"] == "sample"
    assert values["--parts"] == "jpg,txt"
    assert {"--redetect", "--source-moved", "--dry-run", "--no-input"} <= set(flags)


def test_wizard_asks_split_of_url_and_hides_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    url = upload_shards(some_shards(tmp_path / "local", 1), "memory://ann:secret@wizard/shards")
    ask, prepare = make_answers("8,2", True), FakePrepare()

    outcome = run_wizard(WizardCommand(source=url, dest=None, request=PrepareRequest()), ask, prepare)

    assert prepare.requests[0].source == url
    [line] = command_lines(outcome.command, 1000)
    assert line.startswith("  wdsctl prepare memory://wizard/shards --split train=8,val=2 --no-input")


def test_command_lines_continue_with_backslash() -> None:
    options = PrepareRequest(split=parse_split_shares("8,1,1"), template="train-{index:06d}.tar", parts=("jpg", "txt"))
    request = WizardCommand(source="a folder of photos", dest="a folder of shards", request=options)
    lines = command_lines(request, 60)

    assert len(lines) > 1
    assert max(map(len, lines)) <= 60
    assert all(line.endswith(" \\") for line in lines[:-1])
    (whole,) = command_lines(request, 1000)
    assert shlex.split("\n".join(lines).replace(" \\\n", " ")) == shlex.split(whole)


def test_wizard_confirms_uncertain_type_and_adds_it_to_command(photos: str) -> None:
    doubtful = replace(DETECTION, unread=("png",))
    ask, prepare = make_answers(True), FakePrepare(report=a_prepare_report(detection=doubtful))
    options = PrepareRequest(split={"train": 1.0})

    outcome = run_wizard(WizardCommand(source=photos, dest="shards", request=options), ask, prepare)

    assert ask.questions == [QUESTION_ABOUT_TYPE]
    assert [request.request.sample_type for request in prepare.requests] == [DETECTION.sample_type]
    assert prepare.requests[0].request.field_map == {}
    assert "--sample-type" in " ".join(command_lines(outcome.command, 200))


@pytest.mark.parametrize(
    ("answers", "sample_type", "is_accepted"),
    [((True,), "CaptioningSample", True), ((False, "crude"), "CrudeSample", False)],
)
def test_wizard_asks_again_if_whole_dataset_is_uncertain(
    photos: str, answers: tuple[str | bool, ...], sample_type: str, is_accepted: bool
) -> None:
    requests: list[WizardCommand] = []

    def run(request: WizardCommand, _output: Output) -> PrepareReport:
        requests.append(request)
        if not request.request.sample_type:
            raise UnsureTypeError(locate(photos), UNSURE)
        return a_prepare_report()

    ask = make_answers(*answers)
    request = WizardCommand(source=photos, dest="shards", request=PrepareRequest(split={"train": 1.0}))
    outcome = prepare_with_questions(request, Interview(ask), QUIET, run, lambda _request, _output: DETECTION)

    assert ask.questions[0] == QUESTION_ABOUT_TYPE
    assert f"--sample-type {sample_type} --no-input" in command_lines(outcome.command, 1000)[0]
    assert outcome.command.accepted == (UNSURE if is_accepted else None)
    assert len(requests) == 2


@pytest.mark.parametrize(
    ("given", "flag"), [(PrepareRequest(accept_type=True), "--accept-type"), (PrepareRequest(yes=True), "--yes")]
)
def test_wizard_does_not_ask_for_a_consent_that_was_given(photos: str, given: PrepareRequest, flag: str) -> None:
    request = replace(given, split={"train": 1.0})
    ask = make_answers()

    outcome = prepare_with_questions(
        WizardCommand(source=photos, dest="shards", request=request),
        Interview(ask, yes=request.yes),
        QUIET,
        lambda _command, _output: a_prepare_report(),
        lambda _command, _output: UNSURE,
    )

    assert ask.questions == []
    assert command_lines(outcome.command, 1000)[0].endswith(f" {flag} --no-input")


@pytest.mark.parametrize("answer", [True, False])
def test_wizard_moves_samples_between_splits_only_if_confirmed(photos: str, answer: bool) -> None:
    move = Move(before="train", after="val", samples=3, keys=("a.tar/1",))
    refused = SamplesWouldMoveError(a_split_report(moved=(move,), reassigned=(move,)))
    requests: list[WizardCommand] = []

    def run(request: WizardCommand, _output: Output) -> PrepareReport:
        requests.append(request)
        if not request.request.allow_split_changes:
            raise refused
        return a_prepare_report()

    request = WizardCommand(source=photos, dest="shards", request=PrepareRequest(split={"train": 1.0}, sample_type="X"))
    with contextlib.nullcontext() if answer else pytest.raises(SamplesWouldMoveError):
        outcome = prepare_with_questions(request, Interview(make_answers(answer)), QUIET, run)
        assert "--allow-split-changes" in command_lines(outcome.command, 1000)[0]
    assert len(requests) == 1 + answer


def test_wizard_keeps_splits_of_imported_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for split in ("train", "val"):
        for label in ("cat", "dog"):
            picture = tmp_path / "net" / split / label / "0.jpg"
            picture.parent.mkdir(parents=True)
            picture.write_bytes(b"\xff\xd8\xff\xe0")
    ask, prepare = make_answers(""), FakePrepare(a_prepare_report(detection=None))
    command = WizardCommand(source=str(tmp_path / "net"), dest=None, request=PrepareRequest())
    prepare_with_questions(command, Interview(ask), Output(), prepare)

    assert [question.split()[0] for question in ask.questions] == ["folder"]
    assert "ImageClassificationSample (defined by imagefolder)" in capsys.readouterr().err
    assert prepare.requests[0].request.split is None


def test_wizard_asks_which_of_two_equal_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "0.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    both = [(importers.get_importer(name), FormatMatch(0.6, f"looks like {name}")) for name in ("coco", "folder")]
    monkeypatch.setattr(importers, "find_importers", lambda _: both)
    ask, prepare = make_answers("neither", "folder", "", "", True), FakePrepare()
    command = WizardCommand(source=str(tmp_path / "data"), dest=None, request=PrepareRequest())
    outcome = run_wizard(command, ask, prepare)

    assert ask.questions[0] == ask.questions[1] == "the source could be coco or folder; which is it?"
    assert "--from folder" in " ".join(command_lines(outcome.command, 1000))


@pytest.mark.parametrize(
    ("source", "dest"),
    [("photos/labels.csv", "photos-shards"), ("labels.csv", "labels-shards"), ("a/b/", "a/b-shards")],
)
def test_default_dest_is_outside_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, dest: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("photos/labels.csv", "labels.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"a,b\n")
    assert default_dest(source) == dest


def test_wizard_asks_only_split_for_robot_data_without_videos(tmp_path: Path) -> None:
    root, ask = make_v30(tmp_path / "set", cameras=()), make_answers("")
    outcome = prepare_with_questions(
        WizardCommand(source=root, dest=None, request=PrepareRequest()), Interview(ask), QUIET
    )
    assert outcome.report.robot is not None
    assert [question.split(",")[0] for question in ask.questions] == ["split"]
    assert outcome.report.form is not None
    assert "not in place" not in outcome.report.form.reason
