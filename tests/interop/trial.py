"""The trial of an example of examples/integrations: uninterrupted, killed, and resumed on other numbers of ranks.

One rank trains without interruption. Two ranks train and are killed by SIGKILL. Three ranks resume, and one rank does
from the same checkpoint. If the example counts epochs, two ranks also resume within an epoch whose batches accumulation
does not divide. All losses must equal those of the uninterrupted training.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.loader.datasets import Parts, a_dataset

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "integrations"

STEPS, DIES_AT = 8, 5
_RANKS_KILLED = 2
RANKS_RESUMED = (3, 1)
#: Of all ranks in an epoch of the examples that count epochs: two whole steps and one of 4 batches.
_EPOCH_BATCHES = 16
_GLOO_ABORT = "terminate called without an active exception"
_TIMEOUT_SECONDS = 280


@dataclass(frozen=True, slots=True)
class Trial:
    """`resumed_at`: the first step of the resumed trainings. `problem`: empty if all losses were equal."""

    problem: str
    resumed_at: int = 0


def a_dataset_of_texts(folder: Path) -> str:
    """300 texts of different letters."""

    def text(i: int) -> Parts:
        return {"txt": f"{i * 7919 % 1000:03} {chr(97 + i % 26) * 5} {i * i:08}".encode()}

    return a_dataset(folder / "texts", 300, parts=text)


def try_example(script: str, dataset: str, folder: Path, python: str = sys.executable) -> Trial:
    """Run an example on all numbers of ranks. Raises RuntimeError with what a process printed if it fails."""
    command = [python, str(EXAMPLES / script), dataset]
    trial = _try_command(command, folder / "endless", RANKS_RESUMED)
    if trial.problem or not counts_epochs(script):
        return trial
    epochs = _try_command([*command, f"--epoch={_EPOCH_BATCHES}"], folder / "epochs", (_RANKS_KILLED,))
    return replace(epochs, problem=f"with epochs, {epochs.problem}") if epochs.problem else trial


def counts_epochs(script: str) -> bool:
    """Whether an example has the option `--epoch`."""
    return "has_epochs=True" in (EXAMPLES / script).read_text(encoding="utf-8")


def _try_command(command: Sequence[str], folder: Path, ranks_resumed: Sequence[int]) -> Trial:
    expected = losses_of(run_ranks([*_in_folder(command, folder / "alone"), f"--steps={STEPS}"], 1))
    if sorted(expected) != list(range(1, STEPS + 1)):
        return Trial(f"undisturbed, it printed the losses of the steps {sorted(expected)}")
    saved = folder / "saved"
    output = run_ranks([*_in_folder(command, saved), f"--steps={STEPS}", f"--die-at={DIES_AT}"], _RANKS_KILLED)
    killed = losses_of(output)
    problem = _problem("before the kill", killed, expected)
    first = 0
    for world in ranks_resumed:
        copy = shutil.copytree(saved, folder / f"saved-{world}")
        resumed = losses_of(run_ranks([*_in_folder(command, copy), f"--steps={STEPS}"], world))
        if max(killed, default=0) != DIES_AT or not resumed or min(resumed) == 1 or max(resumed) != STEPS:
            return Trial(f"it trained the steps {sorted(killed)} until the kill, and then {sorted(resumed)}")
        problem = problem or _problem(f"after the resume on {world} ranks", resumed, expected)
        first = min(resumed)
    return Trial(problem, first)


def _in_folder(command: Sequence[str], folder: Path) -> list[str]:
    """The command with the folder as the second argument of the script."""
    return [*command[:3], str(folder), *command[3:]]


def _problem(when: str, losses: dict[int, float], expected: dict[int, float]) -> str:
    """The first loss that differs; empty if none does."""
    for step, loss in losses.items():
        if abs(loss - expected[step]) > 1e-4:
            return f"{when}, the loss of step {step} is {loss}, and {expected[step]} undisturbed"
    return ""


def losses_of(output: str) -> dict[int, float]:
    return {int(step): float(loss) for step, loss in re.findall(r"^step (\d+) loss ([\d.]+)$", output, re.MULTILINE)}


def run_ranks(command: Sequence[str], world: int) -> str:
    """Run a command on every rank, as torchrun does. Returns what the ranks printed.

    When rank 0 ends by SIGKILL, the other ranks are killed, too. Raises RuntimeError if a rank fails otherwise.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common_variables = {"WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    thread_variables = {
        "OMP_NUM_THREADS": 1,
        "TORCHELASTIC_RUN_ID": port,
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": ROOT,
    }
    processes = [
        subprocess.Popen(
            command,
            env=os.environ
            | {name: str(value) for name, value in (common_variables | thread_variables | ranks).items()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        for ranks in ({"RANK": rank, "LOCAL_RANK": rank} for rank in range(world))
    ]
    try:
        output = processes[0].communicate(timeout=_TIMEOUT_SECONDS)[0]
        if processes[0].returncode == -signal.SIGKILL:
            return output
        for process in processes[1:]:
            output += process.communicate(timeout=_TIMEOUT_SECONDS)[0]
        codes = [process.returncode for process in processes]
        # Once in many runs, a thread of gloo aborts an interpreter that ends, after the last step of all ranks.
        has_aborted = _GLOO_ABORT in output and all(code in (0, -signal.SIGABRT) for code in codes)
        if any(codes) and not has_aborted:
            raise RuntimeError(f"{' '.join(command)} ended with {codes}:\n{output}")
        return output
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def main(argv: list[str]) -> None:
    """`python -m tests.interop.trial SCRIPT FOLDER`: print the trial as JSON."""
    script, folder = argv
    trial = try_example(script, a_dataset_of_texts(Path(folder)), Path(folder))
    sys.stdout.write(json.dumps({"problem": trial.problem, "resumed_at": trial.resumed_at}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
