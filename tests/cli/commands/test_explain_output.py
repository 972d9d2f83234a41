from __future__ import annotations

import pytest

from tests.cli.conftest import Show
from wdsctl.cli.commands.explain import ExplainReport, look_up, render_code, render_code_list
from wdsctl.core.codes import load_codes
from wdsctl.core.errors import UsageError


@pytest.mark.parametrize("code", ["WDS102", "wds102", "102"])
def test_look_up_accepts_codes_in_any_case_or_without_prefix(code: str) -> None:
    assert look_up(code).title == load_codes()["WDS102"].title


def test_look_up_pads_short_numbers() -> None:
    assert look_up("1").code == "WDS001"


def test_look_up_suggests_nearest_code() -> None:
    with pytest.raises(UsageError) as raised:
        look_up("WDS1O2")
    assert "WDS102" in raised.value.hint


def test_look_up_suggests_list_for_non_code() -> None:
    with pytest.raises(UsageError) as raised:
        look_up("colour")
    assert raised.value.hint == "run `wdsctl explain` to list all codes"


@pytest.mark.parametrize("code", load_codes())
def test_explanations_fit_80_columns(render_piped: Show, code: str) -> None:
    lines = render_piped(render_code(ExplainReport(codes=(look_up(code),))))
    assert lines[0] == f"{code}: {load_codes()[code].title}"
    assert max(map(len, lines)) <= 80


def test_code_list_contains_every_code(render_piped: Show) -> None:
    lines = render_piped(render_code_list(ExplainReport(codes=tuple(map(look_up, load_codes())))))
    assert [line.split()[0] for line in lines[1:]] == list(load_codes())
