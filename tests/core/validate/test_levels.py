from __future__ import annotations

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.core.validate.request import LEVELS, parse_levels


@pytest.mark.parametrize(
    ("words", "levels"),
    [
        ([], ("structure",)),
        (["content"], ("structure", "headers", "content")),
        (["hashes,schema"], ("structure", "schema", "hashes")),
        (["refs", "headers"], ("structure", "headers", "refs")),
        (["all"], LEVELS),
    ],
)
def test_parse_levels_adds_prerequisite_levels_in_order_of_cost(words: list[str], levels: tuple[str, ...]) -> None:
    assert parse_levels(words) == levels


def test_unknown_level_is_refused_with_available_ones() -> None:
    with pytest.raises(UsageError) as caught:
        parse_levels(["contents"])
    assert "structure, headers, content, load, schema, refs, hashes" in caught.value.hint
