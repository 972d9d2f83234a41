"""Questions about photographs, sounds and clips: labels apart from media, trained on, saved, and resumed exactly."""

from __future__ import annotations

import sys
from pathlib import Path

from demo import DemoError, digests, example, last_loss, print_step, run_demo, wdsctl

STEPS, SAVE_AT = 20, 10


def main(argv: list[str] | None = None) -> int:
    return run_demo(demo, __doc__, "media", "--clips", 16, argv)


def demo(folder: Path, clips: int) -> None:
    print_step("1. Media in a folder: photographs, sounds and clips. Beside them a file of questions that name them.")
    example(folder, "polylithic/make_media.py", ".", *([] if clips == 16 else ["--clips", str(clips)]))
    print_step(
        "2. Prepare the media: shards, their facts, and where the clips can be entered. They have no order of training."
    )
    options = ("--sample-type", "CrudeSample", "--media", "--media-index", "--no-input")
    wdsctl(folder, "prepare", "raw", "media", "--shard-samples", "20", *options)
    print_step("3. Prepare the questions. Samples are lines; nothing is copied.")
    in_place = ("--from", "shards", "--key", "id", "--sample-type", "CrudeSample", "--no-input")
    wdsctl(folder, "prepare", "questions.jsonl", *in_place)
    print_step("4. Does everything that the questions name exist?")
    wdsctl(folder, "validate", "questions.jsonl", "--level", "refs", "--refs", "media=media")
    print_step(f"5. Train {STEPS} steps in one process, and save model and loader after step {SAVE_AT}.")
    first = train(folder, "--save-at", str(SAVE_AT))
    print_step("6. A new process resumes from the save, with two workers that look up, read and decode.")
    second = train(folder, "--resume", "media-state.pt", "--workers", "2")
    print_step("7. Did the second process get the batches that the first one got?")
    compare(first, second)


def train(folder: Path, *arguments: str) -> list[str]:
    return example(folder, "polylithic/train_questions.py", "train.yaml", "--steps", str(STEPS), *arguments)


def compare(first: list[str], second: list[str]) -> None:
    """Raises DemoError unless both runs printed the same digests, and one for each step after the save."""
    seen, again = digests(first), digests(second)
    if len(seen) != STEPS - SAVE_AT:
        raise DemoError(f"the first run printed {len(seen)} digests instead of {STEPS - SAVE_AT}")
    different = [name for name in seen if seen[name] != again.get(name)]
    if different or len(seen) != len(again):
        raise DemoError(f"the batches after the resume are not the same: {', '.join(different) or 'others came'}")
    print(f"yes: batches {SAVE_AT + 1} to {STEPS} are identical, byte for byte: the same questions, in the")
    print("same order, with the same pictures and sounds.")
    print(f"loss at step {STEPS}: {last_loss(first)} in the first process, {last_loss(second)} in the second")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
