from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.build import a_dataset
from wdsctl.core.compare.samples import READ_SPAN_BYTES, ByteComparer
from wdsctl.core.compare.sides import open_side
from wdsctl.core.index.index import index

#: Sizes of the parts of each sample, in bytes.
SIZES = [(1, 2000), (), (600, 0), (5000, 1), (3, 3), (512,), (4000, 4000), (7,)]


def a_side(root: Path, changed: int | None = None) -> str:
    """A dataset of one shard. In the sample `changed`, the last byte of the last non-empty part differs."""
    files: dict[str, bytes] = {}
    for i, sizes in enumerate(SIZES):
        names = {f"{i}.{part}": size for part, size in enumerate(sizes)} or {f"{i}.none": 0}
        files |= {name: bytes([i]) * size for name, size in names.items()}
        if i == changed and any(sizes):
            last = [name for name, size in names.items() if size][-1]
            files[last] = files[last][:-1] + b"?"
    path = a_dataset(root, {"a.tar": files})
    index(path)
    return path


@pytest.mark.parametrize("span", [1, 600, 3000, 10_000, READ_SPAN_BYTES])
@pytest.mark.parametrize("changed", range(len(SIZES)))
def test_byte_comparer_finds_differing_sample_for_any_span(tmp_path: Path, changed: int, span: int) -> None:
    with ExitStack() as stack:
        one = stack.enter_context(open_side(a_side(tmp_path / "one")))
        other = stack.enter_context(open_side(a_side(tmp_path / "other", changed)))
        contents = stack.enter_context(closing(ByteComparer(one, other, span_bytes=span)))
        differing = list(contents.find_differing(0, 0))
        alike = [contents.has_same_bytes(row, row) for row in range(len(SIZES))]

    expected = [changed] if any(SIZES[changed]) else []
    assert differing == expected
    assert [row for row, is_same in enumerate(alike) if not is_same] == expected
