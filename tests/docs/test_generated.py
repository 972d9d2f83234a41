"""The pages that are generated from the code are up to date."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests import children
from tests.docs.pages import ROOT, load_script
from wdsctl.cli.app import build_full_app
from wdsctl.core.catalog import schema
from wdsctl.core.catalog.open_catalog import VIEWS
from wdsctl.core.codes import load_codes

SCRIPT = ROOT / "docs" / "generate.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return load_script("generate")


def test_generated_pages_are_up_to_date() -> None:
    completed = children.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)

    assert (completed.returncode, completed.stdout) == (0, "")


def test_stale_page_fails_check_with_diff(
    generator: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generator.run([], tmp_path) == 0
    assert generator.run(["--check"], tmp_path) == 0
    page = tmp_path / "codes.md"
    page.write_text(page.read_text(encoding="utf-8").replace("# Codes", "# Numbers"), encoding="utf-8")

    assert generator.run(["--check"], tmp_path) == 1

    assert "-# Numbers\n+# Codes\n" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8").startswith("# Numbers")


def test_missing_page_fails_check(generator: ModuleType, tmp_path: Path) -> None:
    assert generator.run(["--check"], tmp_path) == 1


def test_every_table_view_code_and_command_has_its_heading(generator: ModuleType) -> None:
    pages = generator.pages()

    for name in (*schema.catalog_metadata.tables, *VIEWS):
        assert f"\n### {name}\n" in pages["catalog.md"]
    for code in load_codes():
        assert f"\n### {code}: " in pages["codes.md"]
    for command in build_full_app().registered_commands:
        assert f"\n## wdsctl {command.name}\n" in pages["cli.md"]


def test_python_functions_are_up_to_date(tmp_path: Path) -> None:
    script = load_script("python_api")
    assert script.run(["--check"]) == 0, "run `make docs`"

    stale = tmp_path / "api.py"
    stale.write_text(script.API.read_text(encoding="utf-8").replace("license_id: str", "license_id: int"))
    assert script.run(["--check"], stale) == 1
    assert script.run([], stale) == 0
    assert stale.read_text(encoding="utf-8") == script.API.read_text(encoding="utf-8")
