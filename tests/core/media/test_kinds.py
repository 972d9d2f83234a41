"""The single table of media formats, and the tables that derive from it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests import sources
from tests.build import an_image
from wdsctl.core.convert.parts import (
    AudioTranscodeOptions,
    ImageTranscodeOptions,
    image_format_examples,
    is_selected_part,
    parse_audio,
    parse_image,
)
from wdsctl.core.convert.request import ImageOptions
from wdsctl.core.convert.transcode import transcode_image
from wdsctl.core.errors import UsageError
from wdsctl.core.media import kinds
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION, MEDIA_EXTENSIONS, MEDIA_FORMATS, MediaType
from wdsctl.core.media.sniff import sniff
from wdsctl.core.options import declared_options
from wdsctl.core.samples.evidence import FORMATS_BY_EXTENSION
from wdsctl.loader import SampleDecoder
from wdsctl.loader.decoding import parts

MEDIA_TYPES: tuple[MediaType, ...] = ("image", "video", "audio")

LOADERS: dict[Any, str] = {
    parts.decode_text: "text",
    parts.decode_integer: "integer",
    parts.decode_json: "json",
    parts.decode_jsonl: "lines",
    parts.decode_npy: "npy",
    parts.decode_npz: "npz",
    parts.decode_torch: "torch",
}


def test_part_kind_agrees_with_loader() -> None:
    for name, (decode, _) in parts.DECODER_BY_EXTENSION.items():
        assert kinds.part_kind(f"seg.{name.upper()}") == LOADERS.get(decode, "other"), name
    for media_type in MEDIA_TYPES:
        for name in kinds.decodable_extensions(media_type):
            assert kinds.part_kind(name) == parts.part_content_type(f"seg.{name.upper()}", "any") == media_type
    assert {name for names in kinds.EXTENSIONS_BY_KIND.values() for name in names} <= {*parts.DECODER_BY_EXTENSION}


def test_pixel_limit_is_the_one_of_pillow() -> None:
    assert 2 * (Image.MAX_IMAGE_PIXELS or 0) == kinds.MAX_IMAGE_PIXELS


def test_kinds_module_imports_only_typing() -> None:
    tree = ast.parse(Path(kinds.__file__).read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert modules == {"__future__", "typing"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import)]


def test_extensions_of_media_formats_are_unique() -> None:
    extension_names = [name for each in MEDIA_FORMATS for name in each.extensions]

    assert len(extension_names) == len(set(extension_names))
    assert not MEDIA_EXTENSIONS & (kinds.OTHER_EXTENSIONS | set(parts.DECODER_BY_EXTENSION))


@pytest.mark.parametrize("extension", kinds.media_extensions("image"))
def test_image_extension_is_decoded_and_transcoded_or_neither(extension: str) -> None:
    row = FORMAT_BY_EXTENSION[extension]
    is_selected = is_selected_part(extension, ImageTranscodeOptions("png"))
    assert is_selected is bool(row.readers)
    if not row.readers:
        assert kinds.part_kind(extension) == "other"
        assert SampleDecoder()(extension, b"bytes") == b"bytes"
        return
    data = an_image(row.readers[0])
    assert sniff(data).format == row.name
    assert {row.name, *row.also_holds} == FORMATS_BY_EXTENSION[extension]
    assert SampleDecoder(image_decode="rgb8")(extension, data).shape[1:] in {(48, 3), (32, 3)}  # icons are smaller
    name, encoded = transcode_image(extension, data, ImageTranscodeOptions("png"))
    assert (name, sniff(encoded).format) == (extension if row.name == "png" else "png", "png")


@pytest.mark.parametrize("extension", ["heic", "heif", "jxl"])
def test_undecodable_image_extension_is_media_but_not_decodable(extension: str) -> None:
    assert extension in MEDIA_EXTENSIONS
    assert extension not in kinds.decodable_extensions("image")
    assert kinds.decoder_package(FORMAT_BY_EXTENSION[extension].name)
    assert kinds.part_kind(extension) == "other"


def test_transcode_targets_are_accepted_by_options() -> None:
    for name in kinds.transcode_targets("image"):
        assert parse_image(name) == ImageTranscodeOptions(name)
    for name in kinds.transcode_targets("audio"):
        assert parse_audio(name) == AudioTranscodeOptions(name)
    assert not kinds.transcode_targets("video")


def test_hint_and_help_of_convert_name_every_image_format_and_quality() -> None:
    examples = image_format_examples()
    for name, target in kinds.transcode_targets("image").items():
        assert (f"{name}:{target.quality}" if target.quality else name) in re.split(r", | or ", examples)
    [help_text] = [each.option for each in declared_options(ImageOptions) if each.name == "image"]
    assert help_text.help == f"Re-encode images as {examples}."
    with pytest.raises(UsageError) as caught:
        parse_image("gif")
    assert caught.value.hint == f"write {examples}"


def test_parse_image_refuses_quality_of_lossless_format() -> None:
    with pytest.raises(UsageError, match="png is lossless and has no quality"):
        parse_image("png:90")


# A list of media extensions outside the table would be a second definition of the media formats.

_WORDS = re.compile(r"\.?[a-z0-9]+(?:[ ,|]+\.?[a-z0-9]+)+")
_DEMUXERS = {reader for each in MEDIA_FORMATS if each.media_type != "image" for reader in each.readers}
#: Folders in which sets of FFmpeg's demuxers are no lists of extensions.
_FFMPEG_FOLDERS = ("core/media/", "loader/decoding/av/")
#: Exceptions: extensions that decide keys (which a new format must not rename), names of JSON keys, and the
#: image formats that LitData decodes.
_EXCEPTIONS = {
    "core/convert/exporters/litdata.py": {"jpeg", "png", "webp"},
    "core/samples/naming.py": {"jpg", "jpeg", "png", "wav"},
    "core/samples/detect.py": {"jpg", "mp4", "wav"},
}


def _find_extension_lists(tree: ast.Module) -> Iterator[tuple[int, set[str]]]:
    """(line, words) of tuples, lists, sets, dicts and strings of words with at least three extensions of media."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            groups = [node.elts]
        elif isinstance(node, ast.Dict):
            groups = [[key for key in node.keys if key], node.values]
        elif isinstance(node, ast.BoolOp):
            groups = [[each for part in node.values if isinstance(part, ast.Compare) for each in part.comparators]]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _WORDS.fullmatch(node.value.strip()):
            groups = [[ast.Constant(word) for word in re.split(r"[ ,|]+", node.value)]]
        else:
            continue
        for group in groups:
            words = {
                each.value.lstrip(".")
                for each in group
                if isinstance(each, ast.Constant) and str(each.value) == each.value
            }
            if len(words & MEDIA_EXTENSIONS) >= 3:
                yield getattr(node, "lineno", 0), words


def test_media_extensions_are_listed_only_in_kinds() -> None:
    found = [
        f"{name}:{line}: {sorted(words & MEDIA_EXTENSIONS)}"
        for name, text in sources.texts().items()
        if name != "core/media/kinds.py" and len(MEDIA_EXTENSIONS.intersection(re.findall(r"[a-z0-9]+", text))) >= 3
        for line, words in _find_extension_lists(sources.tree(name))
        if words & MEDIA_EXTENSIONS != _EXCEPTIONS.get(name)
        and not (words <= _DEMUXERS and name.startswith(_FFMPEG_FOLDERS))
    ]

    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        'A = ("jpg", "png", "webp")',
        'A = frozenset([".mp4", ".mkv", ".avi"])',
        'A = {"wav": 1, "flac": 2, "mp3": 3}',
        'A = "jpg png gif tif".split()',
        'if x == "jpg" or x == "png" or x == "gif": pass',
    ],
)
def test_find_extension_lists_detects_list(source: str) -> None:
    assert len(list(_find_extension_lists(ast.parse(source)))) == 1
