"""Train a tiny model to answer questions about pictures, sounds and clips; save in the middle, resume exactly."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import textwrap
import zlib
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn import functional

from wdsctl.core.errors import WdsctlError
from wdsctl.loader import (
    AVDecoder,
    Cooker,
    DefaultTaskEncoder,
    SampleDecoder,
    WorkerConfig,
    basic_sample_keys,
    cooker,
    get_savable_loader,
    get_single_frames_uniform,
    get_train_dataset,
)

BATCH = 8
BUCKETS = 64  # words are hashed into so many
FRAMES, SIDE = 4, 64  # of a clip; pixels of a picture's sides
SOUND_RATE, SOUND_SECONDS = 8_000, 2


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line instead of the usage text."""
        self.exit(2, f"error: {message}\n")


@cooker
def cook(sample: Any, media: Any) -> dict[str, Any]:
    """The line of the primary, and what it is about. Of a clip four frames and two seconds of sound are decoded."""
    line = sample["json"]
    found = media.get(line["media"], sample)
    pictures = torch.zeros(FRAMES, 3, SIDE, SIDE, dtype=torch.uint8)
    sound = torch.zeros(SOUND_RATE * SOUND_SECONDS)
    if not isinstance(found, AVDecoder):
        pictures[:] = resized(found)
    elif line["media"].startswith("clips/"):
        pictures = get_single_frames_uniform(found, FRAMES, video_out_frame_size=(SIDE, SIDE))
    if isinstance(found, AVDecoder):
        audio = found.using(audio_rate=SOUND_RATE, audio_channels=1, audio_format="float")
        (samples,), _ = audio.get_audio_clips([(0, SOUND_SECONDS)])
        sound[: samples.shape[1]] = samples[0, : len(sound)]
    return {
        **basic_sample_keys(sample),
        "question": line["question"],
        "answer": line["answer"],
        "media": line["media"],
        "pictures": pictures,
        "sound": sound,
    }


def resized(image: Tensor) -> Tensor:
    """uint8 (3, height, width) to (3, SIDE, SIDE)."""
    scaled = functional.interpolate(image[None].float(), (SIDE, SIDE), mode="bilinear", antialias=True)
    return scaled[0].round().clamp(0, 255).to(torch.uint8)


class Questions(DefaultTaskEncoder[Any, Any, Any, Any]):
    decoder = SampleDecoder("torchrgb8")
    cookers = (Cooker(cook),)


class Model(nn.Module):
    """Words of a question, four pictures and a sound to a logit for each bucket of words of the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Linear(BUCKETS, 64)
        self.pictures = nn.Sequential(
            nn.Conv2d(3, 16, 5, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2)
        )
        self.sound = nn.Sequential(nn.Conv1d(1, 32, 256, stride=64), nn.ReLU(), nn.AdaptiveAvgPool1d(8))
        self.answer = nn.Linear(64 + FRAMES * 32 * 4 + 32 * 8, BUCKETS)

    def forward(self, batch: Any) -> Tensor:
        pictures = batch["pictures"].reshape(-1, 3, SIDE, SIDE).float() / 255
        seen = self.pictures(pictures).reshape(len(batch["question"]), -1)
        audio = self.sound(batch["sound"][:, None]).flatten(1)
        logits: Tensor = self.answer(torch.cat([self.words(words_of(batch["question"])), seen, audio], 1))
        return logits


@dataclass(slots=True, kw_only=True)
class Run:
    """What a checkpoint holds: the model, its optimiser, the loader's place, and how far they are."""

    model: nn.Module
    optimiser: torch.optim.Optimizer
    loader: Any
    step: int = 0


def main(argv: list[str] | None = None) -> int:
    arguments = parse(argv)
    try:
        run = start(arguments.blend, arguments.workers)
        with run.loader:
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
    parser.add_argument("blend", metavar="BLEND.yaml", help="a blend file with a store `media`")
    parser.add_argument("--steps", type=int, default=20, help="train to this step (default 20)")
    parser.add_argument("--save-at", type=int, default=10, help="save after this step (default 10)")
    parser.add_argument("--state", metavar="FILE", default="media-state.pt", help="where (default media-state.pt)")
    parser.add_argument("--resume", metavar="FILE", help="go on from a saved state")
    parser.add_argument("--workers", type=int, default=0, help="processes that load (default 0: this one)")
    return parser.parse_args(argv)


def start(blend: str, workers: int) -> Run:
    stream = get_train_dataset(
        blend,
        batch_size=BATCH,
        shuffle_buffer_size=200,
        seed=0,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=workers),
        task_encoder=Questions(),
    )
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the model is tiny: more threads would wait for one another
    model = Model()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    return Run(model=model, optimiser=optimiser, loader=get_savable_loader(stream))


def train(run: Run, arguments: argparse.Namespace) -> None:
    shown = (run.step if arguments.resume else arguments.save_at) + 1
    for batch in run.loader:
        run.step += 1
        loss = train_step(run, batch)
        if run.step == 1 or run.step % 5 == 0:
            print(f"step {run.step:4}  loss {loss:.4f}")
        if arguments.resume or run.step > arguments.save_at:
            print(f"batch {run.step:3}  {digest_of(batch)}")
        if run.step == arguments.save_at and not arguments.resume:
            save(run, arguments.state)
        if run.step in (shown, arguments.steps):
            show(batch)
        if run.step >= arguments.steps:
            return


def train_step(run: Run, batch: Any) -> float:
    loss = functional.binary_cross_entropy_with_logits(run.model(batch), words_of(batch["answer"]))
    run.optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    run.optimiser.step()
    return float(loss.detach())


def words_of(texts: list[str]) -> Tensor:
    """float32 (batch, BUCKETS): 1 where a word of the text falls."""
    words = torch.zeros(len(texts), BUCKETS)
    for row, text in enumerate(texts):
        words[row, [zlib.crc32(word.encode()) % BUCKETS for word in re.findall(r"\w+", text.lower())]] = 1
    return words


def show(batch: Any) -> None:
    """The first samples of a batch: what they are about, and what is asked."""
    for i in range(3):
        text = f"{batch['question'][i]} {batch['answer'][i]}"
        print(f"    {batch['__key__'][i]}  {batch['media'][i]:20}  {textwrap.shorten(text, 46, placeholder=' ...')}")


def digest_of(batch: Any) -> str:
    """SHA-256 of a batch: its keys and texts, and every byte of its pictures and sounds."""
    digest = hashlib.sha256(json.dumps([batch[name] for name in ("__key__", "question", "answer")]).encode())
    for name in ("pictures", "sound"):
        digest.update(batch[name].contiguous().numpy().tobytes())
    return digest.hexdigest()


def save(run: Run, path: str) -> None:
    """Write everything into one file, which is either the old one or the new one, whatever happens."""
    state = {
        "step": run.step,
        "model": run.model.state_dict(),
        "optimiser": run.optimiser.state_dict(),
        "loader": json.dumps(run.loader.save_state_rank()),
    }
    with open(f"{path}.new", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)
    print(f"saved {path} after step {run.step}")


def restore(run: Run, path: str) -> None:
    with open(path, "rb") as file:
        state = torch.load(file, weights_only=True)
    run.model.load_state_dict(state["model"])
    run.optimiser.load_state_dict(state["optimiser"])
    run.loader.restore_state_rank(json.loads(state["loader"]))
    run.step = state["step"]
    print(f"resumed {path} after step {run.step}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
