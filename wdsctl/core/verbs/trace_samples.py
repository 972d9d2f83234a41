"""The samples of traced batches as lines of an answer: whose they are, and where their bytes are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wdsctl.core.errors import WdsctlError
from wdsctl.core.findings import Finding, Severity
from wdsctl.core.trace import SourceFacts, TracedBatch
from wdsctl.core.trace.datasets import Located, TracedDataset, TracedDatasets

UNNAMED = "(no restore key)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLine:
    name: str
    offset: int  # in the shard
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleLine:
    """`restore_key`: (source, pass, id), and the step where a generator made the sample; a ban list takes it as it is.

    `offset` and `size_bytes`: from the first byte of its first part to the last of its last. `layout_hash` names where
    everything in the shard is. All from `key` on are None or empty where the dataset, or the shard, is gone.
    """

    dataset: str
    restore_key: tuple[int, ...]
    key: str | None = None
    shard: str | None = None
    layout_hash: str | None = None
    offset: int | None = None
    size_bytes: int | None = None
    parts: tuple[PartLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLine:
    step: int
    number: int  # of the whole job
    rank: int
    world: int
    pass_number: int
    started: int  # of the run that it is from: microseconds since 1970
    samples: tuple[SampleLine, ...]


class Lines:
    """Makes the lines, and remembers in `findings` what could not be told, one a dataset and kind."""

    def __init__(self, datasets: TracedDatasets) -> None:
        self.datasets = datasets
        self._findings: dict[tuple[str, str], Finding] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self._findings.values())

    def of_batch(self, batch: TracedBatch) -> BatchLine:
        sources = {source.number: source for source in batch.run.sources}
        return BatchLine(
            step=batch.step,
            number=batch.number,
            rank=batch.run.rank,
            world=batch.run.world,
            pass_number=batch.pass_number,
            started=batch.run.started,
            samples=tuple(self._of_sample(sources.get(origin[0]), origin) for origin in batch.origins.tolist()),
        )

    def name_of(self, source: SourceFacts | None) -> str:
        return UNNAMED if source is None else source.root

    def located(self, source: SourceFacts, sample_id: int) -> Located | None:
        """The sample; None, and a finding, where it cannot be found any more."""
        dataset = self.dataset(source)
        located = None if dataset is None else dataset.locate(sample_id)
        if dataset is not None and located is None:
            self.note(source.root, "WDS543", f"its shard {sample_id >> 28} has been removed or has changed since")
        return located

    def dataset(self, source: SourceFacts) -> TracedDataset | None:
        opened = self.datasets.open(source)
        if isinstance(opened, WdsctlError):
            self.note(source.root, opened.code, f"{opened.message}; {opened.hint}")
            return None
        if opened.is_other:
            self.note(
                source.root,
                "WDS544",
                f"the split {source.split!r} has other samples now than were traced: if only the split was made anew, "
                "the answer is right; if the catalog was, it is not",
                is_error=False,
            )
        return opened

    def note(self, where: str, code: str, message: str, key: str = "", *, is_error: bool = True) -> None:
        """One more sample of which this is so."""
        before = self._findings.get((where, message))
        severity: Severity = "error" if is_error else "warning"
        self._findings[where, message] = (
            replace(before, count=before.count + 1)
            if before is not None
            else Finding(code=code, severity=severity, message=message, shard=where, key=key)
        )

    def _of_sample(self, source: SourceFacts | None, origin: list[int]) -> SampleLine:
        key = tuple(origin[:3] if origin[3] < 0 else origin)
        if source is None:
            return SampleLine(dataset=UNNAMED, restore_key=())
        return _line(source, key, self.located(source, origin[2]))


def _line(source: SourceFacts, key: tuple[int, ...], located: Located | None) -> SampleLine:
    if located is None:
        return SampleLine(dataset=source.root, restore_key=key)
    start = min((part.offset for part in located.parts), default=0)
    stop = max((part.offset + part.size_bytes for part in located.parts), default=0)
    return SampleLine(
        dataset=source.root,
        restore_key=key,
        key=located.key,
        shard=located.shard.path,
        layout_hash=located.shard.layout_hash,
        offset=start,
        size_bytes=stop - start,
        parts=tuple(PartLine(name=p.name, offset=p.offset, size_bytes=p.size_bytes) for p in located.parts),
    )
