"""`structure` finds offsets and rows of samples that are not those of the shard."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.build import a_dataset, a_shard, samples
from wdsctl.core.dataset.location import locate
from wdsctl.core.errors import Finding
from wdsctl.core.index.index import index
from wdsctl.core.offsets.block_checksums import append_checksums
from wdsctl.core.offsets.read import Offsets
from wdsctl.core.progress import SilentProgress
from wdsctl.core.validate.validate import validate

#: A shard whose headers are compared at once, and one that only a scan can check.
PLAIN = samples(0, 4, "txt", "json")
ODD = {**PLAIN, "k.empty": b""}


def catalog_findings(root: str) -> list[Finding]:
    """The findings about the catalog, by a first check of the shards."""
    Path(locate(root).ledger_path).unlink()
    return [finding for finding in validate(root).findings if finding.code == "WDS302"]


def change_rows(root: str, change: Callable[[list[str], int], str]) -> None:
    """Replace the parts of each row: `change(parts of all rows, number of the row)`."""
    with closing(sqlite3.connect(locate(root).catalog_path)) as connection, connection:
        rows = connection.execute("SELECT id, parts FROM sample ORDER BY id").fetchall()
        parts = [row[1] for row in rows]
        changed = [(change(parts, i), row[0]) for i, row in enumerate(rows)]
        connection.executemany("UPDATE sample SET parts = ? WHERE id = ?", changed)


def shift(parts: list[str], i: int) -> str:
    return json.dumps([[name, offset + 1, size] for name, offset, size in json.loads(parts[i])])


def reverse(parts: list[str], i: int) -> str:
    return parts[-1 - i]


@pytest.fixture(params=["plain", "scanned"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    root = a_dataset(tmp_path, {"a.tar": a_shard(PLAIN if request.param == "plain" else ODD)})
    index(root)
    assert not catalog_findings(root)
    return root


class ReplacedCatalog(SilentProgress):
    """Replaces the catalog by one with other rows when the check of the shards begins."""

    def __init__(self, root: str) -> None:
        self.root = root

    def phase(self, name: str, *, items: int | None = None, size_bytes: int | None = None) -> None:
        if name == "check":
            path = locate(self.root).catalog_path
            shutil.copyfile(path, f"{path}.new")
            os.replace(f"{path}.new", path)
            change_rows(self.root, shift)


def test_shards_are_compared_with_the_catalog_that_was_opened(root: str) -> None:
    Path(locate(root).ledger_path).unlink()

    report = validate(root, progress=ReplacedCatalog(root))

    assert "WDS302" not in {finding.code for finding in report.findings}
    assert catalog_findings(root)


def test_validate_finds_shifted_rows(root: str) -> None:
    change_rows(root, shift)
    [finding] = catalog_findings(root)
    assert (finding.shard, finding.key, finding.offset, finding.severity) == ("a.tar", "000000", 0, "error")
    assert finding.count >= len(PLAIN) // 2


def test_validate_finds_rows_in_another_order(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"0.txt": b"1", "1.txt": b"22", "2.txt": b"333"}})
    index(root)
    change_rows(root, reverse)
    assert [(finding.key, finding.count) for finding in catalog_findings(root)] == [("0", 2)]


def test_validate_finds_changed_and_deleted_rows(root: str) -> None:
    with closing(sqlite3.connect(locate(root).catalog_path)) as connection, connection:
        connection.execute("DELETE FROM sample WHERE key = '000002'")
        connection.execute("UPDATE sample SET size = size + 1 WHERE key = '000001'")
    [finding] = catalog_findings(root)
    assert finding.key == "000001"


def change_offsets(root: str, change: Callable[[bytes, Offsets], bytes]) -> None:
    """Replace the bytes of the offsets file, with checksums that fit."""
    path = Path(locate(root).offsets_path(1))
    data, offsets = path.read_bytes(), Offsets(str(path))
    blocks, rest = divmod(len(data), 4096 + 8)
    body = data if rest else data[: blocks * 4096]
    path.unlink()  # the mapped file stays
    path.write_bytes(change(body, offsets))
    with path.open("r+b") as file:
        append_checksums(file)


def test_validate_finds_shifted_offsets(root: str) -> None:
    def shift_all(body: bytes, offsets: Offsets) -> bytes:
        numbers = np.asarray(offsets.part_offset)
        return body.replace(numbers.tobytes(), (numbers + 1).tobytes())

    change_offsets(root, shift_all)
    [finding] = catalog_findings(root)
    assert "offsets file" in finding.message


def test_validate_finds_offsets_of_another_shard(tmp_path: Path) -> None:
    root = a_dataset(tmp_path, {"a.tar": {"0.txt": b"1", "1.txt": b"22"}, "b.tar": {"2.txt": b"1", "3.txt": b"22"}})
    index(root)
    change_offsets(
        root, lambda body, _: body.replace(b"a.tar", b"-").replace(b"b.tar", b"a.tar").replace(b"-", b"b.tar")
    )
    assert [finding.shard for finding in catalog_findings(root)] == ["a.tar", "b.tar"]


def test_rebuilding_catalog_mends_finding(root: str) -> None:
    change_rows(root, shift)
    assert catalog_findings(root)
    assert [finding.code for finding in validate(root).findings].count("WDS302") == 1  # it is not believed for ever
    index(root, rebuild=True)
    assert "WDS302" not in [finding.code for finding in validate(root).findings]
