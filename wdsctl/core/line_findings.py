"""What is wrong with a file of lines, as far as a scan sees it: one finding a kind, with the first place."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import replace

from wdsctl.core.findings import Finding, Severity
from wdsctl.core.line_files import UNPACKERS

_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_ENDINGS = {"gzip": ".gz", "zstd": ".zst", "bzip2": ".bz2", "xz": ".xz", "lz4": ".lz4"}


class LineFindings:
    """Gathers them while a file is scanned. `prefix` stands before a line's number in its key."""

    def __init__(self, shard: str, prefix: str = "") -> None:
        self.shard = shard
        self._prefix = prefix
        self._found: dict[str, Finding] = {}

    def all(self) -> Iterator[Finding]:
        yield from self._found.values()

    def refuses(self, head: bytes, compressed: str) -> bool:
        """Whether a file that begins so is none of lines at all. `compressed`: with what, if it is."""
        if compressed:
            unpack = UNPACKERS[_ENDINGS[compressed]]
            message = f"compressed with {compressed}, though the name does not say so: rename it and `{unpack}` it"
            self._note(Finding(code="WDS113", severity="error", message=message, shard=self.shard, offset=0))
        elif head.startswith(_WIDE):
            self._binary("text in UTF-16 or UTF-32, and JSON is UTF-8: write it again as UTF-8")
        elif b"\0" in head:
            self._binary("binary data, not lines of JSON")
        elif head.startswith(codecs.BOM_UTF8):
            message = "a byte order mark at the start, which is passed over"
            self._note(Finding(code="WDS125", severity="note", message=message, shard=self.shard, offset=0))
        return any(finding.severity == "error" for finding in self._found.values())

    def not_objects(self, count: int, number: int, offset: int) -> None:
        """`number`: of the first such line, among those that are not blank."""
        message = "lines that are no JSON objects"
        self.line("WDS121", message, f"{self._prefix}{number}", offset, count)

    def line(
        self, code: str, message: str, key: str, offset: int, count: int = 1, *, severity: Severity = "error"
    ) -> None:
        """Lines of which all that is known is that something is wrong with them."""
        finding = Finding(code=code, severity=severity, message=message, shard=self.shard, key=key, offset=offset)
        self._note(replace(finding, count=count))

    def cut(self, offset: int) -> None:
        message = "the last line is cut: it is left out, and those before it are good"
        self._note(Finding(code="WDS122", severity="error", message=message, shard=self.shard, offset=offset))

    def without_field(self, field: str, count: int, key: str, offset: int) -> None:
        message = f"lines without text or a whole number in {field!r}: their number is their key"
        found = Finding(code="WDS126", severity="warning", message=message, shard=self.shard, key=key, offset=offset)
        self._note(replace(found, count=count))

    def no_samples(self) -> None:
        message = "no samples in this shard: it is empty, or all lines are blank"
        self._note(Finding(code="WDS115", severity="warning", message=message, shard=self.shard))

    def _binary(self, message: str) -> None:
        self._note(Finding(code="WDS120", severity="error", message=message, shard=self.shard, offset=0))

    def _note(self, finding: Finding) -> None:
        before = self._found.get(finding.code)
        self._found[finding.code] = replace(before, count=before.count + finding.count) if before else finding
