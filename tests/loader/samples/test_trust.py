"""Code that data names: registered, Energon's, imported with trust_code, or rejected with what would run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wdsctl.core.errors import UsageError
from wdsctl.loader import CaptioningSample
from wdsctl.loader.samples.trust import NamedCode, load_named_code


def joiner(text: str, *data: str) -> NamedCode:
    return NamedCode(text, "joiner", "blend.yaml:7", data)


def test_load_named_code_error_names_code_its_file_and_location() -> None:
    with pytest.raises(UsageError) as raised:
        load_named_code(joiner("subprocess:Popen"), trust_code=False)
    error = raised.value

    assert error.code == "WDS270"
    assert error.where == "blend.yaml:7"
    assert "subprocess:Popen" in error.message
    assert f"it is in {sys.modules['subprocess'].__file__}" in error.message
    assert "trust_code=True" in error.hint
    assert 'register_joiner(..., name="subprocess:Popen")' in error.hint


@pytest.mark.parametrize(
    ("text", "message"), [("wds_none:f", "no module 'wds_none' was found"), ("sys:exit", "Python itself")]
)
def test_load_named_code_rejects_code_without_file(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_named_code(joiner(text), trust_code=False)


@pytest.mark.parametrize(
    "text", ["megatron.energon:CaptioningSample", "megatron.energon.flavors.captioning:CaptioningSample"]
)
def test_energon_sample_types_resolve_to_wdsctl_types_without_import(text: str) -> None:
    before = set(sys.modules)

    assert load_named_code(joiner(text), trust_code=False) is CaptioningSample
    assert not [name for name in set(sys.modules) - before if name.startswith("megatron")]


@pytest.mark.parametrize("text", ["megatron.energon:Cooker", "megatron.mine:CaptioningSample", "megatronic:TextSample"])
def test_other_energon_names_need_trust_code(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        load_named_code(joiner(text), trust_code=False)
    assert raised.value.code == "WDS270"


def test_trust_code_imports_nothing_from_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wds_beside.py").write_text("raise SystemExit(9)\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(UsageError, match="whose files are data") as raised:
        load_named_code(joiner("wds_beside:f", str(tmp_path)), trust_code=True)
    assert raised.value.code == "WDS271"
    assert "wds_beside" not in sys.modules


def test_trust_code_ignores_current_folder_unless_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wds_current.py").write_text("import wds_helper\n\ndef f(): return 5\n")
    (tmp_path / "wds_helper.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    before = list(sys.path)

    with pytest.raises(UsageError, match="module 'wds_current' is only in the current folder"):
        load_named_code(joiner("wds_current:f"), trust_code=True)
    assert sys.path == before
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert load_named_code(joiner("wds_current:f"), trust_code=True)() == 5
    for name in ("wds_current", "wds_helper"):
        del sys.modules[name]
