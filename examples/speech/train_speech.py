"""Train a tiny CTC model to transcribe recordings, in batches of similar durations. Run it again after a stop: it
resumes exactly.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from wdsctl.loader import (
    DefaultTaskEncoder,
    Sample,
    TranscriptionSample,
    WorkerConfig,
    edataclass,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
)
from wdsctl.loader.packing import Buckets

RATE = 8_000
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
HOP, WINDOW = 80, 256  # samples of a step of 10 ms, and of what is heard in it
WIDTH = 64
EDGES_MS = (1_000, 2_000, 3_000)  # upper limits of the buckets
BATCH_MS = 24_000  # padded sound of a batch: 24 recordings of a second, 8 of three


@edataclass
class Recording(Sample):
    """A recording as the model takes it. The default batch pads `sound` and `words` with zeros."""

    sound: Tensor  # float32 (samples,)
    sound_length: Tensor  # int64 ()
    words: Tensor  # int64 (words,): 1 + the index of each word; 0 is the blank of CTC
    words_length: Tensor  # int64 ()


class Encoder(DefaultTaskEncoder[Any, Any, Any, Any]):
    def encode_sample(self, sample: TranscriptionSample) -> Recording:
        decoder = sample.audio.using(audio_rate=RATE, audio_channels=1, audio_format="float")
        sound = decoder.get_audio().audio_clips[0][0]
        words = torch.tensor([1 + WORDS.index(word) for word in sample.text.split()])
        return Recording.derive_from(
            sample,
            sound=sound,
            sound_length=torch.tensor(len(sound)),
            words=words,
            words_length=torch.tensor(len(words)),
        )


class SpeechModel(nn.Module):
    """Log-probabilities of words (or the blank) for every 40 ms of sound."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WINDOW // 2 + 1)
        self.convolutions = nn.Sequential(
            nn.Conv1d(WINDOW // 2 + 1, WIDTH, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv1d(WIDTH, WIDTH, 5, stride=2, padding=2),
            nn.ReLU(),
        )
        self.out = nn.Linear(WIDTH, 1 + len(WORDS))

    def forward(self, sound: Tensor, sound_length: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (batch, steps, 1 + words), and the steps of each recording without its padding."""
        spectrum = torch.stft(sound, WINDOW, HOP, window=torch.hann_window(WINDOW), return_complex=True).abs()
        features = self.norm((spectrum + 1e-2).log().transpose(1, 2)).transpose(1, 2)
        features = self.convolutions(features).transpose(1, 2)
        return self.out(features).log_softmax(-1), sound_length // HOP // 4 + 1


def main(argv: list[str] | None = None) -> int:
    arguments = parse(argv)
    dataset = get_train_dataset(
        arguments.dataset,
        task_encoder=Encoder(),
        buckets=Buckets(of="ms", edges=EDGES_MS, max_tokens=BATCH_MS),  # `ms` is a column of the catalog
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=arguments.workers),
    )
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the model is tiny: more threads would wait for each other
    model = SpeechModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    print(f"process {os.getpid()}")
    with get_savable_loader(dataset) as loader:
        done = restore(arguments.checkpoint, model, optimizer, loader)
        for step, batch in enumerate(loader, done + 1):
            loss = train_step(model, optimizer, batch)
            print(f"step {step:4}  loss {loss:.9g}  {describe(batch)}", flush=True)
            if step % arguments.save_every == 0:
                save(arguments.checkpoint, step, model, optimizer, loader)
            if step >= arguments.steps:
                break
    evaluate(model, arguments.dataset)
    return 0


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", metavar="DATASET", help="what `wdsctl prepare` made, with the column `ms`")
    parser.add_argument("--steps", type=int, default=150, help="train to this step (default 150)")
    parser.add_argument("--save-every", type=int, default=20, metavar="STEPS", help="default 20")
    parser.add_argument("--checkpoint", default="checkpoint.pt", metavar="FILE", help="default checkpoint.pt")
    parser.add_argument("--workers", type=int, default=0, help="processes that load (default 0: this one)")
    return parser.parse_args(argv)


def train_step(model: SpeechModel, optimizer: torch.optim.Optimizer, batch: Any) -> float:
    log_probabilities, steps = model(batch.sound, batch.sound_length)
    loss = functional.ctc_loss(log_probabilities.transpose(0, 1), batch.words, steps, batch.words_length)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.item()


def describe(batch: Any) -> str:
    shortest, longest = batch.sound_length.min().item() / RATE, batch.sound_length.max().item() / RATE
    padding = 1 - batch.sound_length.sum().item() / batch.sound.numel()
    return f"{len(batch.sound):2} recordings of {shortest:.3f} to {longest:.3f} s, {100 * padding:.0f} % padding"


def evaluate(model: SpeechModel, path: str) -> None:
    """Transcribe the validation split: of the repetitions of a word that CTC hears, one remains."""
    right = total = 0
    with torch.no_grad(), get_loader(get_val_dataset(path, batch_size=8, task_encoder=Encoder())) as loader:
        for batch in loader:
            log_probabilities, steps = model(batch.sound, batch.sound_length)
            for i, best in enumerate(log_probabilities.argmax(-1)):
                recognised = [word for word in torch.unique_consecutive(best[: steps[i]]).tolist() if word]
                right += recognised == batch.words[i, : batch.words_length[i]].tolist()
                total += 1
    print(f"transcribed {right} of {total} recordings of the validation split without an error")


def save(path: str, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, loader: Any) -> None:
    """Write one file with everything. It is the old one or the new one, whenever the process is killed."""
    state = {
        "step": step,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "loader": loader.state_dict(),
    }
    with open(f"{path}.new", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def restore(path: str, model: nn.Module, optimizer: torch.optim.Optimizer, loader: Any) -> int:
    """Returns the steps that are done: 0 without a checkpoint."""
    if not os.path.exists(path):
        return 0
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    loader.load_state_dict(state["loader"])
    print(f"resumed from {path} after step {state['step']}")
    return int(state["step"])


if __name__ == "__main__":
    raise SystemExit(main())
