from __future__ import annotations

from pathlib import Path

from tests.build import a_dataset
from tests.core.carried import NUMBER, a_source, carry_messages, columns, media
from tests.core.catalog.drafts import open_draft
from tests.core.conversions import convert_to
from tests.core.media_files import a_media_file
from tests.core.pictures import picture
from wdsctl.core.catalog.browse import NameLookup
from wdsctl.core.convert.parts import PartRules, parse_image
from wdsctl.core.dataset.location import locate
from wdsctl.core.index.index import index
from wdsctl.core.index.request import MediaRequest


def test_samples_without_media_do_not_prevent_copying(tmp_path: Path) -> None:
    shard = {f"{i}.{part}": b"" for i in range(6) for part in ("txt", *(["wav"] if i % 2 else []))}
    shard |= {f"{i}.wav": a_media_file("wav", audio="pcm_s16le") for i in (1, 5)}
    source = a_dataset(tmp_path / "a", {"0.tar": dict(sorted(shard.items()))})
    index(source, media=MediaRequest(selection="wav"), columns={"n": NUMBER})

    convert_to(tmp_path / "b", source, layout="polylithic", media=("wav",), order="shuffle")
    convert_to(tmp_path / "c", tmp_path / "b")

    assert media(tmp_path / "b" / "media") == media(tmp_path / "c") == media(source)
    assert [facts.kind for facts in media(source).values()] == ["audio", "unreadable", "audio"]
    assert columns(tmp_path / "c") == columns(source)


def test_keyframes_are_copied(tmp_path: Path) -> None:
    videos = {f"{i}.mp4": a_media_file("mp4", video="mpeg4", times=range(4 + i)) for i in range(3)}
    source = a_dataset(tmp_path / "a", {"0.tar": videos})
    request = MediaRequest(selection="mp4", keyframes=True)
    index(source, media=request)

    convert_to(tmp_path / "b", source, order="shuffle", seed=2)

    assert read_keyframes(tmp_path / "b") == read_keyframes(tmp_path / "a")
    assert len(read_keyframes(tmp_path / "a")) == 3
    report = index(str(tmp_path / "b"), media=request)
    assert report.media is not None
    assert report.media.state == "current"


def read_keyframes(root: Path) -> dict[str, bytes]:
    with NameLookup(locate(str(root)).catalog_path) as names:
        frames = {f"{i}.mp4": names.keyframes(names.find(f"{i}.mp4")[0]) for i in range(3)}
    return {name: data for name, data in frames.items() if data}


def test_image_option_keeps_facts_of_other_media(tmp_path: Path) -> None:
    shard = {"0.png": b"", "0.wav": a_media_file("wav", audio="pcm_s16le")}
    source = a_dataset(tmp_path / "a", {"0.tar": shard})
    index(source, media=MediaRequest(selection="wav"))

    report = convert_to(tmp_path / "b", source, image=parse_image("webp"), on_error="keep")

    assert media(tmp_path / "b") == media(source) != {}
    assert carry_messages(report) == []


def test_transcoded_and_renamed_media_get_new_facts(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a", 1, columns={"wide": "media:jpg:width"})

    webp = convert_to(tmp_path / "b", source, image=parse_image("webp:80", 16))
    renamed = convert_to(tmp_path / "c", source, parts=PartRules(rename=(("jpg", "image.jpg"),)))

    widths = {name: facts.width for name, facts in media(tmp_path / "b").items()}
    assert widths == {"000000.webp": 11, "000001.webp": 11, "000002.webp": 12, "000003.webp": 13}
    assert media(tmp_path / "c") == {name.replace(".", ".image."): facts for name, facts in media(source).items()}
    assert webp.datasets[0].columns == renamed.datasets[0].columns == ("wide",)
    assert columns(tmp_path / "c") == columns(source)
    assert carry_messages(webp) == carry_messages(renamed) == []


def test_shard_without_facts_in_source_gets_facts_in_destination(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a")
    before = media(source)
    with open_draft(locate(source).catalog_path) as draft:
        draft.media.remove_shard(2)

    report = convert_to(tmp_path / "b", source, shard_samples=3)

    assert report.datasets[0].media == 12
    assert media(tmp_path / "b") == before


def test_source_without_facts_gets_selection_of_other_source(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a", 1, columns={})
    other = a_dataset(tmp_path / "o", {"0.tar": {"x.jpg": picture(30, 24)}})
    index(other)

    report = convert_to(tmp_path / "b", source, other)

    assert sorted(media(tmp_path / "b")) == [*sorted(media(source)), "x.jpg"]
    assert carry_messages(report) == []


def test_sources_with_different_media_selections_are_reported(tmp_path: Path) -> None:
    source = a_source(tmp_path / "a", 1, columns={"wide": "media:jpg:width"})
    other = a_dataset(tmp_path / "o", {"0.tar": {"x.jpg": picture(30, 24)}})
    index(other, media=MediaRequest(selection="jpg"), columns={"wide": "media:jpg:width"})

    report = convert_to(tmp_path / "b", source, other)

    assert media(tmp_path / "b") == {}
    assert [
        "media facts: the sources have facts of different media" in message for message in carry_messages(report)
    ] == [
        False,
        True,
    ]
    assert f"wdsctl index {tmp_path}/b --media" in carry_messages(report)[1]


def test_media_selection_that_matches_no_part_is_reported(tmp_path: Path) -> None:
    source = a_dataset(tmp_path / "a", {"0.tar": {"x.jpg": picture(30, 24)}})
    for selection in ("jpg", "*.jpg"):
        index(source, media=MediaRequest(selection=selection))

        report = convert_to(tmp_path / f"b-{len(selection)}", source, image=parse_image("webp"))

        assert f"media facts: `--media {selection}` matches no part" in carry_messages(report)[0]
        assert report.datasets[0].media == 0
