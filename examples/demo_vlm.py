"""Trains a vision-language model: LLaVA-style JSON to packs, killed, resumed, on two ranks, and compared."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

from demo import DemoError, example, print_step, run_demo, step, wdsctl

from wdsctl.core.trace import read_trace

HERE = Path(__file__).resolve().parent
STEPS, SAVE_EVERY, KILL_AT = 80, 10, 27  # of one rank
CAPACITY = 512
TOLERANCE = 1e-5  # between the loss of a conversation in a pack and alone


def main(argv: list[str] | None = None) -> int:
    return run_demo(demo, __doc__, "vlm", "--samples", 320, argv)


def demo(folder: Path, samples: int) -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is downloaded
    os.environ["OMP_NUM_THREADS"] = "1"  # two ranks share this machine
    print_step("1. Conversations about pictures, as LLaVA has them: one JSON file that names pictures.")
    example(folder, "vlm/make_data.py", "data", "--samples", str(samples))
    print_step("2. Prepare them.")
    wdsctl(folder, "prepare", "data/train.json", "shards", "--split", "9,1", "--no-input")
    print_step("3. Build a tokenizer, a chat template and an image processor of transformers.")
    example(folder, "vlm/processor.py", "data/train.json", "processor")
    print_step(f"4. Train {STEPS} steps on packs of up to {CAPACITY} tokens.")
    truth = losses(train(folder, "one"))
    print_step(f"5. Train again, kill the process with SIGKILL at step {KILL_AT}, and run the same command again.")
    compare(truth, losses(train(folder, "two", kill_at=KILL_AT)), range(1, KILL_AT + 1))
    first = KILL_AT - KILL_AT % SAVE_EVERY + 1  # after the last checkpoint
    compare(truth, losses(train(folder, "two")), range(first, STEPS + 1))
    print(f"yes: steps {first} to {STEPS} have the very same losses as without the kill, bit for bit")
    print_step(f"6. Train on two ranks. One of them gets SIGKILL at step {KILL_AT // 2}; run the same command again.")
    train(folder, "ranks", ranks=2, kill_at=KILL_AT // 2)
    train(folder, "ranks", ranks=2)
    check_ranks(folder, samples)
    print_step("7. The loss of each conversation of the validation split, alone in its row and in a pack.")
    check_packing(evaluate(folder), evaluate(folder, "--capacity", str(CAPACITY)))


def train(folder: Path, name: str, *, ranks: int = 1, kill_at: int = 0) -> list[str]:
    """Train to the same number of packs on any number of ranks; returns what is printed."""
    launcher = ["python"] if ranks == 1 else ["torchrun", "--standalone", f"--nproc-per-node={ranks}"]
    options = ["--steps", str(STEPS // ranks), "--save-every", str(SAVE_EVERY // ranks)]
    files = ["--checkpoint", f"{name}.pt", "--trace", f"trace-{name}"]
    arguments = ["shards", "processor", *options, *files]
    module = [] if ranks == 1 else ["-m", "torch.distributed.run", *launcher[1:]]
    command = [sys.executable, *module, str(HERE / "vlm" / "train.py"), *arguments]
    return step(folder, [*launcher, "examples/vlm/train.py", *arguments], command, kill_at=kill_at)


def losses(lines: list[str]) -> dict[int, str]:
    """Losses by step, as they are printed."""
    found = (re.match(r"step +(\d+) +loss (\S+)", line) for line in lines)
    return {int(match[1]): match[2] for match in found if match}


def compare(truth: dict[int, str], found: dict[int, str], steps: range) -> None:
    """Raises DemoError unless these are the steps that were trained, with the same losses."""
    if list(found) != list(steps):
        raise DemoError(f"expected steps {steps[0]} to {steps[-1]}, found {list(found)}")
    different = [step for step in steps if found[step] != truth[step]]
    if different:
        raise DemoError(f"other losses at the steps {different}")


def check_ranks(folder: Path, samples: int) -> None:
    """Raises DemoError unless two ranks trained on the packs of one, and each sample came once in the first epoch."""
    one, two = (packs(folder / f"trace-{name}") for name in ("one", "ranks"))
    if len(two) != STEPS or one != two:
        raise DemoError("two ranks trained on other packs than one")
    seen = [key for pack in two for key in pack if key[1] == 0]  # source, pass, sample
    if len(seen) != len(set(seen)) or len(seen) != samples - samples // 10:
        raise DemoError(f"{len(seen)} samples came in the first epoch, {len(set(seen))} of them different")
    print(f"yes: the ranks trained on the {STEPS} packs of step 4, and saw each of the {len(seen)} conversations")
    print("of the first epoch exactly once")


def packs(trace: Path) -> list[list[tuple[int, ...]]]:
    """The restore keys of the samples of each pack, in the order of the job."""
    return [[tuple(origin[:3]) for origin in pack.origins.tolist()] for pack in read_trace(str(trace)).batches()]


def evaluate(folder: Path, *options: str) -> dict[str, float]:
    example(folder, "vlm/evaluate.py", "shards", "processor", "one.pt", "losses.json", *options)
    found: dict[str, float] = json.loads((folder / "losses.json").read_text(encoding="utf-8"))
    return found


def check_packing(alone: dict[str, float], packed: dict[str, float]) -> None:
    if alone.keys() != packed.keys():
        raise DemoError("the two evaluations have other conversations")
    difference = max(abs(alone[key] - packed[key]) for key in alone)
    if difference > TOLERANCE:
        raise DemoError(f"the loss of a conversation differs by {difference:.1e} in a pack: attention crosses its ends")
    print(f"yes: the losses of {len(alone)} conversations differ by {difference:.1e} at most")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
