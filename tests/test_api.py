"""The commands as functions: the same options, the same reports, and nothing imported before it is needed."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

import wdsctl
from tests.build import a_folder
from tests.core.captioned import captions
from wdsctl.core.convert.conversion_report import ConvertReport
from wdsctl.core.errors import InputError, OptionConflict, UsageError
from wdsctl.core.index.media_folder import MediaFolderReport
from wdsctl.core.index.report import IndexReport
from wdsctl.core.inspect.blend import BlendReport
from wdsctl.core.inspect.inspect import InspectReport
from wdsctl.core.inspect.media_folder import MediaFolderInspectReport
from wdsctl.core.inspect.samples import SamplesReport
from wdsctl.core.inspect.stats import StatsReport
from wdsctl.core.prepare.prepare import PrepareReport
from wdsctl.core.split.split import SplitReport
from wdsctl.core.validate.request import ReleaseReport, ValidateReport
from wdsctl.core.views.definition import ViewDefinition
from wdsctl.core.views.show import ViewShowReport
from wdsctl.core.views.views import create_view

HEAVY = ("torch", "numpy", "sqlalchemy", "sqlite3", "PIL", "av", "yaml", "fsspec", "typer", "rich", "webdataset")
FUNCTIONS = ("prepare", "index", "split", "inspect", "validate", "convert", "export")

#: Options of the command line that print or draw a result, which a function returns.
TERMINAL_OPTIONS = {
    "prepare": {"explain"},
    "inspect": {"images"},
    "validate": {"format", "output", "limit", "fail_on"},
    "split": {"export", "leaks"},
}
#: Parameters of a command that have another name in Python.
RENAMED = {"convert": {"paths": "source"}}


def modules_after(program: str) -> set[str]:
    """Return the modules that a new interpreter has loaded after running the program."""
    result = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(result.stdout.split())


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """A dataset of 12 captioned pictures."""
    raw = a_folder(tmp_path / "raw", captions(0, 12))
    wdsctl.prepare(raw, tmp_path / "shards", shard_samples=4, split="2,1,1", workers=1)
    return tmp_path / "shards"


@pytest.mark.parametrize("use", ["", "wdsctl.prepare", "wdsctl.Dataset", "dir(wdsctl)"])
def test_import_wdsctl_loads_no_heavy_modules(use: str) -> None:
    loaded = modules_after(f"import wdsctl\n{use}")

    assert loaded.isdisjoint(HEAVY)
    assert not any(name.startswith(("wdsctl.cli", "wdsctl.loader")) for name in loaded)


def test_public_names_match_all() -> None:
    assert all(getattr(wdsctl, name) is not None for name in wdsctl.__all__)
    assert dir(wdsctl) == wdsctl.__all__
    assert wdsctl.loader is import_module("wdsctl.loader")
    with pytest.raises(AttributeError, match="no attribute 'preprare'"):
        wdsctl.preprare  # noqa: B018


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_options_and_defaults_of_their_commands(name: str) -> None:
    command: Callable[..., Any] = import_module(f"wdsctl.cli.commands.{name}").command
    options = inspect.signature(command).parameters
    parameters = inspect.signature(getattr(wdsctl, name)).parameters
    renamed, omitted = RENAMED.get(name, {}), {"common", *TERMINAL_OPTIONS.get(name, ())}
    expected = {renamed.get(option, option) for option in options if option not in omitted}

    assert expected <= set(parameters)
    assert set(parameters) - expected <= {"yes", "progress", "dest"}
    for option, parameter in options.items():
        own = parameters.get(renamed.get(option, option))
        if own is not None and type(parameter.default) in (int, bool, float):
            assert own.default == parameter.default, option


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_accept_choices_of_their_options(name: str) -> None:
    command: Callable[..., Any] = import_module(f"wdsctl.cli.commands.{name}").command
    parameters = {each.name: each.annotation for each in inspect.signature(getattr(wdsctl, name)).parameters.values()}
    renamed = RENAMED.get(name, {})

    for option, parameter in inspect.signature(command, eval_str=True).parameters.items():
        annotation = parameters.get(renamed.get(option, option), "")
        if "Literal[" in annotation:
            choices = _choices(eval(annotation, {"Literal": Literal}))  # noqa: S307 - our own source
            assert choices - {""} == _choices(get_args(parameter.annotation)[0]) - {""}, option


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_that_are_no_choice_are_refused(tmp_path: Path, name: str) -> None:
    function = getattr(wdsctl, name)
    choices = [
        each.name for each in inspect.signature(function).parameters.values() if "Literal[" in str(each.annotation)
    ]

    for argument in choices:
        required = {"dest": tmp_path / "new"} if name == "convert" else {}
        with pytest.raises(wdsctl.WdsctlError, match=f"{argument} is 'shrd'"):
            function(tmp_path, **required | {argument: "shrd"})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "call",
    [
        lambda root: wdsctl.convert(root, f"{root}/out", max_side=-1, workers=1),
        lambda root: wdsctl.convert(root, f"{root}/out", audio="flac", rate=-1, workers=1),
        lambda root: wdsctl.split(root, folds=-2),
        lambda root: wdsctl.convert(root, f"{root}/out", max_side=0),
    ],
)
def test_numbers_beyond_their_limits_are_refused(tmp_path: Path, call: Callable[[str], Any]) -> None:
    with pytest.raises(wdsctl.WdsctlError, match=r"(max_side|rate) is (-1|0): expected 1 or more|folds is -2"):
        call(str(tmp_path))


def _choices(kind: Any) -> set[str]:
    """Return the choices of `Literal["error", "skip"]`, also of an optional one; empty if the kind is no Literal."""
    return {word for each in (kind, *get_args(kind)) if get_origin(each) is Literal for word in get_args(each)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstrings_describe_every_argument(name: str) -> None:
    function = getattr(wdsctl, name)
    help_text = function.__doc__ or ""
    everywhere = {"source", "dest", "root", "progress", "catalog", "dry_run", "wait", "workers"}

    assert f"wdsctl {name}" in help_text
    assert [
        each
        for each in inspect.signature(function).parameters
        if each not in everywhere and f"`{each}`" not in help_text
    ] == []


def test_functions_prepare_index_inspect_split_validate_and_convert(shards: Path, tmp_path: Path) -> None:
    repeated = wdsctl.prepare(str(tmp_path / "raw"), shards, shard_samples=4, workers=1)
    indexed = wdsctl.index(shards, column={"bytes": "size:jpg"}, media=True, workers=1)
    summary = wdsctl.inspect(shards)
    split = wdsctl.split(shards, {"train": 3, "val": 1}, by="sample", seed=1, yes=True, workers=1)
    validated = wdsctl.validate(shards, level="content,schema", sample="50%", workers=1)
    converted = wdsctl.convert(shards, tmp_path / "new", shard_size="1MB", parts="jpg,txt", shuffle=True, workers=1)

    assert isinstance(repeated, PrepareReport)
    assert repeated.up_to_date
    assert isinstance(indexed, IndexReport)
    assert [column.name for column in indexed.columns] == ["bytes"]
    assert isinstance(summary, InspectReport)
    assert {each.name: each.samples for each in summary.splits} == {"train": 6, "val": 3, "test": 3}
    assert isinstance(split, SplitReport)
    assert {each.name: each.samples for each in wdsctl.inspect(shards).splits} == {"train": 9, "val": 3}
    assert isinstance(validated, ValidateReport)
    assert (validated.findings, validated.share) == ((), 0.5)
    assert isinstance(converted, ConvertReport)
    assert (converted.samples, converted.files) == (12, 1)


def test_inspect_and_validate_return_report_of_requested_kind(shards: Path, tmp_path: Path) -> None:
    create_view(str(shards), "few", ViewDefinition(sample="5"))
    blend = tmp_path / "blend.yaml"
    blend.write_text("splits:\n  train:\n    path: shards\n", encoding="utf-8")

    assert isinstance(wdsctl.inspect(shards, stats=True, random=3), StatsReport)
    assert isinstance(wdsctl.inspect(shards, samples=2), SamplesReport)
    assert [each.key for each in wdsctl.inspect(shards, key="003").shown] == ["003"]
    assert len(wdsctl.inspect(shards, random=3, seed=1, split="val").shown) == 3
    summary = wdsctl.inspect(shards, samples=0)
    assert isinstance(summary, InspectReport)
    assert summary.first == ()
    assert isinstance(wdsctl.inspect(f"{shards}@few"), ViewShowReport)
    assert isinstance(wdsctl.inspect(blend), BlendReport)
    assert wdsctl.validate(blend, workers=1).root == str(blend)
    assert isinstance(wdsctl.validate(shards, release=True, workers=1), ReleaseReport)


@pytest.mark.parametrize(
    "options",
    [{"level": "content"}, {"sample": 0.5}, {"seed": 3}, {"refs": {"image": "x"}}, {"target": "hub"}, {"again": True}],
)
def test_api_refuses_options_without_effect_as_command_line(shards: Path, options: dict[str, Any]) -> None:
    wdsctl.index(shards)

    with pytest.raises(OptionConflict, match=f"{next(iter(options))} has no effect with release"):
        wdsctl.validate(shards, release=True, **options)


def test_api_refuses_seed_on_error_and_redetect_that_change_nothing(shards: Path) -> None:
    wdsctl.index(shards)

    with pytest.raises(OptionConflict, match="seed has no effect without sample"):
        wdsctl.validate(shards, seed=1)
    with pytest.raises(OptionConflict, match="on_error=zero has no effect without column"):
        wdsctl.index(shards, on_error="zero")
    with pytest.raises(OptionConflict, match="redetect has no effect with sample_type"):
        wdsctl.prepare(shards, redetect=True, sample_type="CrudeSample")


def test_prepare_and_index_accept_media_folder(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "media", {name: data for name, data in captions(0, 3).items() if name.endswith("jpg")})

    report = wdsctl.prepare(folder, media=True, workers=1)

    assert isinstance(report, MediaFolderReport)
    assert wdsctl.index(folder, media=True, workers=1).up_to_date
    summary = wdsctl.inspect(folder)
    assert isinstance(summary, MediaFolderInspectReport)
    assert summary.files == 3
    refused = pytest.raises(UsageError, match="needs samples, which a media folder does not have")
    with refused:
        wdsctl.prepare(folder, media=True, split="8,1,1")
    with refused:
        wdsctl.prepare(folder, media=True, key_until="first-dot")
    with pytest.raises(UsageError, match="no samples, and therefore no columns"):
        wdsctl.index(folder, media=True, column={"bytes": "size:jpg"})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: wdsctl.index(""), "root is ''"),
        (lambda root: wdsctl.index(root, catalog=""), "catalog is ''"),
        (wdsctl.split, "missing ratios or another rule to split by"),
        (lambda root: wdsctl.split(root, drop=True), "deletes the default split set"),
        (lambda root: wdsctl.split(root, "8,1,1", folds=3), "exclude each other"),
        (lambda root: wdsctl.inspect(root, stats=True, samples=3), "exclude each other"),  # type: ignore[call-overload]
        (lambda root: wdsctl.validate(root, quarantine=True, release=True), "contradict"),  # type: ignore[call-overload]
        (lambda root: wdsctl.convert(root, f"{root}-new", sort="key", shuffle=True), "exclude each other"),
        (lambda root: wdsctl.convert([], f"{root}-new"), "needs a source"),
        (lambda root: wdsctl.convert(root, f"{root}-new", shard_size="big"), "is not a size"),
        (lambda root: wdsctl.prepare(root, parts="jpg,,txt"), "empty name"),
    ],
)
def test_invalid_arguments_raise_usage_error_without_effect(
    shards: Path, call: Callable[[str], Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        call(str(shards))
    assert not Path(f"{shards}-new").exists()


def test_string_is_one_value_where_sequences_are_accepted(shards: Path) -> None:
    """Not one value per letter: the pattern `*` would exclude every shard, and the catalog would be empty."""
    wdsctl.index(shards, column={"bytes": "size:jpg"}, workers=1)
    wdsctl.index(shards, exclude="*1.tar", drop_column="bytes", workers=1)
    wdsctl.split(shards, exclude_shard="*2.tar", exclude_key="001", allow_empty=True, yes=True, workers=1)
    report = wdsctl.validate(shards, shards="*0.tar", workers=1)
    summary = wdsctl.inspect(shards)

    assert (summary.samples, summary.columns, report.shards) == (8, (), 1)
    assert sum(each.samples for each in summary.splits) == 3
    again = wdsctl.prepare(shards, exclude="*0.tar", workers=1)
    assert isinstance(again, PrepareReport)
    assert again.index is not None
    assert again.index.samples == 8  # of the other two shards


def test_prepare_checks_shares_like_split(shards: Path) -> None:
    for shares in ({"a b": 1}, {"train": -1}):
        with pytest.raises(UsageError) as refused:
            wdsctl.prepare(shards, split=shares, workers=1)
        assert refused.value.code == "WDS210"


def test_numbers_of_any_size_and_form_are_accepted(shards: Path, tmp_path: Path) -> None:
    assert wdsctl.validate(shards, level="content", sample=1e-5, workers=1).share == 1e-5
    assert wdsctl.convert(shards, tmp_path / "new", shard_size=1e9, workers=1).samples == 12
    with pytest.raises(UsageError, match="not a whole number of bytes"):
        wdsctl.convert(shards, tmp_path / "other", shard_size=1.5, workers=1)


def test_split_moves_samples_only_with_yes(shards: Path) -> None:
    with pytest.raises(UsageError) as refused:
        wdsctl.split(shards, "1,1", by="sample", seed=5, workers=1)
    report = wdsctl.split(shards, "1,1", by="sample", seed=5, yes=True, workers=1)

    assert refused.value.code == "WDS238"
    assert report.moved


def test_functions_raise_wdsctl_errors(tmp_path: Path) -> None:
    with pytest.raises(wdsctl.WdsctlError) as error:
        wdsctl.inspect(tmp_path / "nowhere")
    assert isinstance(error.value, InputError)
    assert error.value.hint


def test_prepare_refuses_format_options_without_value(tmp_path: Path) -> None:
    options: Any = ["key"]
    with pytest.raises(UsageError, match="'key': expected option=NAME=VALUE"):
        wdsctl.prepare(tmp_path / "rows.csv", tmp_path / "out", option=options)


def test_index_reports_progress(shards: Path) -> None:
    from tests.build import RecordingProgress

    progress = RecordingProgress()
    wdsctl.index(shards, rebuild=True, workers=1, progress=progress)

    assert progress.phases
