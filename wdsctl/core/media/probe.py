"""Read the facts of a medium. Imports Pillow and PyAV only when a medium needs them."""

from __future__ import annotations

from wdsctl.core.media.byte_range import ByteRangeFile, ReadAt
from wdsctl.core.media.facts import ImageFacts, MediumFacts, Unreadable
from wdsctl.core.media.sniff import SniffedContent, sniff

HEADER_READ_BYTES = 64 << 10  # first read of a part: most headers are shorter


def probe_media(source: ByteRangeFile, content: SniffedContent) -> MediumFacts | Unreadable:
    """Read the facts from the header of a medium whose content `sniff` has named.

    Cost: about 0.1 to 10 ms and a few pages of the source, but at most `source.max_read_bytes` bytes. For a video,
    these are the table of contents and the first frames. Broken media are `Unreadable`; a source that cannot be read
    raises its own error. The streams decide the kind: a video file without a video stream is audio, and an audio file
    with one is video.
    """
    facts = _read_facts(source, content)
    if source.failure is not None:
        raise source.failure
    if isinstance(facts, Unreadable) and source.is_over_limit:
        return Unreadable(reason=f"its header is longer than {source.max_read_bytes:,} bytes, the limit")
    return facts


def probe_image(read: ReadAt, size: int, name: str) -> ImageFacts | None:
    """Facts of a part that may be an image; None if it is none, or its header cannot be read."""
    if not size:
        return None
    head = read(0, min(size, HEADER_READ_BYTES))
    content = sniff(head, size, name=name)
    facts = probe_media(ByteRangeFile(read, size, head=head), content) if content.kind == "image" else None
    return facts if isinstance(facts, ImageFacts) else None


def _read_facts(source: ByteRangeFile, content: SniffedContent) -> MediumFacts | Unreadable:
    if content.kind == "image":
        from wdsctl.core.media.image import image_facts

        return image_facts(source, content.format)
    if content.kind in ("audio", "video"):
        from wdsctl.core.media.stream import stream_facts

        return stream_facts(source, content.format)
    return Unreadable(reason=f"{content.kind} is not an image, audio or video")
