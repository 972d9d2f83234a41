"""Train with Ray Train: workers are killed, and the training resumes on another number of workers.

python examples/integrations/train_ray.py shards run
"""

from __future__ import annotations

import os
import signal
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model
from tiny import BATCHES_PER_STEP, SAVE_EVERY, NextByte, arguments, training_data
from torch import distributed

from wdsctl.loader import get_loader


def train(config: dict[str, Any]) -> None:
    """One worker. After a failure, Ray calls this again on each worker, whose number may have changed."""
    world = distributed.get_world_size()
    per_step = BATCHES_PER_STEP // world
    network = NextByte()
    model = prepare_model(network)  # with several workers, a wrapper with other names of the parameters
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loader = get_loader(training_data(config["dataset"]))
    step = 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder, "checkpoint.pt"), weights_only=True)
        network.load_state_dict(saved["model"])
        loader.load_state_dict(saved["loader"])  # the states of all ranks
        step = saved["step"]
    batches = iter(loader)
    while step < config["steps"]:
        step += 1
        losses = []
        for batch in islice(batches, per_step):
            loss = model(**batch)["loss"]
            (loss / per_step).backward()
            losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
        mean = torch.stack(losses).mean() / world
        distributed.all_reduce(mean)
        states = loader.save_state_global() if step % SAVE_EVERY == 0 else None  # all workers call it
        with tempfile.TemporaryDirectory() as folder:
            if states:
                torch.save({"model": network.state_dict(), "loader": states, "step": step}, f"{folder}/checkpoint.pt")
            # Workers that have no states report the step alone; those with a checkpoint are merged into one folder.
            ray.train.report({"step": step}, checkpoint=Checkpoint.from_directory(folder) if states else None)
        if distributed.get_rank() == 0:
            with open(config["losses"], "a", encoding="utf-8") as file:
                file.write(f"step {step} loss {float(mean):.6f}\n")
        if step == config["die_at"]:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    args = arguments("Train with Ray Train.")
    if int(os.environ.get("RANK", "0")):
        return  # Ray starts the workers
    workers = int(os.environ.get("WORLD_SIZE", "2"))
    losses = Path(args.folder).resolve() / "losses.txt"
    losses.parent.mkdir(parents=True, exist_ok=True)
    losses.write_text("", encoding="utf-8")
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    ray.init(num_cpus=workers, include_dashboard=False)
    is_elastic = hasattr(ScalingConfig, "elasticity_enabled")  # as many workers as Ray has resources for
    at_most: Any = (1, workers) if is_elastic else workers
    trainer = TorchTrainer(
        train,
        train_loop_config={"dataset": os.path.abspath(args.dataset), "losses": str(losses)}
        | {"steps": args.steps, "die_at": args.die_at},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=at_most),
        run_config=RunConfig(
            name="texts", storage_path=str(losses.parent), failure_config=FailureConfig(max_failures=0)
        ),
    )
    try:
        trainer.fit()
    finally:
        print(losses.read_text(encoding="utf-8"), flush=True)
        if args.die_at:
            os.kill(os.getpid(), signal.SIGKILL)  # the driver goes with its workers


if __name__ == "__main__":
    main()
