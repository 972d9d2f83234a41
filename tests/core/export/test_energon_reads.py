"""Megatron Energon reads the output of `export`. The test needs its environment (`make interop`)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.build import a_dataset, an_image
from tests.core.export.readers import reader, run_in
from wdsctl.core.export.export import export
from wdsctl.core.export.request import ExportRequest
from wdsctl.core.index.index import index
from wdsctl.core.index.request import IndexRequest
from wdsctl.core.prepare.prepare import prepare
from wdsctl.core.prepare.request import PrepareRequest
from wdsctl.core.split.request import SplitOptions, parse_split_request
from wdsctl.core.split.split import split_dataset

ENERGON_SCRIPT = """
import json, sys
from megatron.energon import WorkerConfig, get_loader, get_savable_loader, get_train_dataset, get_val_dataset
worker_config = WorkerConfig(rank=0, world_size=1, num_workers=0)
keys = {}
for part in ("train", "val", "test"):
    dataset = get_val_dataset(sys.argv[1], split_part=part, batch_size=1, worker_config=worker_config)
    keys[part] = [key for batch in get_loader(dataset) for key in batch.__key__]
dataset = get_train_dataset(sys.argv[1], batch_size=1, worker_config=worker_config, shuffle_buffer_size=None,
                            max_samples_per_sequence=None)
batches = iter(get_savable_loader(dataset))
keys["trained"] = sorted(next(batches).__key__[0] for _ in keys["train"])
print(json.dumps(keys))
"""
WDSCTL_SCRIPT = """
import json, sys
from wdsctl.loader import WorkerConfig, get_loader, get_val_dataset
worker_config = WorkerConfig(rank=0, world_size=1, num_workers=0)
print(json.dumps({
    part: [key for batch in get_loader(get_val_dataset(
        sys.argv[1], split_part=part, batch_size=1, worker_config=worker_config)) for key in batch.__key__]
    for part in ("train", "val", "test")
}))
"""
COMMAND = "import sys; from megatron.energon.cli.main import main; sys.argv[0] = 'energon'; main()"


def test_energon_loads_lints_and_describes_same_samples(tmp_path: Path) -> None:
    python = reader("megatron-energon")
    image = an_image("png")
    shards = {}
    for shard in range(6):
        members: dict[str, bytes] = {}
        for i in range(7 * shard, 7 * shard + 7):
            members |= {f"d{shard}/{i:05d}.png": image, f"d{shard}/{i:05d}.txt": f"picture {i}".encode()}
        shards[f"parts/s-{shard}.tar"] = members
    root = a_dataset(tmp_path / "a", shards)
    prepare(root, None, PrepareRequest(index=IndexRequest()))
    excluded = parse_split_request(
        SplitOptions(ratios="train=4,val=1,test=1", by="shard", exclude_key=("d1/00008", "d5/00040"))
    )
    split_dataset(root, excluded)
    index(root)
    report = export(ExportRequest(root=root, target="energon"))

    wdsctl_keys = json.loads(run_in(python, WDSCTL_SCRIPT, root).splitlines()[-1])
    energon_keys = json.loads(run_in(python, ENERGON_SCRIPT, root).splitlines()[-1])
    in_shards = {part: [key.rpartition(".tar/")[2] for key in keys] for part, keys in energon_keys.items()}
    assert {part: len(keys) for part, keys in wdsctl_keys.items()} == report.splits
    assert in_shards == wdsctl_keys | {"trained": sorted(wdsctl_keys["train"])}
    run_in(python, COMMAND, "lint", root)
    info = run_in(python, COMMAND, "info", root)
    assert "42 samples" in info
    assert "CaptioningSample" in info
