"""Trains a transcription model: a CSV with recordings to batches of similar durations, killed, and resumed exactly."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from demo import DemoError, example, print_step, run_demo, step, wdsctl

HERE = Path(__file__).resolve().parent
STEPS, SAVE_EVERY, KILL_AT = 150, 20, 47
EDGES = (1.0, 2.0, 3.0)  # seconds, as train_speech.py has them


def main(argv: list[str] | None = None) -> int:
    return run_demo(demo, __doc__, "speech", "--steps", STEPS, argv)


def demo(folder: Path, steps: int) -> None:
    print_step("1. Recordings, and a CSV that says what is heard in each.")
    example(folder, "speech/make_speech.py", "data")
    print_step("2. Prepare them, with the durations that their headers state, and make a column of these.")
    wdsctl(folder, "prepare", "data/transcripts.csv", "shards", "--split", "9,1", "--media", "--no-input")
    wdsctl(folder, "index", "shards", "--column", "ms=media:wav:duration_ms")
    print_step(f"3. Train {steps} steps on batches of similar durations.")
    truth = lines_by_step(train(folder, "one.pt", steps))
    check_buckets(truth)
    print_step(f"4. Train again, kill the process with SIGKILL at step {KILL_AT}, and run the same command again.")
    train(folder, "two.pt", steps, kill_at=KILL_AT)
    resumed = lines_by_step(train(folder, "two.pt", steps))
    first = KILL_AT - KILL_AT % SAVE_EVERY + 1  # after the last checkpoint
    if list(resumed) != list(range(first, steps + 1)) or any(resumed[step] != truth[step] for step in resumed):
        raise DemoError("the resumed training has other losses or batches")
    print(f"yes: steps {first} to {steps} have the very same losses and batches as without the kill")


def train(folder: Path, checkpoint: str, steps: int, *, kill_at: int = 0) -> list[str]:
    options = ["--steps", str(steps), "--save-every", str(SAVE_EVERY), "--checkpoint", checkpoint]
    typed = ["python", "examples/speech/train_speech.py", "shards", *options]
    return step(folder, typed, [sys.executable, str(HERE / "speech" / "train_speech.py"), *typed[2:]], kill_at=kill_at)


def lines_by_step(lines: list[str]) -> dict[int, str]:
    return {int(match[1]): line for line in lines if (match := re.match(r"step +(\d+) ", line))}


def check_buckets(lines: dict[int, str]) -> None:
    """Raises DemoError unless the durations of each batch are between the same two edges."""
    for line in lines.values():
        found = re.search(r"of ([\d.]+) to ([\d.]+) s", line)
        if not found or len({sum(float(each) > edge for edge in EDGES) for each in found.groups()}) != 1:
            raise DemoError(f"a batch has durations of several buckets: {line}")
    print(f"yes: no batch mixes recordings up to {', '.join(f'{edge:g}' for edge in EDGES)} s and longer ones")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
