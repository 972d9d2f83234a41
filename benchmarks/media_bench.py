"""Facts of media into the catalog: `wdsctl index --media` against `energon prepare-media`, on prepared datasets."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.clip_bench import clip_rows
from benchmarks.competition import compete
from benchmarks.contender import Contender
from benchmarks.corpora import CLIPS, PHOTO_SAMPLES
from benchmarks.measure import ContenderError, Cost
from benchmarks.places import DATA, peer, wdsctl_script
from benchmarks.results import Row
from benchmarks.roots import linked_root

CORPORA = ("photos", "clips")
#: (title, corpus, media, part, width in pixels of all of them)
_ROWS = (
    ("facts of 20,000 images, 2 workers", "photos", PHOTO_SAMPLES, "jpg", 256.0),
    (f"facts of {CLIPS:,} videos, 2 workers", "clips", CLIPS, "mp4", 320.0),
)


def media_rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    for title, corpus, media, part, width in _ROWS:
        contenders = [make(corpus, media, part, width) for make in (_wdsctl, _energon)]
        yield compete(title, [each for each in contenders if is_selected(each.name)], rounds=rounds)
    yield from clip_rows(is_selected, rounds)


def _wdsctl(corpus: str, media: int, part: str, width: float) -> Contender:
    root = DATA / "wdsctl" / corpus
    command = (wdsctl_script("wdsctl"), "index", str(root), "--media", part, "--workers", "2", "--quiet")
    bare = (wdsctl_script("wdsctl"), "index", str(root), "--quiet")
    return Contender(
        name="wdsctl index --media",
        command=command,
        before=partial(_prepared, "wdsctl", corpus, bare),
        after=partial(_wdsctl_figures, root / ".wdsctl" / "catalog.sqlite", media, width),
    )


def _energon(corpus: str, media: int, part: str, width: float) -> Contender:
    root = DATA / "energon" / corpus
    how = ("--num-workers", "2", "--media-metadata-by-extension")
    options = ("--non-interactive", "--force-overwrite", "--split-ratio", "8,1,1", "--num-workers", "2")
    field_map = json.dumps({"image": part, "caption": part})
    kind = ("--sample-type", "CaptioningSample", "--field-map", field_map)
    return Contender(
        name="energon prepare-media",
        command=(peer("energon"), "prepare-media", str(root), *how),
        before=partial(_prepared, "energon", corpus, (peer("energon"), "prepare", str(root), *options, *kind)),
        after=partial(_energon_figures, root / ".nv-meta" / "index.sqlite", media, width),
    )


def _prepared(contender: str, corpus: str, command: tuple[str, ...]) -> None:
    """The bare dataset, indexed without its media: off the clock."""
    linked_root(contender, corpus)
    subprocess.run(command, check=True, capture_output=True)


def _wdsctl_figures(database: Path, media: int, width: float, _: Cost) -> dict[str, float]:
    return _checked(_rows(database, "SELECT width FROM v_media WHERE kind <> 'unreadable'"), media, width)


def _energon_figures(database: Path, media: int, width: float, _: Cost) -> dict[str, float]:
    texts = [json.loads(text) for (text,) in _rows(database, "SELECT metadata_json FROM media_metadata")]
    return _checked([(facts.get("width") or facts.get("video_width"),) for facts in texts], media, width)


def _checked(rows: list[tuple[Any, ...]], media: int, width: float) -> dict[str, float]:
    """Media that have facts, after a look that it is all of them, and that their widths are right."""
    if [row[0] for row in rows] != [width] * media:
        raise ContenderError(f"{len(rows)} of {media} media have facts, or they are not {width:g} pixels wide")
    return {"media": float(len(rows))}


def _rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)) as connection:
        return connection.execute(query).fetchall()
