"""Imports the scripts of an example. They import each other by name, as when Python runs one of them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load_script(example: str, name: str) -> ModuleType:
    folder = str(EXAMPLES / example)
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)
