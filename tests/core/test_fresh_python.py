from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wdsctl.core.import_guard import without_current_folder


@pytest.mark.parametrize("version", [(3, 10), sys.version_info])
def test_subprocesses_do_not_import_from_current_folder(
    version: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "this.py").write_text("print('evil')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setattr(sys, "version_info", version)
    with without_current_folder():
        output = subprocess.run(
            (sys.executable, "-c", "import this"), capture_output=True, text=True, check=True
        ).stdout

    assert "Zen" in output
    assert (os.getcwd(), "PYTHONSAFEPATH" in os.environ) == (str(tmp_path), False)


def test_without_current_folder_keeps_pythonsafepath_of_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "yes")
    with without_current_folder():
        pass

    assert os.environ["PYTHONSAFEPATH"] == "yes"
