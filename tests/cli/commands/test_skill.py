from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml
from PIL import Image
from typer.main import get_command

from tests.cli.conftest import Wdsctl, leaf_commands
from wdsctl.cli.app import build_full_app
from wdsctl.cli.options import COMMON_FLAGS
from wdsctl.cli.skill_text import TASKS, skill_text
from wdsctl.core.version import VERSION

#: The limit keeps the text small in an agent's context. Today it has 2,500 words.
MAX_WORDS = 2_700


def test_skill_has_front_matter_and_is_short(wdsctl: Wdsctl) -> None:
    result = wdsctl("skill")

    assert (result.code, result.stderr) == (0, "")
    assert result.stdout == skill_text()
    _, front, body = result.stdout.split("---\n", 2)
    assert (yaml.safe_load(front)["name"], list(yaml.safe_load(front))) == ("wdsctl", ["name", "description"])
    assert len(yaml.safe_load(front)["description"]) <= 1024
    assert f"# wdsctl {VERSION}\n" in body
    assert len(result.stdout.split()) < MAX_WORDS


def test_skill_describes_every_command_argument_and_option() -> None:
    text = skill_text()
    shared, commands = (block.split("```\n")[0] for block in text.split("```text\n")[1:])
    sections = re.split(r"^(?=\S)", commands, flags=re.MULTILINE)[1:]
    named = {section.split("\n")[0]: section for section in sections}
    missing = []
    for words, command in leaf_commands(get_command(build_full_app())):
        (head,) = [head for head in named if re.match(rf"{words}( [\[A-Z]|:)", head)]
        for parameter in command.get_params(typer.Context(command)):
            names = parameter.opts if parameter.param_type_name == "option" else [parameter.metavar.strip("[]")]
            if not {*COMMON_FLAGS, "--help"} & set(names):
                known = [name for name in names if name in named[head]]
                explained = re.search(rf"^ *(\S+/)?{re.escape(known[-1])}[ :/]", shared + named[head], re.MULTILINE)
                missing += [] if known and explained else [(words, names)]
    assert missing == []


def test_skill_example_commands_succeed(wdsctl: Wdsctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    for i in range(10):
        Image.new("RGB", (8 + 8 * i, 8), (i * 20, 0, 0)).save(f"photos/{i:04}.jpg")
        Path(f"photos/{i:04}.txt").write_text(f"a red of {i}", encoding="utf-8")
    lines = re.findall(r"```sh\n(.*?)```", skill_text(), re.DOTALL)

    assert len(lines) == len(TASKS) == 5
    for line in "".join(lines).splitlines():
        name, *words = shlex.split(line)
        result = wdsctl(*words)
        assert (name, result.code) == ("wdsctl", 0), (line, result.stderr)
        assert result.stdout


def test_skill_install_writes_skill_file(wdsctl: Wdsctl, tmp_path: Path) -> None:
    path = tmp_path / "skills" / "wdsctl" / "SKILL.md"
    dry = wdsctl("skill", "--install", tmp_path / "skills", "--dry-run")
    assert (dry.code, path.exists(), dry.stdout) == (0, False, f"{path}: would be created\n")

    created = wdsctl("skill", "--install", tmp_path / "skills")
    assert (created.code, created.stdout) == (0, f"{path}: created\n")
    assert path.read_text(encoding="utf-8") == skill_text()
    assert wdsctl("skill", "--install", tmp_path / "skills", "--json").document["state"] == "unchanged"


def test_skill_install_replaces_other_text_only_with_force(wdsctl: Wdsctl, tmp_path: Path) -> None:
    path = tmp_path / "wdsctl" / "SKILL.md"
    path.parent.mkdir()
    path.write_text("mine", encoding="utf-8")

    refused = wdsctl("skill", "--install", tmp_path)
    assert (refused.code, path.read_text(encoding="utf-8")) == (2, "mine")
    assert "pass --force to replace it" in refused.stderr
    assert "replaced" in wdsctl("skill", "--install", tmp_path, "--force").stdout
    assert path.read_text(encoding="utf-8") == skill_text()
