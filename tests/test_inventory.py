"""`python -m tests.inventory` counts what tests assert, and names what a change lost."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.inventory import compare, format_size, main
from tests.suite import Suite, SuiteTest

FIXTURES = """
import pytest

@pytest.fixture(params=["local", "s3"])
def place(request): ...
"""

HELPERS = """
CASES = [("a", 1), ("b", 2), *[("c", 3)]]

def check(text):
    assert text
    assert text.isascii()
"""


def read(text: str, file: str = "tests/core/test_one.py") -> list[SuiteTest]:
    sources = {"tests/conftest.py": FIXTURES, "tests/helpers.py": HELPERS, file: f"import pytest\n{text}"}
    return Suite(sources).tests()


CASES = [
    ("def test_a(): assert f()", "1", "1"),
    ("def test_a(): f()", "1", "1"),
    ("@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_a(n): assert n", "3", "3"),
    ("N = range(2, 9)\n@pytest.mark.parametrize('n', N)\ndef test_a(n): assert n", "7", "7"),
    ("@pytest.mark.parametrize('n', CODES)\ndef test_a(n): assert n", "1 x CODES", "1 x CODES"),
    ("@pytest.mark.usefixtures('place')\ndef test_a(): assert f()", "2", "2"),
    ("def test_a(place): assert f()", "2", "2"),
    ("@pytest.mark.parametrize('place', ['s3'], indirect=True)\ndef test_a(place): assert f()", "1", "1"),
    ("@given(st.text())\n@settings(max_examples=20)\n@example('')\ndef test_a(text): assert text", "21", "21"),
    ("def test_a():\n for n in (1, 2):\n  for m in range(3):\n   with pytest.raises(E): f(n, m)", "1", "6"),
    ("def test_a():\n texts = ['a', 'b']\n for n in texts: assert n\n for n in texts: g()", "1", "2"),
    ("def test_a(rows):\n for n in rows: assert n", "1", "1 x ?"),
    ("def test_a():\n assert all(f(n) for n in 'abc')\n assert [f(n) for n in {1: 2}] == 3", "1", "4"),
    ("from tests.helpers import CASES, check\ndef test_a():\n for n, _ in CASES: check(n)", "1", "6"),
    ("def check(n):\n assert n\n if n: check(n - 1)\ndef test_a():\n check(1)\n check(2)", "1", "2"),
]


def test_inventory_counts_cases_and_checks() -> None:
    for text, cases, checks in CASES:
        (test,) = read(text)
        assert (text, format_size(test.cases), format_size(test.checks)) == (text, cases, checks)


def test_loop_counts_as_much_as_parameters() -> None:
    before = read(
        "@pytest.mark.parametrize('n', [1, 2])\n@pytest.mark.parametrize('m', 'abc')\ndef test_a(n, m): assert n"
    )
    after = read("def test_a():\n for n in [1, 2]:\n  for m in 'abc': assert n")
    assert compare(before, after) == []
    assert [str(each) for each in compare(before, read("def test_a():\n for n in [1, 2]: assert n"))] == [
        "fewer   tests/core/test_one.py::test_a: cases 6 -> 2, checks 6 -> 2"
    ]


def test_compare_names_what_changed() -> None:
    body = "\n folder = make_folder()\n write(folder, 3)\n assert list(folder) == ['a', 'b', 'c']\n"
    before = read(f"def test_a(): assert 1\ndef test_old():{body}\ndef test_moved(): assert 2\ndef test_b(): assert 3")
    after = [
        *read(f"@pytest.mark.slow\ndef test_a(): assert 1\ndef test_renamed():{body}\ndef test_c(): raise E(f(1))"),
        *read("def test_moved(): assert 3", "tests/core/test_two.py"),
    ]
    assert [str(each) for each in compare(before, after)] == [
        "gone    tests/core/test_one.py::test_b: 1 checks",
        "moved   tests/core/test_two.py::test_moved: from tests/core/test_one.py::test_moved",
        "new     tests/core/test_one.py::test_c: 1 checks",
        "renamed tests/core/test_one.py::test_renamed: from tests/core/test_one.py::test_old",
        "slow    tests/core/test_one.py::test_a",
    ]


def test_inventory_compares_working_tree_with_revision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test = tmp_path / "tests" / "test_one.py"
    test.parent.mkdir()
    test.write_text("def test_text_is_short(): assert 1\ndef test_b(): assert 2")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "One"]):
        subprocess.run([*git, *words], check=True)
    test.write_text("def test_text_is_short(): assert 1")
    main(["--json"], tmp_path)
    (row,) = json.loads(capsys.readouterr().out)
    assert row == {
        "file": "tests/test_one.py",
        "name": "test_text_is_short",
        "rule": "text is short",
        "cases": 1,
        "items": 1,
        "checks": 1,
        "assert": 1,
        "raises": 0,
        "warns": 0,
        "slow": 0,
    }
    main(["--against", "HEAD"], tmp_path)
    assert capsys.readouterr().out == "gone    tests/test_one.py::test_b: 1 checks\n"
