from __future__ import annotations

import pytest

from tests.cli.render.conftest import Show
from wdsctl.cli.render.explain import Explanation, look_up, render, render_list
from wdsctl.core.codes import CODES
from wdsctl.core.errors import UsageError


@pytest.mark.parametrize("code", ["WDS102", "wds102", "102"])
def test_a_code_may_be_written_as_it_is_remembered(code: str) -> None:
    assert look_up(code).title == CODES["WDS102"].title


def test_a_short_number_is_filled_up() -> None:
    assert look_up("1").code == "WDS001"


def test_an_unknown_code_gets_the_nearest() -> None:
    with pytest.raises(UsageError) as raised:
        look_up("WDS1O2")
    assert "WDS102" in raised.value.hint


def test_what_is_no_code_at_all_gets_the_list() -> None:
    with pytest.raises(UsageError) as raised:
        look_up("colour")
    assert raised.value.hint == "`wdsctl explain` lists them all"


@pytest.mark.parametrize("code", CODES)
def test_every_explanation_fits_eighty_columns(piped: Show, code: str) -> None:
    lines = piped(render(Explanation(codes=(look_up(code),))))
    assert lines[0] == f"{code}: {CODES[code].title}"
    assert max(map(len, lines)) <= 80


def test_the_list_has_every_code(piped: Show) -> None:
    lines = piped(render_list(Explanation(codes=tuple(map(look_up, CODES)))))
    assert [line.split()[0] for line in lines[1:]] == list(CODES)
