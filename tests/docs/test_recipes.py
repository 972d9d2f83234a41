"""Every row of the page of datasets by name: its command makes the sample type that it says, or its error does."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.public_datasets import DATASETS
from tests.several_tables import SEVERAL_TABLES
from wdsctl.cli.main import main
from wdsctl.core.dataset.config import parse_config

PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\|[^|]*\| `(wdsctl prepare [^`]*)` \| `(\w+)` \|", PAGE, re.MULTILINE)
PARTLY = re.findall(r"`(wdsctl prepare [^`]*)`.*\(exit code 5\)", PAGE)
BUILDERS = DATASETS | SEVERAL_TABLES
FIRST_REFUSED = ROWS.index(next(row for row in ROWS if " celeba " in row[0]))


def test_page_has_every_dataset_with_a_fixture() -> None:
    named = {command.split()[2] for command, _ in ROWS}

    others = {"yolo_below_images", "imagenet_flat"}  # layouts of those that are named
    assert BUILDERS.keys() - named == {*others, "brats", "cub200"}
    assert len(ROWS) == len(named)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("command", "sample_type"), ROWS)
def test_command_makes_the_sample_type(command: str, sample_type: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)
    BUILDERS[words[2]](Path(words[2]))

    code = main([*words[1:], "--no-input"])

    if (command, sample_type) in ROWS[FIRST_REFUSED:]:
        assert code == 3
        hint = capsys.readouterr().err.partition("help:")[2]
        script, again = re.findall("`([pw][^`]*)`", hint)
        subprocess.run([sys.executable, *shlex.split(script)[1:]], check=True)
        code = main([*shlex.split(again.replace("DEST", words[3]))[1:], "--no-input"])
    assert code == (5 if command in PARTLY else 0)
    assert parse_config(Path("shards/.wdsctl/dataset.yaml").read_text("utf-8")).sample_type == sample_type
