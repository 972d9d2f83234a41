"""Run by a test in a separate process, which it kills: trains on a blend of several formats, saves after each step.

`python -m tests.loader.in_place_process PATHS FOLDER RANKS WORKERS STEPS`. PATHS: JSON of `blend_of`. FOLDER gets
`state.json`, replaced after each step: the state, and the contents of all batches of all ranks so far.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.loader.mixed import everything
from tests.loader.test_matrix import content
from wdsctl.core.blend import Blender
from wdsctl.loader import get_loader, merge_states

WEIGHTS = {"tar": 5, "mds": 4, "litdata": 3, "zip": 1}


def blend_of(paths: Mapping[str, str]) -> Blender:
    return Blender([({"path": paths[name], "subflavors": {"name": name}}, weight) for name, weight in WEIGHTS.items()])


def main(paths: str, folder: Path, ranks: int, workers: int, steps: int) -> None:
    blend = blend_of(json.loads(paths))
    loaders = [get_loader(everything(blend, rank, ranks, workers, lanes=12)) for rank in range(ranks)]
    lines: list[str] = []
    if (folder / "state.json").exists():
        saved = json.loads((folder / "state.json").read_text())
        lines = saved["batches"]
        for loader in loaders:
            loader.restore_state_rank(saved["state"])
    for _ in range(steps):
        lines += [content(next(iter(loader))) for loader in loaders]
        state = merge_states([loader.state_dict() for loader in loaders])
        (folder / "new.json").write_text(json.dumps({"batches": lines, "state": state}))
        os.replace(folder / "new.json", folder / "state.json")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
