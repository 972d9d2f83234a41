from __future__ import annotations

from tests.cli.conftest import Wdsctl
from wdsctl.core.codes import load_codes


def test_explain_prints_explanation_of_code(wdsctl: Wdsctl) -> None:
    result = wdsctl("explain", "WDS102")
    assert result.code == 0
    assert result.stdout.startswith("WDS102: the shard is truncated\n\n")
    assert "What to do: " in result.stdout


def test_explain_without_code_lists_all_codes(wdsctl: Wdsctl) -> None:
    assert len(wdsctl("explain").stdout.splitlines()) == len(load_codes()) + 1


def test_explain_exits_with_2_for_unknown_code(wdsctl: Wdsctl) -> None:
    result = wdsctl("explain", "WDS999")
    assert result.code == 2
    assert result.stderr.startswith("error[WDS001]: unknown code WDS999\n  help: ")


def test_explain_prints_json_document(wdsctl: Wdsctl) -> None:
    document = wdsctl("explain", "WDS102", "--json").document
    assert document == {
        "schema": 1,
        "command": "explain",
        "codes": [{"code": "WDS102", **load_codes()["WDS102"]._asdict()}],
    }
    assert len(wdsctl("explain", "--json").document["codes"]) == len(load_codes())
