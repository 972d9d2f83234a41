"""Train a tiny vision-language model on packs of conversations. Run it again after a stop: it resumes exactly.

python train.py shards processor
torchrun --nproc-per-node 2 train.py shards processor
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import torch
import torch.distributed as dist
from encode import Encoder, Row, count_tokens
from model import VisionLanguageModel, token_losses
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoProcessor

from wdsctl.loader import WorkerConfig, get_savable_loader, get_train_dataset
from wdsctl.loader.packing import Packing

CAPACITY = 512  # tokens of a pack
LANES = 4  # one, two or four ranks get the same packs, in the same order


def main(argv: list[str] | None = None) -> int:
    arguments = parse(argv)
    start_ranks()
    train(arguments)
    dist.destroy_process_group()  # not before the model is gone: torch may hang if it is freed later
    return 0


def train(arguments: argparse.Namespace) -> None:
    processor = AutoProcessor.from_pretrained(arguments.processor)
    dataset = get_train_dataset(
        arguments.dataset,
        task_encoder=Encoder(processor),
        packing=Packing(length=count_tokens, capacity=CAPACITY, window=64),
        lanes=LANES,
        trace=arguments.trace,
        worker_config=WorkerConfig(num_workers=arguments.workers),
    )
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the model is tiny: more threads would wait for each other
    model = DistributedDataParallel(VisionLanguageModel(processor))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    with get_savable_loader(dataset) as loader:
        done = restore(arguments.checkpoint, model, optimizer, loader)
        for step, row in enumerate(loader, done + 1):
            loss = train_step(model, optimizer, row)
            if dist.get_rank() == 0:  # nine digits tell any two float32 apart
                print(f"step {step:4}  loss {loss:.9g}  tokens {len(row.tokens)} of {len(row.keys)} chats", flush=True)
            if step % arguments.save_every == 0:
                save(arguments.checkpoint, step, model, optimizer, loader)
            if step >= arguments.steps:
                break


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", metavar="DATASET", help="what `wdsctl prepare` made")
    parser.add_argument("processor", metavar="PROCESSOR", help="a folder with a processor of transformers")
    parser.add_argument("--steps", type=int, default=80, help="train to this step (default 80)")
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS", help="default 10")
    parser.add_argument("--checkpoint", default="checkpoint.pt", metavar="FILE", help="default checkpoint.pt")
    parser.add_argument("--trace", metavar="FOLDER", help="record which samples are in which step")
    parser.add_argument("--workers", type=int, default=0, help="processes of each rank that load (default 0)")
    return parser.parse_args(argv)


def start_ranks() -> None:
    """Join the ranks that torchrun started; without torchrun, be the only one."""
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        alone = dist.HashStore()  # type: ignore[attr-defined]
        dist.init_process_group("gloo", store=alone, rank=0, world_size=1)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: process {os.getpid()}", flush=True)


def train_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, row: Row) -> float:
    """Returns the mean loss over the tokens of all ranks."""
    logits = model(row.tokens, row.positions, row.cu_seqlens, row.pixels)
    losses, _ = token_losses(logits, row.tokens, row.loss_mask, row.cu_seqlens)
    total = torch.stack([losses.detach().sum(), torch.tensor(float(len(losses)))])
    dist.all_reduce(total)
    total_loss, count = total.tolist()
    optimizer.zero_grad()
    # DDP averages the gradients of the ranks. Every token counts the same, whichever rank has it.
    (losses.sum() * dist.get_world_size() / count).backward()
    optimizer.step()
    return float(total_loss / count)


def save(path: str, step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer, loader: Any) -> None:
    """Write one file with everything. It is the old one or the new one, whenever the process is killed."""
    loaders = loader.save_state_global(0)  # of all ranks, on rank 0
    if dist.get_rank() != 0:
        return
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "loaders": loaders}
    with open(f"{path}.new", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def restore(path: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer, loader: Any) -> int:
    """Returns the steps that are done: 0 without a checkpoint."""
    if not os.path.exists(path):
        return 0
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    loader.load_state_dict(state["loaders"])  # of any number of ranks
    if dist.get_rank() == 0:
        print(f"resumed from {path} after step {state['step']}", flush=True)
    return int(state["step"])


if __name__ == "__main__":
    raise SystemExit(main())
