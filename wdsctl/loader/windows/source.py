"""`FrameSource`: a split whose samples are frames of sequences, with the values of the frames around them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from wdsctl.core.array_types import Int64Array
from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.dataset.sequences import IMAGE, TEXT, VIDEO, SequenceConfig
from wdsctl.core.errors import SampleFailed, UsageError, WdsctlError
from wdsctl.core.samples.types import FieldKind
from wdsctl.loader.decoding.decoder import SampleDecoder
from wdsctl.loader.decoding.parts import decode_raw
from wdsctl.loader.reading.decode_functions import DecodeFunctions
from wdsctl.loader.reading.layout import DecodeFunction
from wdsctl.loader.reading.reference_blocks import MAX_PART_GAP_BYTES, ReferenceBlock
from wdsctl.loader.reading.source import PlainSampleType, PrefetchUnit, SplitSource
from wdsctl.loader.samples import BASE_FIELDS, CrudeSample
from wdsctl.loader.samples.build import lazy_source_info
from wdsctl.loader.windows.frame_media import FrameMedia
from wdsctl.loader.windows.frame_rows import FrameRows
from wdsctl.loader.windows.values import as_tensor, feature_value, parse_line, stack_values
from wdsctl.loader.windows.windows import frame_deltas

_CACHED_LINES = 8192  # of a source and process: windows of neighbouring frames overlap


class FrameSource(SplitSource):
    """Frames of sequences as dicts. Positions, rows, ids, keys and columns are those of the split.

    A feature with a window is a tensor of (times, ...), with a bool tensor `NAME_is_pad` of the times at which the
    sequence has no frame; its first or last frame stands in for these. The frames of a window are those of the whole
    sequence, whatever the split or view selects of it.

    `sequences`: of dataset.yaml. `windows`: seconds by feature. Raises UsageError what `frame_deltas` raises.
    """

    def __init__(
        self,
        root: str,
        offsets: Any,
        selection: Any,
        config: DatasetConfig,
        decoder: SampleDecoder | None,
        *,
        sequences: SequenceConfig,
        windows: Mapping[str, Sequence[float]] | None,
        tolerance_s: float,
        decode_functions: DecodeFunctions | None = None,  # noqa: ARG002 - of other samples: frames have their own
        **options: Any,
    ) -> None:
        functions = _EagerFunctions(decoder)
        super().__init__(root, offsets, selection, config, decoder, decode_functions=functions, **options)
        self._features = sequences.features
        can_have_window = [name for name, dtype in self._features.items() if dtype != TEXT] or sorted(
            {name for names in offsets.layouts for name in names}
        )
        self._deltas = frame_deltas(windows or {}, sequences.fps, tolerance_s, can_have_window, self.dataset_path)
        all_deltas = [0, *(delta for deltas in self._deltas.values() for delta in deltas)]
        self._prefetched_deltas = np.arange(min(all_deltas), max(all_deltas) + 1)  # from the first to the last
        self._frames = FrameRows(offsets)
        self._lines: OrderedDict[int, dict[str, Any]] = OrderedDict()
        has_media = not {IMAGE, VIDEO}.isdisjoint(self._features.values())
        are_float = has_media and _has_float_frames(decoder, self.dataset_path)
        self._media = FrameMedia(root, decoder, sequences.fps, tolerance_s, are_float=are_float)
        self.field_facts = {**self.field_facts, "sequences": repr(sequences), "windows": repr(self._deltas)}
        self.field_facts["tolerance_s"] = repr(tolerance_s)
        self.sample_kinds = None
        self.batch_fields = ()
        self.unused_parts = ()

    def load(self, block: ReferenceBlock, i: int) -> Any:
        """Read a frame and its windows. Raises what reading, decoding and `FrameRows` raise."""
        if not self._deltas and not self._features:
            return super().load(block, i)
        try:
            return self._load_features(block, i) if self._features else self._load_parts(block, i)
        except WdsctlError as error:
            raise self._locate_error(error, block, i) from error

    def plain_type(self, layout: int) -> PlainSampleType | None:  # noqa: ARG002 - the same for all layouts
        """None: the values of other frames always have to be added."""
        return None

    def block_of_rows(self, rows: Int64Array, passes: Int64Array) -> ReferenceBlock:
        """References to these rows. Remote storage prefetches the rows of their windows."""
        block = self.references.block_of_rows(rows, passes)
        if self._remote is not None:
            block.announcement = self._remote.announce(self._reads_of_rows(self._with_windows(rows)))
        return block

    def prefetch_rows(
        self, rows: Int64Array, units: Sequence[PrefetchUnit] = (), *, starts: bool = True, due: float = 0.0
    ) -> object:
        return super().prefetch_rows(self._with_windows(rows), units, starts=starts, due=due)

    def close(self) -> None:
        self._media.close()
        super().close()

    def _with_windows(self, rows: Int64Array) -> Int64Array:
        """These rows and those of their windows, each once. Windows may reach into another sequence here."""
        last = int(self.offsets.shard_row[-1]) - 1
        with_windows: Int64Array = np.unique((rows[:, None] + self._prefetched_deltas).clip(0, last))
        return with_windows

    def _window(self, row: int, deltas: Sequence[int]) -> tuple[list[int], torch.Tensor]:
        """(rows, whether each stands in for a frame that the sequence does not have)."""
        start, stop = self._frames.sequence_of(row)
        positions = [row + delta for delta in deltas]
        is_pad = torch.tensor([not start <= each < stop for each in positions])
        return [min(max(each, start), stop - 1) for each in positions], is_pad

    # Lines of JSON with features.

    def _load_features(self, block: ReferenceBlock, i: int) -> CrudeSample:
        row = block.rows[i]
        windows = {name: self._window(row, deltas) for name, deltas in self._deltas.items()}
        lines = self._read_lines({row, *(each for rows, _ in windows.values() for each in rows)})
        sample: dict[str, Any] = {}
        for name, dtype in self._features.items():
            rows = windows[name][0] if name in windows else [row]
            values = [feature_value(lines[each], name) for each in rows]
            if dtype == VIDEO:
                sample[name] = self._media.decode_frames(values, name).squeeze(0)
            elif dtype == IMAGE:
                images = [self._media.decode_image(value, name) for value in values]
                sample[name] = stack_values(images, name) if name in windows else images[0]
            elif dtype == TEXT:
                sample[name] = values[0]
            else:
                sample[name] = as_tensor(values if name in windows else values[0], name, dtype)
        sample |= {f"{name}_is_pad": is_pad for name, (_, is_pad) in windows.items()}
        base = block.keys[i], (self.number, block.passes[i], block.ids[i]), self.subflavors
        sources = (lazy_source_info(self, row),)
        return CrudeSample({**dict(zip(BASE_FIELDS, (*base, sources), strict=True)), **sample})

    def _read_lines(self, rows: set[int]) -> dict[int, dict[str, Any]]:
        """The objects of these lines by row. Neighbouring lines are read at once; the last used ones are kept."""
        found: dict[int, dict[str, Any]] = {}
        for row in sorted(rows):
            if row in self._lines:
                self._lines.move_to_end(row)
                found[row] = self._lines[row]
        missing = np.array(sorted(rows - found.keys()), np.int64)
        if len(missing):
            for row, data in zip(missing.tolist(), self._read_rows(missing), strict=True):
                found[row] = self._lines[row] = parse_line(data)
        while len(self._lines) > _CACHED_LINES:
            self._lines.popitem(last=False)
        return found

    def _read_rows(self, rows: Int64Array) -> list[bytes]:
        ranges = self._reads_of_rows(rows)
        if self._remote is not None:
            kept = self._remote.announce(ranges)
            lines = [self._storage.read(*each) for each in ranges]
            del kept
            return lines
        pieces: list[bytes] = []
        first = 0
        for stop in range(1, len(ranges) + 1):
            begin, before = ranges[first], ranges[stop - 1]
            end = before.offset + before.size
            is_same_file = stop < len(ranges) and ranges[stop].path == begin.path
            if is_same_file and 0 <= ranges[stop].offset - end <= MAX_PART_GAP_BYTES:
                continue
            data = self._storage.read(begin.path, begin.offset, end - begin.offset)
            pieces += [data[each.offset - begin.offset :][: each.size] for each in ranges[first:stop]]
            first = stop
        return pieces

    # Frames with parts.

    def _load_parts(self, block: ReferenceBlock, i: int) -> CrudeSample:
        row = block.rows[i]
        sample = dict(super().load(block, i))
        windows = {name: self._window(row, deltas) for name, deltas in self._deltas.items()}
        rows = sorted({each for rows, _ in windows.values() for each in rows} - {row})
        others = self.references.block_of_rows(np.array(rows, np.int64), np.zeros(len(rows), np.int64))
        kept = None if self._remote is None else self._remote.announce(self.references.reads(others))
        frames = {row: sample, **{each: super(FrameSource, self).load(others, k) for k, each in enumerate(rows)}}
        del kept
        stacked: dict[str, Any] = {}
        for name, (of_window, is_pad) in windows.items():
            lacking = next((each for each in of_window if name not in frames[each]), None)
            if lacking is not None:
                raise SampleFailed(
                    f"the frame {self.offsets.key(lacking)} has no part {name!r}", hint="complete the sequence"
                )
            stacked[name] = stack_values([frames[each][name] for each in of_window], name)
            stacked[f"{name}_is_pad"] = is_pad
        return CrudeSample({**sample, **stacked})


class _EagerFunctions(DecodeFunctions):
    """Decode functions for values that are stacked right after they are loaded: images are decoded at once, each into
    memory of its own."""

    def __call__(self, part: str, kind: FieldKind, field: str, *, upright: bool | None = None) -> DecodeFunction | None:
        if self._decoder is None:
            return None
        function = self._decoder.function_for(part, None, kind, field, upright=upright)
        return None if function is decode_raw else function

    def decode_in_parallel(self) -> AbstractContextManager[None]:
        return nullcontext()


def _has_float_frames(decoder: SampleDecoder | None, where: str) -> bool:
    """Whether frames of videos are float32 from 0 to 1, as images are; else they are uint8. Raises UsageError."""
    kind = None if decoder is None else decoder.image_decode
    if kind in (None, "torchrgb8"):
        return False
    if kind in ("torch", "torchrgb"):
        return True
    raise UsageError(
        f"frames of videos are tensors, but the decoder has image_decode={kind!r}",
        where=where,
        hint="pass SampleDecoder(image_decode='torchrgb') for float32 from 0 to 1, or 'torchrgb8' for uint8",
    )
