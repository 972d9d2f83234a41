from __future__ import annotations

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.core.validate.request import LEVELS, parse_levels


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ([], ("structure",)),
        (["content"], ("structure", "headers", "content")),
        (["hashes,schema"], ("structure", "schema", "hashes")),
        (["refs", "headers"], ("structure", "headers", "refs")),
        (["all"], LEVELS),
    ],
)
def test_a_level_comes_with_those_it_stands_on_the_cheapest_first(words: list[str], meant: tuple[str, ...]) -> None:
    assert parse_levels(words) == meant


def test_an_unknown_level_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        parse_levels(["contents"])
    assert "structure, headers, content, schema, refs, hashes" in caught.value.hint
