from __future__ import annotations

import pytest

from tests.cli.conftest import Show
from wdsctl.cli.commands.explain import ExplainReport, look_up, render_code, render_code_list
from wdsctl.core.codes import load_codes
from wdsctl.core.errors import UsageError


@pytest.mark.parametrize("code", ["WDS102", "wds102", "102"])
def test_a_code_may_be_written_as_it_is_remembered(code: str) -> None:
    assert look_up(code).title == load_codes()["WDS102"].title


def test_a_short_number_is_filled_up() -> None:
    assert look_up("1").code == "WDS001"


def test_an_unknown_code_gets_the_nearest() -> None:
    with pytest.raises(UsageError) as raised:
        look_up("WDS1O2")
    assert "WDS102" in raised.value.hint


def test_what_is_no_code_at_all_gets_the_list() -> None:
    with pytest.raises(UsageError) as raised:
        look_up("colour")
    assert raised.value.hint == "run `wdsctl explain` to list all codes"


@pytest.mark.parametrize("code", load_codes())
def test_every_explanation_fits_eighty_columns(piped: Show, code: str) -> None:
    lines = piped(render_code(ExplainReport(codes=(look_up(code),))))
    assert lines[0] == f"{code}: {load_codes()[code].title}"
    assert max(map(len, lines)) <= 80


def test_the_list_has_every_code(piped: Show) -> None:
    lines = piped(render_code_list(ExplainReport(codes=tuple(map(look_up, load_codes())))))
    assert [line.split()[0] for line in lines[1:]] == list(load_codes())
