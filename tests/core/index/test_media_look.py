from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.medley import an_image, clip
from wdsctl.core.errors import StorageError
from wdsctl.core.index.media_unit import MediaCandidate, build_medium, probe_part, unreadable_findings
from wdsctl.core.media.facts import ImageFacts, Unreadable, VideoFacts
from wdsctl.core.media.keyframes import KeyframeIndex
from wdsctl.core.media.selection import MediaGuess
from wdsctl.core.storage.storage import LocalStorage


def a_candidate(folder: Path, data: bytes, claim: MediaGuess = "yes", part: str = "jpg") -> MediaCandidate:
    """A part that lies in the middle of a file."""
    path = folder / "file"
    path.write_bytes(b"before" + data + b"behind")
    return MediaCandidate(3, "key", part, str(path), 6, len(data), claim)


@pytest.mark.parametrize("claim", ["yes", "maybe"])
def test_a_medium_has_facts_whatever_its_name_says(tmp_path: Path, claim: MediaGuess) -> None:
    data = an_image()
    facts = probe_part(LocalStorage("/"), a_candidate(tmp_path, data, claim, "txt"), data[:64])
    assert isinstance(facts, ImageFacts)
    assert (facts.width, facts.height) == (48, 32)


@pytest.mark.parametrize(
    ("data", "reason"), [(b"", "it is empty"), (b"some text", "its content is not an image, audio or video")]
)
def test_what_is_no_medium_is_unreadable_only_where_its_name_says_that_it_is_one(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    assert probe_part(LocalStorage("/"), a_candidate(tmp_path, data), data) == Unreadable(reason=reason)
    assert probe_part(LocalStorage("/"), a_candidate(tmp_path, data, "maybe"), data) is None


def test_a_file_that_ends_too_soon_is_an_error_and_no_fact(tmp_path: Path) -> None:
    data = clip()
    candidate = a_candidate(tmp_path, data)._replace(size=len(data) + 1_000_000)
    with pytest.raises(StorageError):
        probe_part(LocalStorage("/"), candidate, data[:32])


def test_keyframes_are_looked_for_in_videos_alone_and_on_request(tmp_path: Path) -> None:
    candidate = a_candidate(tmp_path, clip(), part="mp4")
    facts = probe_part(LocalStorage("/"), candidate, clip())
    assert isinstance(facts, VideoFacts)

    plain = build_medium(LocalStorage("/"), candidate, facts)
    indexed = build_medium(LocalStorage("/"), candidate, facts, keyframes=True)
    image = build_medium(LocalStorage("/"), candidate, Unreadable(reason="x"), keyframes=True)

    assert (plain.keyframes, image.keyframes) == (None, None)
    assert indexed._replace(keyframes=None) == plain
    assert KeyframeIndex.from_bytes(indexed.keyframes or b"").frames == facts.frames


def test_unreadable_media_are_told_by_part_and_reason_with_the_first_of_them() -> None:
    some = [(MediaCandidate(i, f"k{i}", part, "p", 0, 1, "yes"), "x") for i, part in enumerate("aba")]

    found = unreadable_findings(some, "a.tar")

    assert [(f.code, f.severity, f.message, f.shard, f.key, f.part, f.count) for f in found] == [
        ("WDS320", "warning", "x", "a.tar", "k0", "a", 2),
        ("WDS320", "warning", "x", "a.tar", "k1", "b", 1),
    ]


def test_files_are_told_by_their_paths() -> None:
    [found] = unreadable_findings([(MediaCandidate(0, "a/b.jpg", "jpg", "p", 0, 1, "yes"), "x")], "")
    assert (found.shard, found.key, found.part) == ("a/b.jpg", "", "")
