"""The format of the text file of the codes, and what `load_codes` reads from it."""

from __future__ import annotations

import re

import pytest

from wdsctl.core.codes import CODES_FILE, REMEDY_LABEL, load_codes


@pytest.mark.parametrize("code", load_codes())
def test_code_has_title_meaning_and_remedy_of_one_line_each(code: str) -> None:
    assert re.fullmatch(r"WDS\d{3}", code)
    title, meaning, remedy = load_codes()[code]
    for text in (title, meaning, remedy):
        assert text == " ".join(text.split())
        assert text.count("`") % 2 == 0
    assert not title.endswith(".")
    assert meaning.endswith(".")
    assert remedy.endswith(".")


def test_every_code_section_has_labelled_remedy() -> None:
    with open(CODES_FILE, encoding="utf-8") as file:
        text = file.read()

    assert text.count(f"\n\n{REMEDY_LABEL}") == text.count("\n## ") == len(load_codes())
    assert max(map(len, text.splitlines())) <= 120
