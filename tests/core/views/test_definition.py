from __future__ import annotations

import json
import shlex
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsctl.core.errors import UsageError
from wdsctl.core.views.definition import ViewDefinition, parse_definition, parse_sample

TEXTS = st.text(max_size=20)


@given(st.builds(ViewDefinition, where=TEXTS, sql=TEXTS, keys=TEXTS, split=TEXTS, sample=TEXTS, seed=st.integers(0, 9)))
def test_definition_round_trips_through_text_and_options(definition: ViewDefinition) -> None:
    assert parse_definition(definition.as_text()) == definition
    words = shlex.split(definition.as_options())
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert options == {f"--{name}": str(value) for name, value in json.loads(definition.as_text()).items()}


def test_as_options_quotes_expressions_with_double_quotes() -> None:
    assert ViewDefinition(where="ext = 'jpg'").as_options() == """--where "ext = 'jpg'\""""


@pytest.mark.parametrize(
    ("text", "share"), [("1%", Fraction(1, 100)), ("0.5 %", Fraction(1, 200)), ("100%", Fraction(1)), ("7", 7)]
)
def test_parse_sample_accepts_percentage_or_count(text: str, share: Fraction | int) -> None:
    assert parse_sample(text) == share


@pytest.mark.parametrize("text", ["0", "0%", "101%", "-1%", "1.5", "half", "%", "", "²"])
def test_parse_sample_refuses_other_text(text: str) -> None:
    with pytest.raises(UsageError, match="expected a percentage or a count"):
        parse_sample(text)


def test_empty_definition_is_refused() -> None:
    with pytest.raises(UsageError, match="no option selects"):
        ViewDefinition(seed=3).check()
