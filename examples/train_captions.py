"""Train a tiny model to tell a picture's caption words; save in the middle, and resume exactly in a new process."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import time
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor, nn

from wdsctl.core.errors import WdsctlError
from wdsctl.loader import DefaultTaskEncoder, SampleDecoder, WorkerConfig, get_savable_loader, get_train_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH = 16
BUCKETS = 64  # caption words are hashed into so many


class Encoder(DefaultTaskEncoder):
    decoder = SampleDecoder(image_decode="torchrgb8")  # uint8 (3, height, width)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line instead of the usage text."""
        self.exit(2, f"error: {message}\n")


@dataclass(slots=True, kw_only=True)
class Run:
    """What a checkpoint holds: the model, its optimiser, the loader's place, and how far they are."""

    model: nn.Module
    optimiser: torch.optim.Optimizer
    loader: Any
    step: int = 0


@dataclass(slots=True)
class Witness:
    """Digests of the batches since the save: printed one by one at first, and all of them together at the end."""

    show: int
    first: int = 0
    last: int = 0
    together: Any = field(default_factory=hashlib.sha256)

    def see(self, step: int, batch: Any) -> None:
        digest = digest_of(batch)
        self.first, self.last = self.first or step, step
        self.together.update(digest.encode())
        if step - self.first < self.show:
            print(f"batch {step:3}  {digest}")

    def close(self) -> None:
        if self.last:
            print(f"batches {self.first} to {self.last} as one digest:")
            print(f"batches    {self.together.hexdigest()}")


@dataclass(slots=True)
class Clock:
    """Seconds spent waiting for batches and training on them."""

    loading: float = 0.0
    training: float = 0.0
    samples: int = 0

    def report(self) -> str:
        total = self.loading + self.training
        return (
            f"{self.samples:,} samples in {total:.1f} s\n"
            f"samples a second, loading and training: {rate(self.samples, total)}\n"
            f"samples a second, loading alone: {rate(self.samples, self.loading)}"
        )


def main(argv: list[str] | None = None) -> int:
    arguments = parse(argv)
    try:
        run = start(arguments.dataset)
        if arguments.resume:
            restore(run, arguments.resume)
        train(run, arguments)
    except WdsctlError as error:
        print(f"error: {error}", file=sys.stderr)  # with the place, and what to try
        return error.exit_code
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 3
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("dataset", metavar="DATASET", help="a dataset that `wdsctl prepare` made")
    parser.add_argument("--steps", type=int, default=60, help="train to this step (default 60)")
    parser.add_argument("--save-at", type=int, default=30, help="save after this step (default 30)")
    parser.add_argument("--state", metavar="FILE", default="state.pt", help="where to save (default state.pt)")
    parser.add_argument("--resume", metavar="FILE", help="go on from a saved state")
    parser.add_argument("--digests", type=int, default=5, help="so many batches to print after the save (default 5)")
    return parser.parse_args(argv)


def start(dataset: str) -> Run:
    stream = get_train_dataset(
        dataset,
        batch_size=BATCH,
        shuffle_buffer_size=1000,
        seed=0,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
        task_encoder=Encoder(),
    )
    torch.manual_seed(0)
    model = caption_model()
    return Run(
        model=model,
        optimiser=torch.optim.AdamW(model.parameters(), lr=2e-3),
        loader=get_savable_loader(stream),
    )


def caption_model() -> nn.Module:
    """From a picture in [0, 1], (batch, 3, height, width), to a logit for each bucket of words."""
    return nn.Sequential(
        *convolution(3, 16),
        *convolution(16, 32),
        *convolution(32, 64),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, BUCKETS),
    )


def convolution(channels: int, out: int) -> list[nn.Module]:
    return [nn.Conv2d(channels, out, 3, stride=2, padding=1), nn.ReLU()]


def train(run: Run, arguments: argparse.Namespace) -> None:
    clock = Clock()
    witness = Witness(arguments.digests)
    batches = iter(run.loader)
    begun = run.step + 1
    while run.step < arguments.steps:
        run.step += 1
        batch, loss = timed_step(run, batches, clock)
        if run.step == begun:
            clock = Clock()  # in its first step torch sets itself up for seconds: that is not counted
        if arguments.resume or run.step > arguments.save_at:
            witness.see(run.step, batch)
        if run.step == 1 or run.step % 10 == 0:
            print(f"step {run.step:4}  loss {loss:.4f}")
        if run.step == arguments.save_at and not arguments.resume:
            save(run, arguments.state)
    witness.close()
    print(clock.report())


def timed_step(run: Run, batches: Iterator[Any], clock: Clock) -> tuple[Any, float]:
    begin = time.perf_counter()
    batch = next(batches)
    loaded = time.perf_counter()
    loss = train_step(run.model, run.optimiser, batch)
    clock.loading += loaded - begin
    clock.training += time.perf_counter() - loaded
    clock.samples += len(batch.caption)
    return batch, loss


def train_step(model: nn.Module, optimiser: torch.optim.Optimizer, batch: Any) -> float:
    logits = model(batch.image.float() / 255)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, words_of(batch.caption))
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return float(loss.detach())


def words_of(captions: list[str]) -> Tensor:
    """float32 (batch, BUCKETS): 1 where a word of the caption falls."""
    target = torch.zeros(len(captions), BUCKETS)
    for row, caption in enumerate(captions):
        target[row, [zlib.crc32(word.encode()) % BUCKETS for word in re.findall(r"\w+", caption.lower())]] = 1
    return target


def digest_of(batch: Any) -> str:
    """SHA-256 of a batch: its keys, and every byte of its images."""
    digest = hashlib.sha256("\n".join(batch.__key__).encode())
    digest.update(batch.image.contiguous().numpy().tobytes())
    return digest.hexdigest()


def save(run: Run, path: str) -> None:
    """Write everything into one file, which is either the old one or the new one, whatever happens."""
    place = json.dumps(run.loader.save_state_rank())
    state = {
        "step": run.step,
        "model": run.model.state_dict(),
        "optimiser": run.optimiser.state_dict(),
        "loader": place,
    }
    with open(f"{path}.new", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)
    print(f"saved {path} after step {run.step}: {os.path.getsize(path):,} bytes, {len(place):,} of them the loader's")


def restore(run: Run, path: str) -> None:
    with open(path, "rb") as file:
        state = torch.load(file, weights_only=True)
    run.model.load_state_dict(state["model"])
    run.optimiser.load_state_dict(state["optimiser"])
    run.loader.restore_state_rank(json.loads(state["loader"]))
    run.step = state["step"]
    print(f"resumed {path} after step {run.step}")


def rate(samples: int, seconds: float) -> str:
    return f"{samples / seconds:,.0f}" if seconds else "0"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
