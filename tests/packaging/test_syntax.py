from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
_MAJOR, _MINOR = re.findall(r"\d+", SETTINGS["project"]["requires-python"])
MINIMUM = (int(_MAJOR), int(_MINOR))


def is_refused(source: str) -> bool:
    try:
        ast.parse(source, feature_version=MINIMUM)
    except SyntaxError:
        return True
    return False


def test_every_file_parses_with_oldest_supported_python() -> None:
    """What users run; `make check` has ruff parse everything for the same version."""
    files = [path for folder in ("wdsctl", "examples") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 300
    assert [path.relative_to(ROOT).as_posix() for path in files if is_refused(path.read_text("utf-8"))] == []


@pytest.mark.skipif(MINIMUM >= (3, 11), reason="the oldest Python knows this syntax")
def test_syntax_check_refuses_newer_syntax() -> None:
    assert is_refused("try:\n    pass\nexcept* OSError:\n    pass\n")
    assert not is_refused("match x:\n    case 1:\n        pass\n")


@pytest.mark.skipif(MINIMUM >= (3, 11), reason="named tuples may be generic")
def test_named_tuples_have_no_other_base() -> None:
    texts = {
        path: text
        for folder in ("wdsctl", "examples")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"class \w+\((?:[^)]*,\s*NamedTuple\b|\s*NamedTuple\s*,)", text := path.read_text("utf-8"))
    }
    wrong = [
        f"{path.name}: {node.name}"
        for path, text in texts.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef) and len(node.bases) > 1 and "NamedTuple" in map(ast.unparse, node.bases)
    ]
    assert wrong == []


def test_declared_python_versions_agree() -> None:
    classifiers = SETTINGS["project"]["classifiers"]
    stated = [re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", each) for each in classifiers]
    minors = [int(each[1]) for each in stated if each]
    assert minors == list(range(MINIMUM[1], max(minors) + 1))
    assert SETTINGS["tool"]["ruff"]["target-version"] == f"py{MINIMUM[0]}{MINIMUM[1]}"
    assert f"Python {MINIMUM[0]}.{MINIMUM[1]} or newer" in Path(ROOT, "docs", "install.md").read_text("utf-8")
