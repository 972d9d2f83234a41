"""What was asked of the media of a dataset, as `meta` keeps it, so that later runs ask the same."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from wdsctl.core.json_text import read_json

FACT = "media"  # the key in `meta`
KIND = "kind"  # the key in `meta` that tells a folder of media from a dataset of shards
FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class MediaSettings:
    """`selection`: in the spelling of `Selection.text`. `keyframes`: whether videos are indexed for seeking."""

    selection: str
    keyframes: bool = False

    def as_text(self) -> str:
        return json.dumps(asdict(self))


def settings_from(text: str | None) -> MediaSettings | None:
    """None where nothing was asked. Raises ValueError and TypeError where the text is damaged."""
    return None if text is None else MediaSettings(**read_json(text))
