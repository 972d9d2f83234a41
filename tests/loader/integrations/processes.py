"""Runs a module in one process per rank and returns the output of each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests import children


def run_ranks(module: str, world: int, folder: Path, *arguments: object) -> list[dict[str, Any]]:
    """Run `python -m MODULE RANK WORLD STORE ARGUMENTS` for all ranks. Returns the JSON that each printed last."""
    store = folder / f"store-{len(list(folder.iterdir()))}"
    texts = [str(argument) for argument in arguments]
    ranks = [
        children.Popen(
            [sys.executable, "-m", f"tests.loader.integrations.{module}", str(rank), str(world), str(store), *texts],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            parent="training",
        )
        for rank in range(world)
    ]
    outputs = [process.communicate(timeout=240) for process in ranks]
    assert [process.returncode for process in ranks] == [0] * world, "\n".join(errors for _, errors in outputs)
    return [json.loads(output.splitlines()[-1]) for output, _ in outputs]
