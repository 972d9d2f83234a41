from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_type_hints

import pytest

from tests.docs.pages import load_script
from wdsctl.core.errors import OptionConflict, UsageError
from wdsctl.core.options import (
    UNSET,
    as_tuple,
    build_request,
    declared_options,
    given_options,
    group,
    name_parameters,
    naming_parameters,
    option,
)


def parse_share(share: str | float) -> float:
    return float(share)


def count(workers: int | None) -> int:
    return 7 if workers is None else workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    workers: int = option(1, "", parse=count, users_default=None)
    parts: tuple[str, ...] = option((), "", name="part", is_repeatable=True, parse=as_tuple)
    hidden: bool = option(False, "")
    code: bool = False  # no option


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    root: str = option(UNSET, "", is_argument=True, is_path=True, metavar="ROOT")
    inner: Inner = group(Inner, "part workers")
    share: float = option(1.0, "", flag="--sample", metavar="SHARE", parse=parse_share, min=0, max=1)
    on_error: Literal["stop", "skip"] | None = option(None, "")
    rows: bool = option(True, "")
    catalog: str | None = option(None, "", is_path=True)


def test_options_of_groups_stand_in_place_and_common_ones_last() -> None:
    options = declared_options(Outer)

    assert [each.name for each in options] == ["root", "part", "share", "on_error", "rows", "workers", "catalog"]
    assert [each.fields for each in options][1] == ("inner", "parts")
    assert [each.flag for each in options] == [
        "ROOT", "--part", "--sample", "--on-error", "--rows", "--workers", "--catalog"
    ]  # fmt: skip


def test_request_is_built_of_passed_values_and_defaults() -> None:
    assert build_request(Outer, {"root": Path("a")}) == Outer(root="a", inner=Inner(workers=7))
    passed = {"root": "a", "part": "jpg", "workers": 2, "share": "0.5", "on_error": "skip", "rows": False, "hidden": 1}
    inner = Inner(workers=2, parts=("jpg",))
    assert build_request(Outer, passed) == Outer(root="a", inner=inner, share=0.5, on_error="skip", rows=False)
    assert build_request(Outer, {"root": "a", "part": [], "share": None}) == build_request(Outer, {"root": "a"})


def test_given_options_differ_from_defaults_of_fields() -> None:
    request = Outer(root="a", inner=Inner(parts=("jpg",)), share=0.0, rows=False)

    assert list(given_options(request, "share rows catalog part workers").items()) == [
        ("--sample", True), ("--rows", True), ("--catalog", False), ("--part", True), ("--workers", False)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "message"),
    [({"root": ""}, "root is ''"), ({"root": "a", "catalog": ""}, "catalog is ''"),
     ({"root": "a", "on_error": "stopp"}, "on_error is 'stopp'"),
     ({"root": "a", "share": -0.5}, "share is -0.5"), ({"root": "a", "share": 2}, "share is 2")],
)  # fmt: skip
def test_empty_paths_and_values_beyond_choices_or_limits_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_request(Outer, values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--sample 2: too much", "share=2: too much"),
        ("add --sample SHARE, or omit --part", "add share=SHARE, or omit part"),
        ("--on-error skip excludes --part", "on_error=skip excludes part"),
        ("--part excludes --on-error", "part excludes on_error"),
        ("omit --no-rows; pass ROOT", "omit rows=False; pass root"),
        ("add `--sample 1%` or --yes", "add `share=1%` or yes"),
        ("pass `--part mp4`", "pass `part=mp4`"),
        ("run `wdsctl index --sample 1`", "run `wdsctl index --sample 1`"),
        *(
            (text, text)
            for text in ("a--sample, --sampled and --hash", "ROOT@VIEW", "/data/ROOT/a", "ROOT/primary", "ROOT.x")
        ),
        ("omit ROOT.", "omit root."),
    ],
)
def test_flags_in_messages_become_parameters(text: str, expected: str) -> None:
    assert name_parameters(text, Outer) == expected


def test_errors_of_python_functions_name_parameters() -> None:
    expected = "share has no effect\n  hint: omit share"
    with pytest.raises(OptionConflict, match=expected) as raised, naming_parameters(Outer):
        raise OptionConflict("--sample has no effect", options=("--sample",), hint="omit --sample")

    assert raised.value.options == ("--sample",)


def test_parsers_return_the_types_of_their_fields() -> None:
    script = load_script("python_api")
    for function in script.FUNCTIONS:
        for each in declared_options(script.load(function.request)):
            if each.option.parse is not None:
                returned = get_type_hints(each.option.parse)["return"]
                accepted = {each.kind, *get_args(each.kind)} - {NoneType}
                assert {returned, *get_args(returned)} & accepted, each.name
