"""Rows of lists, generators, datasets and frames of other packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.utils.data import Dataset, IterableDataset

import wdsctl
from wdsctl.core.errors import UsageError
from wdsctl.core.writer.rows import iter_rows

ROWS = [{"text": f"{i}"} for i in range(5)]


class MapStyle(Dataset[Any]):
    """As torch's datasets: has a length, and answers any position."""

    def __init__(self) -> None:
        self.positions: list[int] = []

    def __len__(self) -> int:
        return 5

    def __getitem__(self, position: int) -> dict[str, str]:
        self.positions.append(position)
        return {"text": f"{position}"}


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[dict[str, str]]:
        yield from ROWS


class PandasFrame:
    """The methods of a pandas frame that are used; iterating over it gives its columns."""

    def __init__(self, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
        self.columns, self.rows = columns, rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.rows)

    def itertuples(self, index: bool, name: None) -> Iterator[tuple[Any, ...]]:
        assert (index, name) == (False, None)
        return iter(self.rows)

    def notna(self) -> PandasFrame:
        return PandasFrame(self.columns, [tuple(each == each for each in row) for row in self.rows])  # noqa: PLR0124 - NaN


class PolarsFrame:
    columns = ("text",)

    def iter_rows(self, *, named: bool) -> Iterator[Mapping[str, Any]]:
        assert named
        return iter(ROWS)


def test_rows_of_each_kind(tmp_path: Path) -> None:
    pandas = PandasFrame(["text"], [tuple(row.values()) for row in ROWS])
    for i, rows in enumerate((ROWS, iter(ROWS), MapStyle(), Stream(), pandas, PolarsFrame())):
        wdsctl.from_iterable(rows, tmp_path / f"{i}", sample_type="TextSample", workers=1)
        assert [each.text for each in wdsctl.Dataset(tmp_path / f"{i}")] == ["0", "1", "2", "3", "4"]


def test_ranks_take_every_nth_row_and_ask_for_no_other() -> None:
    pandas = PandasFrame(["text"], [tuple(row.values()) for row in ROWS])
    for rows in (ROWS, iter(ROWS), MapStyle(), Stream(), pandas, PolarsFrame()):
        assert [row["text"] for row in iter_rows(rows, 1, 2)] == ["1", "3"]
        if isinstance(rows, MapStyle):
            assert rows.positions == [1, 3]


def test_missing_values_of_frames_are_none() -> None:
    frame = PandasFrame(["a", "b"], [(float("nan"), 1.0), ("x", float("nan"))])

    assert list(iter_rows(frame)) == [{"a": None, "b": 1.0}, {"a": "x", "b": None}]


@pytest.mark.parametrize(
    "rows", [{"text": ["a"]}, "text", b"x", 7, SimpleNamespace(collect=lambda: None), PandasFrame(["a", "a"], [(1, 2)])]
)
def test_what_has_no_rows_is_refused(tmp_path: Path, rows: Any) -> None:
    with pytest.raises(UsageError):
        wdsctl.from_iterable(rows, tmp_path / "out", sample_type="TextSample")

    assert list(tmp_path.iterdir()) == []
