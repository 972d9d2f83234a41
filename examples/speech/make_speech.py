"""Write a small transcription dataset: telephone digits as WAV files, and a CSV with what is dialled.

Each digit is the pair of tones that a telephone sends for it, with a length, a loudness and a noise of its own, so that
recordings have many durations. Everything is computed from the seed: the same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

RATE = 8_000
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
#: Hz of the two tones of each digit (ITU-T Q.23).
TONES = {
    0: (941, 1336),
    1: (697, 1209),
    2: (697, 1336),
    3: (697, 1477),
    4: (770, 1209),
    5: (770, 1336),
    6: (770, 1477),
    7: (852, 1209),
    8: (852, 1336),
    9: (852, 1477),
}

Wave = NDArray[np.float64]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", help="where to write transcripts.csv and audio/")
    parser.add_argument("--samples", type=int, default=400, help="number of recordings (default 400)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    folder = Path(arguments.folder)
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    seconds = 0.0
    with open(folder / "transcripts.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["audio", "text", "speaker"])
        for number in range(arguments.samples):
            rng = np.random.default_rng([arguments.seed, number])
            digits = rng.integers(10, size=rng.integers(1, 13)).tolist()
            recording = dial(digits, rng)
            write_wav(folder / "audio" / f"{number:05d}.wav", recording)
            table.writerow(
                [f"audio/{number:05d}.wav", " ".join(WORDS[digit] for digit in digits), f"phone-{number % 8}"]
            )
            seconds += len(recording) / RATE
    print(f"wrote {folder}/transcripts.csv with {arguments.samples} recordings, {seconds:.0f} s of sound")
    return 0


def dial(digits: list[int], rng: np.random.Generator) -> Wave:
    """The tones of some digits with pauses between them, and noise over all."""
    pieces = [np.zeros(rng.integers(400, 1200))]
    for digit in digits:
        time = np.arange(rng.integers(800, 1600)) / RATE
        tone = np.sum([np.sin(2 * np.pi * pitch * time) for pitch in TONES[digit]], axis=0)
        pieces += [rng.uniform(0.1, 0.3) * tone, np.zeros(rng.integers(300, 800))]
    recording = np.concatenate(pieces)
    return recording + rng.normal(0, 0.01, len(recording))


def write_wav(path: Path, recording: Wave) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((recording * 32767).clip(-32768, 32767).astype("<i2").tobytes())


if __name__ == "__main__":
    raise SystemExit(main())
