"""`wdsctl.Dataset`: random access to the samples of a prepared dataset. For training, see `wdsctl.loader`."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from wdsctl.core.errors import InputError, UsageError, WdsctlError
from wdsctl.core.extras import require_packages
from wdsctl.core.text import escape_to_line, pluralize, short_repr

if TYPE_CHECKING:
    from typing_extensions import Self

    from wdsctl.loader.decoding.decoder import SampleDecoder
    from wdsctl.loader.reading.sample_reader import SampleChoice, SampleReader

__all__ = ["Dataset", "RepeatedKeyError", "SampleIndexError", "SampleKeyError"]

SAMPLES_PER_READ = 32  # read together by an iteration
SHOWN_SAMPLES = 4  # in a notebook
MAX_SHOWN_BYTES = 16 << 20  # of a larger sample, a notebook shows only the sizes


class SampleIndexError(InputError, IndexError):
    """No sample has this position."""

    code = "WDS004"


class SampleKeyError(InputError, KeyError):
    """No sample has this key."""

    code = "WDS004"


class RepeatedKeyError(UsageError, KeyError):
    """Several samples have this key."""

    code = "WDS005"


class Dataset:
    """The samples of a prepared dataset, as a sequence: `len(ds)`, `ds[0]`, `ds["key"]`, `ds[10:20]`, `for s in ds`.

    Samples are decoded to the sample type of dataset.yaml, as for training, and are in the order of the shards. Reading
    one takes one read, whatever the size of the dataset: the offsets file is mapped, and no list of samples is kept.

    Works as a map-style dataset for torch's DataLoader with any start method; `wdsctl.loader` is faster and can resume.
    A pickle holds location and generation. Unpickling opens the dataset, and raises StateMismatch if it has changed.
    Threads may share a Dataset; their reads take turns.
    """

    _reader: SampleReader
    _positions: range

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str | None = None,
        view: str | None = None,
        *,
        catalog: str | os.PathLike[str] | None = None,
        decode: bool | SampleDecoder = True,
        crude: bool = False,
        trust_code: bool = False,
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        tolerance_s: float = 1e-4,
    ) -> None:
        """Open a dataset.

        `root`: a folder, a file, a URL, or `ROOT@VIEW`.
        `split`, `view`: only these samples; with both, those in both. By default all, including those in no split.
        `catalog`: the folder of the catalog, if it is not in the dataset.
        `decode`: True, False, or a `SampleDecoder` of your own. Without decoding, a sample is a dict of its parts as
        bytes; a part above 64 MiB is a `LazyPart`.
        `crude`: return all parts by name, whatever sample type dataset.yaml names.
        `trust_code`: allow functions that dataset.yaml names.
        `delta_timestamps`, `tolerance_s`: time windows of frames, see `wdsctl.loader.get_train_dataset`.

        Raises InputError if there is no such dataset (WDS301: not prepared), split (WDS211) or view (WDS330), and
        CatalogError if the catalog cannot be used. WDS236: torch is not installed.
        """
        from wdsctl.core.dataset.polylithic import find_polylithic_folder
        from wdsctl.core.opened.opening import open_dataset

        with require_packages("wdsctl.Dataset"):
            from wdsctl.loader.decoding.decoder import SampleDecoder
            from wdsctl.loader.reading.sample_reader import SampleChoice
            from wdsctl.loader.windows.frame_reader import SequenceReader
            from wdsctl.loader.windows.windows import check_delta_timestamps, no_sequences_error

        path, folder = os.fspath(root), None if catalog is None else os.fspath(catalog)
        if not path or folder == "":
            raise UsageError("the path is empty", hint="pass a path or a URL; for the working directory, '.'")
        dataset = open_dataset(path, folder, takes_view=True)
        location, named = dataset.location, dataset.view
        if named and view and named != view:
            raise UsageError(f"root names the view {named!r}, but view is {view!r}", hint="pass only one of them")
        decoder = decode if isinstance(decode, SampleDecoder) else SampleDecoder() if decode else None
        windows, tolerance = check_delta_timestamps(delta_timestamps, tolerance_s)
        is_crude = crude or decoder is None
        if windows is not None and is_crude:
            raise UsageError("delta_timestamps needs decoded frames", hint="omit crude=True and decode=False")
        choice = SampleChoice(split, view or named or None, decoder, is_crude, trust_code, windows, tolerance)
        polylithic = find_polylithic_folder(path)
        self._reader: SampleReader
        if polylithic is None:
            self._reader = SequenceReader(location, choice, folder)
        else:
            if windows is not None:
                raise no_sequences_error(path)
            from wdsctl.loader.stores.completed import CompletedReader

            self._reader = CompletedReader(polylithic, choice, folder)
        self._positions = range(self._reader.n)

    def __len__(self) -> int:
        return len(self._positions)

    def __bool__(self) -> bool:
        """True, even without samples."""
        return True

    @overload
    def __getitem__(self, which: int | str) -> Any: ...
    @overload
    def __getitem__(self, which: slice) -> Self: ...
    def __getitem__(self, which: int | str | slice) -> Any:
        """Read a sample by position (negative: from the end) or by key. A slice returns a Dataset and reads nothing.

        Raises SampleIndexError, SampleKeyError or RepeatedKeyError, and WdsctlError if the sample cannot be read or
        decoded.
        """
        if isinstance(which, slice):
            return self._with(self._reader, self._positions[which])
        position = self._position_of(which) if isinstance(which, str) else self._position_at(which)
        return self._reader.load([position])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Read several samples, in the order of `indices`. torch's DataLoader calls this for a batch."""
        return self._reader.load([self._position_at(index) for index in indices])

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), SAMPLES_PER_READ):
            yield from self._reader.load(self._positions[start : start + SAMPLES_PER_READ])

    def __contains__(self, key: object) -> bool:
        """Whether a sample has this key."""
        return isinstance(key, str) and any(position in self._positions for position in self._reader.positions_of(key))

    def keys(self) -> Iterator[str]:
        """The keys, in order. Reads no shard."""
        return self._reader.keys(self._positions)

    def split(self, name: str | None) -> Self:
        """The samples of another split (None: all) and the same view. Raises UsageError for a slice."""
        return self._chosen(self._reader.choice._replace(split=name))

    def view(self, name: str | None) -> Self:
        """The samples of another view (None: all) and the same split. Raises UsageError for a slice."""
        return self._chosen(self._reader.choice._replace(view=name))

    def sql(self, query: str, *, timeout_seconds: float = 0) -> list[dict[str, Any]]:
        """Query the catalog (docs/catalog.md); returns the rows as dicts by column. Queries cannot write.

        Covers the whole dataset, whatever the split or slice (`v_split` has the splits); for a view, its samples.
        `timeout_seconds`: 0 for none. Raises UsageError WDS332 and WDS334.
        """
        from wdsctl.core.views.sql import sql

        location, view = self._reader.location, self._reader.choice.view
        root = f"{location.path}@{view}" if view else location.path
        with sql(root, query, catalog=location.meta, timeout_seconds=timeout_seconds) as result:
            return [dict(zip(result.columns, row, strict=True)) for row in result.rows]

    @property
    def root(self) -> str:
        """The folder, file or URL of the dataset, without secrets."""
        return self._reader.location.display_path

    @property
    def generation(self) -> int:
        """The generation of the catalog when the dataset was opened."""
        return self._reader.generation

    @property
    def sample_type(self) -> str:
        """The name of the sample type in dataset.yaml, or `CrudeSample`."""
        return self._reader.sample_type

    def __repr__(self) -> str:
        choice = self._reader.choice
        arguments = [repr(self.root)]
        arguments += [f"{name}={each!r}" for name, each in (("split", choice.split), ("view", choice.view)) if each]
        return escape_to_line(f"<Dataset {', '.join(arguments)}: {pluralize(len(self), 'sample')}>")

    def _repr_html_(self) -> str:
        from wdsctl.loader.samples.display import table_html

        choice = self._reader.choice
        facts = {
            "dataset": self.root,
            "split": choice.split or "",
            "view": choice.view or "",
            "samples": f"{len(self):,}",
            "sample type": self.sample_type,
            "generation": str(self.generation),
        }
        cards = "".join(map(self._card, self._positions[:SHOWN_SAMPLES]))
        more = f"<div>{len(self) - SHOWN_SAMPLES:,} more</div>" if len(self) > SHOWN_SAMPLES else ""
        return f"<div>{table_html((name, fact) for name, fact in facts.items() if fact)}{cards}{more}</div>"

    def _card(self, position: int) -> str:
        """HTML of one sample from its stored parts, so that samples that cannot be decoded are shown, too."""
        from wdsctl.loader.samples.display import card_html

        try:
            sizes = self._reader.part_sizes(position)
            shard, row = self._reader.shard_and_row(position)
            note = f"{shard}, sample {row:,}"
            if sum(sizes.values()) > MAX_SHOWN_BYTES:
                (key,) = self._reader.keys(range(position, position + 1))
                return card_html(
                    "", {"__key__": key, **{name: f"{size:,} bytes" for name, size in sizes.items()}}, note
                )
            parts = self._reader.load_bytes(position)
            hidden = ("__restore_key__", "__subflavors__", "__sources__")
            return card_html("", {name: part for name, part in parts.items() if name not in hidden}, note)
        except WdsctlError as error:
            return card_html("", {}, f"{error.code}: {error.message}")

    def _position_at(self, index: int) -> int:
        try:
            if isinstance(index, bool):  # True would be sample 1
                raise TypeError
            number = operator.index(index)
        except TypeError as error:
            raise UsageError(
                f"{short_repr(index)} is not a position, key or slice",
                hint="pass a position, a key, or a slice such as ds[:10]",
            ) from error
        if not -len(self) <= number < len(self):
            raise SampleIndexError(
                f"position {number:,} is out of range for {pluralize(len(self), 'sample')}",
                where=self.root,
                hint=f"positions are 0 to {len(self) - 1:,}" if len(self) else "check the split and the view",
            )
        return self._positions[number]

    def _position_of(self, key: str) -> int:
        all_positions = self._reader.positions_of(key)
        found = [position for position in all_positions if position in self._positions]
        if len(found) == 1:
            return found[0]
        if found:
            raise RepeatedKeyError(
                f"the key {key!r} occurs {len(found)} times, first at {self._positions.index(found[0]):,} and "
                f"{self._positions.index(found[1]):,}",
                where=self.root,
                hint="read one of them by position",
            )
        if all_positions or self._reader.is_in_dataset(key):
            raise SampleKeyError(
                f"the sample {key!r} is in the dataset, but not among these {pluralize(len(self), 'sample')}",
                where=self.root,
                hint="use wdsctl.Dataset(root) without split, view and slice",
            )
        raise SampleKeyError(
            f"no sample {key!r}", where=self.root, hint="pass a key without extension; ds.keys() lists the keys"
        )

    def _chosen(self, choice: SampleChoice) -> Self:
        if self._positions != range(self._reader.n):
            raise UsageError(
                "cannot select a split or a view from a slice",
                where=self.root,
                hint='select before slicing: ds.split("val")[:10]',
            )
        reader = self._reader.with_choice(choice)
        return self._with(reader, range(reader.n))

    def _with(self, reader: SampleReader, positions: range) -> Self:
        dataset = type(self).__new__(type(self))
        dataset.__dict__.update(_reader=reader, _positions=positions)
        return dataset
