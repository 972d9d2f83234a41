"""The facts of a medium. Pillow and PyAV are imported only when there is something for them to look at."""

from __future__ import annotations

from wdsctl.core.media.byte_range import ByteRange
from wdsctl.core.media.facts import Facts, Unreadable
from wdsctl.core.sniff import Content


def probe(source: ByteRange, content: Content) -> Facts | Unreadable:
    """What the header says of a medium that `sniff` calls `content`.

    Cost: some 0.1 to 10 ms, and a few pages of the source: of a video the table of contents and the first frames; never
    more than `source.most` bytes. Broken media are `Unreadable`; a source that cannot be read raises its own error.
    A video without moving pictures comes back as audio, a sound that has them as video: the streams decide.
    """
    facts = _facts(source, content)
    if source.failure is not None:
        raise source.failure
    if isinstance(facts, Unreadable) and source.is_spent:
        return Unreadable(reason=f"its header needs more than {source.most:,} bytes to be read")
    return facts


def _facts(source: ByteRange, content: Content) -> Facts | Unreadable:
    if content.kind == "image":
        from wdsctl.core.media.image import image_facts

        return image_facts(source, content.format)
    if content.kind in ("audio", "video"):
        from wdsctl.core.media.stream import stream_facts

        return stream_facts(source, content.format)
    return Unreadable(reason=f"{content.kind} is no image, sound or video")
