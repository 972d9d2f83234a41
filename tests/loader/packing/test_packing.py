"""The exports of wdsctl.loader.packing, and the imports of planning in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from wdsctl.loader import packing

PLAN = """
import sys
from wdsctl.loader.packing import Packing, plan_packs, plan_window
packing = Packing(length="tokens", capacity=8)
window = plan_window([], [5, 3, 8, 2], packing.capacities, packing.method)
print(plan_packs([5, 3, 8, 2], 8).efficiency, [pack.tolist() for pack in window.packs], "torch" in sys.modules)
"""


def test_planning_does_not_import_torch() -> None:
    command = [sys.executable, "-W", "error", "-c", PLAN]
    root = Path(__file__).parents[3]
    process = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)

    assert (process.stderr, process.stdout) == ("", "0.75 [[0, 1], [2]] False\n")


def test_exported_names_exist_and_are_not_modules() -> None:
    modules = {path.stem for path in Path(packing.__file__).parent.iterdir()}

    for name in packing.__all__:
        assert type(getattr(packing, name)).__name__ != "module", name
    assert dir(packing) == packing.__all__ == sorted(packing.__all__)
    assert not modules & set(packing.__all__), "whichever is imported last would win"


def test_unexported_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = packing.nothing
    with pytest.raises(ImportError):
        import_module("wdsctl.loader.packing.nothing")
