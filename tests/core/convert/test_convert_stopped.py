"""Conversions that were interrupted or killed, and are continued."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import children
from tests.core.conversions import a_prepared_dataset, content, convert_to, files
from tests.killing import kill_after_random_delay, kill_moments, run_and_kill
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
from wdsctl.core.errors import CatalogError, UsageError


def test_interrupted_conversion_continues(tmp_path: Path) -> None:
    source = a_prepared_dataset(tmp_path / "a")
    convert_to(tmp_path / "whole", source, shard_samples=5)

    class InterruptAtThirdUnit:
        count = 0

        def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
            self.name = name

        def advance(self, **_: Any) -> None:
            self.count += self.name == "write"
            if self.count == 3:
                raise KeyboardInterrupt

        def note(self, message: str) -> None: ...

    with pytest.raises(KeyboardInterrupt):
        convert([source], str(tmp_path / "b"), ConvertRequest(shard_samples=5), progress=InterruptAtThirdUnit())
    assert len(files(tmp_path / "b")) == 3
    report = convert_to(tmp_path / "b", source, shard_samples=5)

    assert (report.written_files, report.kept_files) == (5, 3)
    assert files(tmp_path / "b") == files(tmp_path / "whole")


class InterruptAtFinish:
    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
        if name == "finish":
            raise KeyboardInterrupt

    def advance(self, **_: Any) -> None: ...

    def note(self, message: str) -> None: ...


@pytest.mark.parametrize("restart", [False, True])
def test_partial_files_of_killed_polylithic_run_are_removed(tmp_path: Path, restart: bool) -> None:
    source, dest = a_prepared_dataset(tmp_path / "a", 2, 4), tmp_path / "b"
    options = ConvertRequest(layout="polylithic", media=("jpg",))
    with pytest.raises(KeyboardInterrupt):
        convert([source], str(dest), options, progress=InterruptAtFinish())
    (dest / ".monolithic.yaml.99999.partial").write_bytes(b"half")

    convert_to(
        dest, source, layout="polylithic", media=("jpg",), shard_samples=3 if restart else 10_000, restart=restart
    )

    assert sorted(path.name for path in dest.iterdir() if path.name.startswith(".")) == [".wdsctl"]


def test_unfinished_conversion_is_replaced_only_with_restart(tmp_path: Path) -> None:
    source = a_prepared_dataset(tmp_path / "a")
    with pytest.raises(KeyboardInterrupt):
        convert([source], str(tmp_path / "b"), ConvertRequest(shard_samples=5), progress=InterruptAtFinish())
    with pytest.raises(UsageError, match="has an unfinished conversion"):
        convert_to(tmp_path / "b", source, shard_samples=20)

    convert_to(tmp_path / "b", source, shard_samples=20, restart=True)

    assert len(files(tmp_path / "b")) == 2
    assert content(tmp_path / "b") == content(tmp_path / "a")


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, bytes]:
    """The source and the destination of an interrupted conversion, and its plan, which a test restores."""
    folder = tmp_path_factory.mktemp("unfinished")
    source, dest = a_prepared_dataset(folder / "a", 2, 6), folder / "b"
    with pytest.raises(KeyboardInterrupt):
        convert([source], str(dest), ConvertRequest(shard_samples=5), progress=InterruptAtFinish())
    return source, dest, (dest / ".wdsctl" / "convert" / "plan.sqlite").read_bytes()


@pytest.mark.parametrize("name", ["splits", "samples", "unmet", "unread_samples", "made_from"])
@pytest.mark.parametrize("change", ["DELETE FROM meta", "UPDATE meta SET value = '{'"])
def test_unfinished_conversion_with_damaged_plan_is_refused(
    unfinished: tuple[str, Path, bytes], name: str, change: str
) -> None:
    source, dest, plan_before = unfinished
    path = dest / ".wdsctl" / "convert" / "plan.sqlite"
    path.write_bytes(plan_before)
    with contextlib.closing(sqlite3.connect(path)) as plan, plan:
        plan.execute(f"{change} WHERE key = ?", (name,))

    # Only a conversion with other options asks what the plan was made from.
    with pytest.raises(CatalogError, match=r"the plan of a conversion \(plan.sqlite\) is damaged") as caught:
        convert_to(dest, source, shard_samples=4 if name == "made_from" else 5)
    assert (caught.value.code, caught.value.where) == ("WDS335", str(path))


KILLED = """
from __future__ import annotations
import sys
from wdsctl.core.convert.parts import parse_image
from wdsctl.core.convert.convert import convert
from wdsctl.core.convert.request import ConvertRequest
if __name__ == "__main__":
    more = {"layout": "polylithic", "media": ("jpg", "png")} if sys.argv[3] == "poly" else {}
    convert([sys.argv[1]], sys.argv[2], ConvertRequest(shard_samples=5, order="shuffle", workers=2, **more))
"""


@pytest.mark.slow
@pytest.mark.parametrize("seam", ["fsync", "replace"])
@pytest.mark.parametrize("layout", ["whole", "poly"])
def test_conversion_killed_at_file_operation_ends_with_same_bytes(tmp_path: Path, layout: str, seam: str) -> None:
    """Each conversion is killed at a call, run again and killed at the same call if it gets so far, then completed."""
    source, dest, count = a_prepared_dataset(tmp_path / "a", 6, 20), tmp_path / "b", tmp_path / "count"
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    command = [sys.executable, str(script), source]
    for moment in kill_moments([*command, str(tmp_path / "whole"), layout], seam, 10, count):
        assert run_and_kill([*command, str(dest), layout], moment, count)
        assert has_only_complete_files(dest)
        run_and_kill([*command, str(dest), layout], moment, count)
        assert has_only_complete_files(dest)
        children.run([*command, str(dest), layout], check=True)
        assert files(dest) == files(tmp_path / "whole")
        shutil.rmtree(dest)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["whole", "poly"])
def test_conversion_killed_by_timer_ends_with_same_bytes(tmp_path: Path, layout: str) -> None:
    source, dest = a_prepared_dataset(tmp_path / "a", 6, 20), tmp_path / "b"
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    command = [sys.executable, str(script), source]
    children.run([*command, str(tmp_path / "whole"), layout], check=True)
    rng = random.Random(5)
    for _ in range(2):
        for _ in range(3):
            kill_after_random_delay([*command, str(dest), layout], 1.0, rng)
            assert has_only_complete_files(dest)
        children.run([*command, str(dest), layout], check=True)
        assert files(dest) == files(tmp_path / "whole")
        shutil.rmtree(dest)


def has_only_complete_files(dest: Path) -> bool:
    return all("partial" not in name or name.rpartition("/")[2].startswith(".") for name in files(dest))
