"""The examples of examples/integrations with the installed frameworks; `make interop` tries all of them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.interop.__main__ import FRAMEWORKS, write_page
from tests.interop.trial import EXAMPLES, Trial, a_dataset_of_texts, counts_epochs, losses_of, try_example


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "package"),
    [
        ("train_ddp.py", "torch"),
        ("train_fsdp2.py", "torch"),
        ("train_accelerate.py", "accelerate"),
        ("train_lightning.py", "lightning"),
        ("train_transformers.py", "accelerate"),
    ],
)
def test_killed_training_resumes_on_other_ranks_with_same_losses(script: str, package: str, tmp_path: Path) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed: `make interop` installs it")

    assert try_example(script, a_dataset_of_texts(tmp_path), tmp_path) == Trial("", resumed_at=5)


def test_make_interop_tries_every_example() -> None:
    scripts = {framework.script_for(packages) for framework in FRAMEWORKS for packages in framework.packages}
    assert scripts == {path.name for path in EXAMPLES.glob("train_*.py")}


def test_trials_of_frameworks_that_count_epochs_resume_within_one() -> None:
    scripts = [path.name for path in sorted(EXAMPLES.glob("train_*.py")) if counts_epochs(path.name)]
    assert scripts == ["train_lightning.py", "train_transformers.py"]


def test_losses_of_parses_printed_losses() -> None:
    assert losses_of("a warning\nstep 1 loss 5.25\nstep 12 loss 0.5\n") == {1: 5.25, 12: 0.5}


def test_write_page_replaces_row_of_framework_and_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- interop: begin (written by `make interop`) -->\n<!-- interop: end -->\nafter\n", encoding="utf-8"
    )
    monkeypatch.setattr("tests.interop.__main__.PAGE", page)

    write_page(["| Accelerate | 1 | yes | good |", "| Lightning | 2.6 | no | a loss |"])
    write_page(["| Lightning | 2.6 | yes | good |", "| Lightning | 2.5 | yes | good |"])

    lines = page.read_text(encoding="utf-8").splitlines()
    assert lines[2:7] == [
        "| Framework | Version | Resumed on other ranks | Result |",
        "|---|---|---|---|",
        "| Lightning | 2.6 | yes | good |",
        "| Lightning | 2.5 | yes | good |",
        "| Accelerate | 1 | yes | good |",
    ]
    assert (lines[0], lines[-1]) == ("before", "after")
    write_page(["| Lightning | 2.7 | yes | good |"], without="Lightning")
    assert "2.6" not in page.read_text(encoding="utf-8")
    assert "| Accelerate | 1 |" in page.read_text(encoding="utf-8")
