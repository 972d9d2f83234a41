from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.media_samples import an_image, clip
from wdsctl.core.errors import StorageError
from wdsctl.core.index.media_unit import MediaCandidate, build_medium, probe_part, unreadable_findings
from wdsctl.core.media.facts import ImageFacts, Unreadable, VideoFacts
from wdsctl.core.media.keyframes import KeyframeIndex
from wdsctl.core.media.selection import MediaGuess
from wdsctl.core.storage.storage import LocalStorage


def a_candidate(folder: Path, data: bytes, claim: MediaGuess = "yes", part: str = "jpg") -> MediaCandidate:
    """A part in the middle of a file."""
    path = folder / "file"
    path.write_bytes(b"before" + data + b"behind")
    return MediaCandidate(3, "key", part, str(path), 6, len(data), claim)


@pytest.mark.parametrize("claim", ["yes", "maybe"])
def test_probe_part_returns_facts_for_any_extension(tmp_path: Path, claim: MediaGuess) -> None:
    data = an_image()
    facts = probe_part(LocalStorage("/"), a_candidate(tmp_path, data, claim, "txt"), data[:64])
    assert isinstance(facts, ImageFacts)
    assert (facts.width, facts.height) == (48, 32)


@pytest.mark.parametrize(
    ("data", "reason"), [(b"", "it is empty"), (b"some text", "its content is not an image, audio or video")]
)
def test_non_medium_is_unreadable_only_if_its_name_claims_media(tmp_path: Path, data: bytes, reason: str) -> None:
    assert probe_part(LocalStorage("/"), a_candidate(tmp_path, data), data) == Unreadable(reason=reason)
    assert probe_part(LocalStorage("/"), a_candidate(tmp_path, data, "maybe"), data) is None


def test_probe_part_names_jpeg_xl_without_container(tmp_path: Path) -> None:
    data = b"\xff\x0a\x98\xc0"
    facts = probe_part(LocalStorage("/"), a_candidate(tmp_path, data, part="left.jxl"), data)
    assert facts == Unreadable(reason="wdsctl cannot read jxl")


def test_probe_part_raises_for_truncated_file(tmp_path: Path) -> None:
    data = clip()
    candidate = a_candidate(tmp_path, data)._replace(size=len(data) + 1_000_000)
    with pytest.raises(StorageError):
        probe_part(LocalStorage("/"), candidate, data[:32])


def test_build_medium_indexes_keyframes_of_videos_on_request(tmp_path: Path) -> None:
    candidate = a_candidate(tmp_path, clip(), part="mp4")
    facts = probe_part(LocalStorage("/"), candidate, clip())
    assert isinstance(facts, VideoFacts)

    plain = build_medium(LocalStorage("/"), candidate, facts)
    indexed = build_medium(LocalStorage("/"), candidate, facts, keyframes=True)
    image = build_medium(LocalStorage("/"), candidate, Unreadable(reason="x"), keyframes=True)

    assert (plain.keyframes, image.keyframes) == (None, None)
    assert indexed._replace(keyframes=None) == plain
    assert KeyframeIndex.from_bytes(indexed.keyframes or b"").frames == facts.frames


def test_unreadable_findings_group_media_by_part_and_reason() -> None:
    candidates = [(MediaCandidate(i, f"k{i}", part, "p", 0, 1, "yes"), "x") for i, part in enumerate("aba")]

    found = unreadable_findings(candidates, "a.tar")

    assert [(f.code, f.severity, f.message, f.shard, f.key, f.part, f.count) for f in found] == [
        ("WDS320", "warning", "x", "a.tar", "k0", "a", 2),
        ("WDS320", "warning", "x", "a.tar", "k1", "b", 1),
    ]


def test_unreadable_findings_of_files_have_their_paths() -> None:
    [found] = unreadable_findings([(MediaCandidate(0, "a/b.jpg", "jpg", "p", 0, 1, "yes"), "x")], "")
    assert (found.shard, found.key, found.part) == ("a/b.jpg", "", "")
