from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from tests.cli.conftest import Stream
from wdsctl.cli.labelled import Labelled
from wdsctl.cli.output import drawn, undrawn

words = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=12)
pieces = st.one_of(words, st.builds(Labelled, st.lists(st.tuples(words, words), max_size=4), st.integers(0, 3)))


@given(st.lists(pieces, max_size=4))
def test_what_is_not_drawn_is_as_rich_would_draw_it(made: list[str | Labelled]) -> None:
    by_rich = drawn([*made, Text("end")], Stream(), is_colored=False)
    assert drawn([*made, "end"], Stream(), is_colored=False) == by_rich


def test_what_has_a_style_or_control_characters_is_drawn() -> None:
    assert undrawn([Text("a")]) is None
    assert undrawn(["a\tb"]) is None
    assert Labelled([("a", Text("b"))], 2).lines() is None
    assert Labelled([("a", "b\nc")], 2).lines() is None
    assert undrawn(["a\nb", Labelled([("c", "d")], 2)]) == ["a", "b", "  c  d"]
