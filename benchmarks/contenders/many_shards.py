"""Index many tiny shards: one JSON line with seconds, CPU seconds and memory, as a whole and of the merge.

    python -m benchmarks.contenders.many_shards --how local --shards 100000
    python -m benchmarks.contenders.many_shards --how ray --shards 100000
    python -m benchmarks.contenders.many_shards --how job --shards 100000

`local` is `wdsctl index` with one worker, `ray` with a local cluster of 2 workers. `job` is an array job of 2 tasks,
one after the other. The merge is `job merge`, which also lists all shards again and publishes the catalog. A shard
has 4 samples in 5 KB.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from benchmarks.measure import Cost, measure
from benchmarks.places import DATA, wdsctl_script
from wdsctl.core.tar_header import END_OF_ARCHIVE, TAR_BLOCK_BYTES, build_tar_header

_SAMPLES = 4
_SHARDS_PER_FOLDER = 10_000
_TASKS = 2


def ensure_shards(count: int, data: Path = DATA) -> Path:
    """A dataset of so many tiny shards; made once."""
    root, marker = data / f"shards-{count}", data / f"shards-{count}.complete"
    if marker.exists():
        return root
    for first in range(0, count, _SHARDS_PER_FOLDER):
        folder = root / f"{first // _SHARDS_PER_FOLDER:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(first, min(first + _SHARDS_PER_FOLDER, count)):
            (folder / f"shard-{i:08d}.tar").write_bytes(_shard(i))
    marker.touch()
    return root


def _shard(number: int) -> bytes:
    pieces = []
    for i in range(number * _SAMPLES, (number + 1) * _SAMPLES):
        text = f"sample {i}".encode()
        pieces += [build_tar_header(f"{i:09d}.txt".encode(), len(text)), text.ljust(TAR_BLOCK_BYTES, b"\0")]
    return b"".join([*pieces, END_OF_ARCHIVE])


def index_shards(how: str, shards: int) -> dict[str, float]:
    root, job = ensure_shards(shards), DATA / f"shards-{shards}-job"
    for folder in (root / ".wdsctl", job):
        shutil.rmtree(folder, ignore_errors=True)
    wdsctl = wdsctl_script("wdsctl")
    if how == "job":
        steps: list[tuple[str, ...]] = [
            (wdsctl, "job", "plan", str(job), "--tasks", str(_TASKS), "--", "index", str(root))
        ]
        steps += [(wdsctl, "job", "run", str(job), "--task", str(task), "--quiet") for task in range(_TASKS)]
        steps.append((wdsctl, "job", "merge", str(job)))
    else:
        executor = ("--executor", "ray", "--workers", "2") if how == "ray" else ("--workers", "1")
        steps = [(wdsctl, "index", str(root), "--quiet", *executor)]
    costs = [measure(step) for step in steps]
    found = json.loads(measure((wdsctl, "inspect", str(root), "--json")).output)
    if (found["shards"], found["samples"]) != (shards, shards * _SAMPLES):
        raise SystemExit(f"the catalog has {found['shards']} shards and {found['samples']} samples")
    return _figures(costs, shards, has_merge=how == "job")


def _figures(costs: list[Cost], shards: int, *, has_merge: bool) -> dict[str, float]:
    cpu_seconds = sum(each.cpu_seconds for each in costs)
    figures = {
        "steps_seconds": sum(each.wall_seconds for each in costs),
        "steps_cpu_seconds": cpu_seconds,
        "cpu_seconds_a_shard": cpu_seconds / shards,
        "steps_peak_bytes": float(max(each.peak_bytes for each in costs)),
    }
    if has_merge:
        figures["merge_cpu_seconds_a_shard"] = costs[-1].cpu_seconds / shards
        figures["merge_cpu_share"] = costs[-1].cpu_seconds / cpu_seconds
        figures["merge_peak_bytes"] = float(costs[-1].peak_bytes)
        figures["plan_peak_bytes"] = float(costs[0].peak_bytes)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", choices=("local", "ray", "job"), required=True)
    parser.add_argument("--shards", type=int, required=True)
    given = parser.parse_args()
    print(json.dumps(index_shards(given.how, given.shards)))


if __name__ == "__main__":
    main()
