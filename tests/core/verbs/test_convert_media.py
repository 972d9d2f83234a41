from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np

from tests.build import a_dataset
from tests.core.films import a_film
from tests.core.verbs.carried import NUMBER, a_source, columns, media, told
from tests.core.verbs.conversions import to
from wdsctl.core.catalog.by_name import Names
from wdsctl.core.catalog.drafting import drafting
from wdsctl.core.convert.plan_file import ORIGIN, Origins
from wdsctl.core.convert.recipe import Recipe
from wdsctl.core.lock import locked
from wdsctl.core.offsets import Offsets
from wdsctl.core.place import locate
from wdsctl.core.progress import SILENT
from wdsctl.core.transcode.options import parse_image
from wdsctl.core.verbs.convert_media import carry_media, media_after
from wdsctl.core.verbs.convert_report import ConvertOptions
from wdsctl.core.verbs.convert_sources import open_sources
from wdsctl.core.verbs.index import index
from wdsctl.core.verbs.media_request import MediaRequest


def test_samples_without_media_are_not_in_the_way(tmp_path: Path) -> None:
    shard = {f"{i}.{part}": b"" for i in range(6) for part in ("txt", *(["wav"] if i % 2 else []))}
    shard |= {f"{i}.wav": a_film("wav", audio="pcm_s16le") for i in (1, 5)}
    source = a_dataset(tmp_path / "a", {"0.tar": dict(sorted(shard.items()))})
    index(source, media=MediaRequest(selection="wav"), columns={"n": NUMBER})

    to(tmp_path / "b", source, layout="polylithic", media=("wav",), order="shuffle")
    to(tmp_path / "c", tmp_path / "b")

    assert media(tmp_path / "b" / "media") == media(tmp_path / "c") == media(source)
    assert [facts.kind for facts in media(source).values()] == ["audio", "unreadable", "audio"]
    assert columns(tmp_path / "c") == columns(source)


def test_keyframes_go_along(tmp_path: Path) -> None:
    films = {f"{i}.mp4": a_film("mp4", video="mpeg4", times=range(4 + i)) for i in range(3)}
    source = a_dataset(tmp_path / "a", {"0.tar": films})
    asked = MediaRequest(selection="mp4", keyframes=True)
    index(source, media=asked)

    to(tmp_path / "b", source, order="shuffle", seed=2)

    assert keyframes(tmp_path / "b") == keyframes(tmp_path / "a")
    assert len(keyframes(tmp_path / "a")) == 3
    report = index(str(tmp_path / "b"), media=asked)
    assert report.media is not None
    assert report.media.state == "current"


def keyframes(root: Path) -> dict[str, bytes]:
    with Names(locate(str(root)).catalog) as names:
        found = {f"{i}.mp4": names.keyframes(names.find(f"{i}.mp4")[0]) for i in range(3)}
    return {name: data for name, data in found.items() if data}


def test_images_that_are_written_anew_leave_facts_of_other_media(tmp_path: Path) -> None:
    shard = {"0.png": b"", "0.wav": a_film("wav", audio="pcm_s16le")}
    source = a_dataset(tmp_path / "a", {"0.tar": shard})
    index(source, media=MediaRequest(selection="wav"))

    report = to(tmp_path / "b", source, image=parse_image("webp"), on_error="keep")

    assert media(tmp_path / "b") == media(source) != {}
    assert told(report) == []


def test_a_shard_without_facts_is_looked_at_later(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a")
    report = to(tmp_path / "b", source, shard_samples=4)
    assert report.datasets[0].media == 12

    with drafting(locate(source).catalog) as draft:
        draft.media.remove_shard(2)
    report = to(tmp_path / "c", source, shard_samples=3)

    assert report.datasets[0].media == 6  # the first and the last three; two shards have samples of the second
    assert media(tmp_path / "c").items() <= media(tmp_path / "b").items()
    index(str(tmp_path / "c"))
    assert media(tmp_path / "c") == media(tmp_path / "b")
    assert columns(tmp_path / "c")["wide"] == columns(tmp_path / "b")["wide"]


def test_of_a_source_that_is_indexed_meanwhile_only_what_is_as_it_was_has_facts(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a", 3, 4)
    to(tmp_path / "b", source, shard_samples=4)
    place = locate(str(tmp_path / "b"))
    paths = [shard.path for shard in Offsets(place.offsets(1)).shards]

    def came(path: str) -> Origins:
        first = 4 * paths.index(path)
        return np.array([(i, 0, i, 0, 0) for i in range(first, first + 4)], ORIGIN)

    with closing(open_sources([source], ConvertOptions(), str(tmp_path / "work"), SILENT, workers=1)) as opened:
        facts = media_after(opened, Recipe(sources=(), target="shards"))
        assert facts is not None
        Path(source, "s-001.tar").unlink()
        index(source, missing="drop")
        with locked(place.lock):
            assert carry_media(place, 1, facts, came) == 8
