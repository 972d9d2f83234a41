from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.packaging import matrix
from tests.packaging.matrix import MINIMUM_MINOR, MINIMUM_TORCH, find_pythons, minimum_requirements, missing_pythons
from tests.packaging.smoke import SmokeFailed, run
from tests.packaging.test_syntax import MINIMUM, SETTINGS


def test_minimum_versions_match_pyproject() -> None:
    assert (3, MINIMUM_MINOR) == MINIMUM
    assert f"torch>={MINIMUM_TORCH.removesuffix('.0')}" in SETTINGS["project"]["optional-dependencies"]["loader"]
    assert "numpy==1.26.*\n" in minimum_requirements()
    assert len(minimum_requirements().splitlines()) == len(SETTINGS["project"]["dependencies"])


def test_find_pythons_finds_running_python() -> None:
    assert sys.version_info[1] in find_pythons()


def test_not_found_lists_absent_python_versions() -> None:
    assert missing_pythons({}) == [f"3.{minor}" for minor in range(10, 14)]
    assert missing_pythons({11: ("", ""), 12: ("", "")}) == ["3.10", "3.13"]


def test_torch_versions_are_oldest_pinned_and_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = "torch (2.15.0)\nAvailable versions: 2.15.0, 2.14.1, 2.13.0+cpu, 2.13.0, 2.4.1, 2.4.0, 2.3.1, 1.13.1\n"
    monkeypatch.setattr(matrix, "_pip", lambda *_, **__: listed)
    monkeypatch.setattr(
        matrix, "_resolve", lambda *_: {"version": "2.14.1+cpu"}
    )  # a newer version cannot be installed here
    assert matrix.torch_versions("python", {}) == ["2.4.0", "2.13.0", "2.14.1"]


@pytest.mark.parametrize(
    ("requires", "reason"), [(["filelock"], ""), (["filelock", "nvidia-cublas"], "only a build for CUDA")]
)
def test_reason_to_skip_torch_detects_cuda_builds(
    monkeypatch: pytest.MonkeyPatch, requires: list[str], reason: str
) -> None:
    report = json.dumps({"install": [{"metadata": {"requires_dist": requires}}]})
    monkeypatch.setattr(matrix, "_pip", lambda *_, **__: report)
    assert matrix.reason_to_skip_torch("python", "2.4.0", {}).startswith(reason)
    assert bool(matrix.reason_to_skip_torch("python", "2.4.0", {})) == bool(reason)


def test_run_raises_smoke_failed_when_command_fails(tmp_path: Path) -> None:
    with pytest.raises(SmokeFailed, match="ended with 3: why"):
        run((sys.executable, "-c", "import sys; sys.stderr.write('why'); sys.exit(3)"), {"HOME": str(tmp_path)})
