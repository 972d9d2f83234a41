from __future__ import annotations

from pathlib import Path

from tests.build import a_dataset
from tests.core.carried import NUMBER, a_source, columns, media, told
from tests.core.conversions import to
from tests.core.films import a_film
from tests.core.pictures import picture
from wdsctl.core.catalog.browse import NameLookup
from wdsctl.core.catalog.stage import open_draft
from wdsctl.core.convert.parts import PartRules, parse_image
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest


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
    with NameLookup(locate(str(root)).catalog) as names:
        found = {f"{i}.mp4": names.keyframes(names.find(f"{i}.mp4")[0]) for i in range(3)}
    return {name: data for name, data in found.items() if data}


def test_images_that_are_written_anew_leave_facts_of_other_media(tmp_path: Path) -> None:
    shard = {"0.png": b"", "0.wav": a_film("wav", audio="pcm_s16le")}
    source = a_dataset(tmp_path / "a", {"0.tar": shard})
    index(source, media=MediaRequest(selection="wav"))

    report = to(tmp_path / "b", source, image=parse_image("webp"), on_error="keep")

    assert media(tmp_path / "b") == media(source) != {}
    assert told(report) == []


def test_media_that_are_transcoded_or_renamed_get_facts_of_their_own(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a", 1, columns={"wide": "media:jpg:width"})

    webp = to(tmp_path / "b", source, image=parse_image("webp:80", 16))
    renamed = to(tmp_path / "c", source, parts=PartRules(rename=(("jpg", "image.jpg"),)))

    widths = {name: facts.width for name, facts in media(tmp_path / "b").items()}
    assert widths == {"000000.webp": 11, "000001.webp": 11, "000002.webp": 12, "000003.webp": 13}
    assert media(tmp_path / "c") == {name.replace(".", ".image."): facts for name, facts in media(source).items()}
    assert webp.datasets[0].columns == renamed.datasets[0].columns == ("wide",)
    assert columns(tmp_path / "c") == columns(source)
    assert told(webp) == told(renamed) == []


def test_a_shard_without_facts_in_the_source_has_some_in_the_destination(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a")
    before = media(source)
    with open_draft(locate(source).catalog) as draft:
        draft.media.remove_shard(2)

    report = to(tmp_path / "b", source, shard_samples=3)

    assert report.datasets[0].media == 12
    assert media(tmp_path / "b") == before


def test_a_source_without_facts_gets_those_that_another_has(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a", 1, columns={})
    other = a_dataset(tmp_path / "o", {"0.tar": {"x.jpg": picture(30, 24)}})
    index(other)

    report = to(tmp_path / "b", source, other)

    assert sorted(media(tmp_path / "b")) == [*sorted(media(source)), "x.jpg"]
    assert told(report) == []


def test_sources_with_facts_of_different_media_are_told(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a", 1, columns={"wide": "media:jpg:width"})
    other = a_dataset(tmp_path / "o", {"0.tar": {"x.jpg": picture(30, 24)}})
    index(other, media=MediaRequest(selection="jpg"), columns={"wide": "media:jpg:width"})

    report = to(tmp_path / "b", source, other)

    assert media(tmp_path / "b") == {}
    assert ["media facts: the sources have facts of different media" in said for said in told(report)] == [False, True]
    assert f"wdsctl index {tmp_path}/b --media" in told(report)[1]


def test_a_selection_that_no_part_has_any_more_is_told(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"x.jpg": picture(30, 24)}})
    for selection in ("jpg", "*.jpg"):
        index(source, media=MediaRequest(selection=selection))

        report = to(tmp_path / f"b-{len(selection)}", source, image=parse_image("webp"))

        assert f"media facts: `--media {selection}` matches no part" in told(report)[0]
        assert report.datasets[0].media == 0
