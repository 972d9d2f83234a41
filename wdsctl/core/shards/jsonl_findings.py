"""Findings of a JSONL scan: one per kind, with its first line and a count."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import replace

from wdsctl.core.dataset.shard_names import UNPACK_COMMANDS
from wdsctl.core.errors import Finding, Severity

_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_ENDINGS = {"gzip": ".gz", "zstd": ".zst", "bzip2": ".bz2", "xz": ".xz", "lz4": ".lz4"}


class JsonlFindings:
    """Collects findings during the scan of a file. `prefix` precedes the line number in a key."""

    def __init__(self, shard: str, prefix: str = "") -> None:
        self.shard = shard
        self._prefix = prefix
        self._findings: dict[str, Finding] = {}

    def to_findings(self) -> Iterator[Finding]:
        yield from self._findings.values()

    def check_head(self, head: bytes, compressed: str) -> bool:
        """Add findings about the first bytes of a file, and return whether they rule out JSONL.

        `compressed`: the compression that the bytes reveal, or an empty string.
        """
        if compressed:
            unpack = UNPACK_COMMANDS[_ENDINGS[compressed]]
            message = f"compressed with {compressed}, but the name does not say so: rename and `{unpack}` the file"
            self._add(Finding(code="WDS113", severity="error", message=message, shard=self.shard, offset=0))
        elif head.startswith(_WIDE):
            self._binary("text in UTF-16 or UTF-32: convert the file to UTF-8")
        elif b"\0" in head:
            self._binary("binary data, not JSONL")
        elif head.startswith(codecs.BOM_UTF8):
            message = "a byte order mark at the start (skipped)"
            self._add(Finding(code="WDS125", severity="note", message=message, shard=self.shard, offset=0))
        return any(finding.severity == "error" for finding in self._findings.values())

    def add_non_objects(self, count: int, number: int, offset: int) -> None:
        """`number` is the index of the first such line, blank lines not counted."""
        message = "lines that are not JSON objects"
        self.add_line("WDS121", message, f"{self._prefix}{number}", offset, count)

    def add_line(
        self, code: str, message: str, key: str, offset: int, count: int = 1, *, severity: Severity = "error"
    ) -> None:
        """Add a finding about `count` lines; `key` and `offset` are those of the first one."""
        finding = Finding(code=code, severity=severity, message=message, shard=self.shard, key=key, offset=offset)
        self._add(replace(finding, count=count))

    def add_truncated_line(self, offset: int) -> None:
        message = "the last line is truncated and skipped; the lines before it are intact"
        self._add(Finding(code="WDS122", severity="error", message=message, shard=self.shard, offset=offset))

    def add_missing_field(self, key_field: str, count: int, key: str, offset: int) -> None:
        message = f"lines without text or a whole number in {key_field!r}: their line number becomes the key"
        found = Finding(code="WDS126", severity="warning", message=message, shard=self.shard, key=key, offset=offset)
        self._add(replace(found, count=count))

    def add_no_samples(self) -> None:
        message = "no samples in this shard: it is empty, or all lines are blank"
        self._add(Finding(code="WDS115", severity="warning", message=message, shard=self.shard))

    def _binary(self, message: str) -> None:
        self._add(Finding(code="WDS120", severity="error", message=message, shard=self.shard, offset=0))

    def _add(self, finding: Finding) -> None:
        before = self._findings.get(finding.code)
        self._findings[finding.code] = replace(before, count=before.count + finding.count) if before else finding
