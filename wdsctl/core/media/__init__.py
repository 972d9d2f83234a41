"""Facts about images, audio and video files, read from their headers.

`sniff` names the format of bytes, `probe` returns facts (size, duration, rate), `keyframes` lists the keyframes at
which a decoder can enter a video, and `decode_check` decodes a file to its end to find damage. `corrections` and
`deep_tiff` are for images that Pillow reads wrongly or in part, `refusals` for those that it refuses. `kinds` is the
only table of file extensions and media types. The room imports `storage`; every room that handles parts of samples may
import it.
"""

from __future__ import annotations
