"""The one table of media formats: file extensions, kind, and what reads and writes each format.

All lists of image, audio or video extensions derive from it: in the loader, `validate`, importers, exporters and
transcoding. It imports nothing, so that the loader starts fast. A test fails on such lists elsewhere.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

MediaType = Literal["image", "video", "audio"]


class MediaFormat(NamedTuple):
    """One format: its names, and what reads and writes it.

    If `readers` is empty, wdsctl does not decode the format: its files are media by their names, are stored and counted
    as such, and the loader hands out their bytes.

    `name`: the name in `sniff`; a container for both video and audio has a row for each. `extensions`: in lower case,
    the usual one first, which a file without an extension gets. `readers`: Pillow's names of an image format, or
    FFmpeg's demuxers; FFmpeg chooses among several. `pillow_module`: the module with the reader, of Pillow or of a
    plugin for it. `encoder`: what transcoding writes the format with, a format name of Pillow or a codec name of
    FFmpeg; empty if transcoding cannot write it. `quality`: the default quality of an image, 1 to 100; 0 if the encoder
    is lossless. `also_holds`: other formats that files with these extensions may hold, without their names being wrong.
    `decoder_package`: for a format without readers, a package on PyPI that decodes it.
    """

    name: str
    media_type: MediaType
    extensions: tuple[str, ...]
    readers: tuple[str, ...] = ()
    pillow_module: str = ""
    encoder: str = ""
    quality: int = 0
    also_holds: tuple[str, ...] = ()
    decoder_package: str = ""


#: The likeliest format of each media type comes first: detection takes it if several parts of a sample would fit.
#: Pillow tries its readers in this order, so formats without a signature (TGA) have to come late.
MEDIA_FORMATS = (
    MediaFormat("jpeg", "image", ("jpg", "jpeg", "jpe", "jfif"), ("JPEG",), "PIL.JpegImagePlugin", "JPEG", 90),
    MediaFormat("png", "image", ("png", "apng"), ("PNG",), "PIL.PngImagePlugin", "PNG"),
    MediaFormat("webp", "image", ("webp",), ("WEBP",), "PIL.WebPImagePlugin", "WEBP", 80),
    MediaFormat("avif", "image", ("avif",), ("AVIF",), "PIL.AvifImagePlugin"),
    MediaFormat("tiff", "image", ("tif", "tiff"), ("TIFF",), "PIL.TiffImagePlugin"),
    MediaFormat("bmp", "image", ("bmp", "dib"), ("BMP", "DIB"), "PIL.BmpImagePlugin"),
    MediaFormat("gif", "image", ("gif",), ("GIF",), "PIL.GifImagePlugin"),
    MediaFormat(
        "jpeg2000", "image", ("jp2", "j2k", "jpx", "jpf", "j2c", "jpc"), ("JPEG2000",), "PIL.Jpeg2KImagePlugin"
    ),
    MediaFormat("pnm", "image", ("ppm", "pgm", "pbm", "pnm"), ("PPM",), "PIL.PpmImagePlugin"),
    MediaFormat("ico", "image", ("ico",), ("ICO",), "PIL.IcoImagePlugin"),
    MediaFormat("tga", "image", ("tga",), ("TGA",), "PIL.TgaImagePlugin"),
    MediaFormat("sgi", "image", ("sgi", "bw"), ("SGI",), "PIL.SgiImagePlugin"),
    MediaFormat("pcx", "image", ("pcx",), ("PCX",), "PIL.PcxImagePlugin"),
    MediaFormat("heic", "image", ("heic", "heif"), decoder_package="pillow-heif"),
    MediaFormat("jxl", "image", ("jxl",), decoder_package="pillow-jxl-plugin"),
    MediaFormat("mp4", "video", ("mp4", "m4v", "3gp"), ("mov",), also_holds=("mov", "m4a")),
    MediaFormat("mov", "video", ("mov",), ("mov",), also_holds=("mp4", "m4a")),
    MediaFormat("webm", "video", ("webm",), ("matroska",)),
    MediaFormat("matroska", "video", ("mkv",), ("matroska",), also_holds=("webm",)),
    MediaFormat("avi", "video", ("avi",), ("avi",)),
    MediaFormat("flv", "video", ("flv",), ("flv",)),
    MediaFormat("asf", "video", ("asf", "wmv"), ("asf",)),
    MediaFormat("mpeg", "video", ("mpeg", "mpg"), ("mpeg", "mpegvideo"), also_holds=("mpegts",)),
    MediaFormat("mpegts", "video", ("ts",), ("mpegts",)),
    MediaFormat("wav", "audio", ("wav",), ("wav",), encoder="pcm_s16le", also_holds=("sphere",)),
    MediaFormat("flac", "audio", ("flac",), ("flac",), encoder="flac"),
    MediaFormat("mp3", "audio", ("mp3",), ("mp3",), also_holds=("mp2",)),
    MediaFormat("ogg", "audio", ("ogg", "oga"), ("ogg",)),
    MediaFormat("ogg", "audio", ("opus",), ("ogg",), encoder="libopus"),
    MediaFormat("ogg", "video", ("ogv",), ("ogg",)),
    MediaFormat("m4a", "audio", ("m4a",), ("mov",), also_holds=("mp4", "mov")),
    MediaFormat("aac", "audio", ("aac",), ("aac",)),
    MediaFormat("mp2", "audio", ("mp2",), ("mp3",), also_holds=("mp3",)),
    MediaFormat("aiff", "audio", ("aiff", "aif"), ("aiff",)),
    MediaFormat("asf", "audio", ("wma",), ("asf",)),
    MediaFormat("sphere", "audio", ("sph",), ("nistsphere",)),
    MediaFormat("au", "audio", ("au", "snd"), ("au",)),
    MediaFormat("caf", "audio", ("caf",), ("caf",)),
    MediaFormat("w64", "audio", ("w64",), ("w64",)),
)

FORMAT_BY_EXTENSION = {extension: each for each in MEDIA_FORMATS for extension in each.extensions}

#: Extensions of media, also of formats that wdsctl does not decode.
MEDIA_EXTENSIONS = frozenset(FORMAT_BY_EXTENSION)

#: Format as `sniff` calls it -> the usual extension.
USUAL_EXTENSION = {each.name: each.extensions[0] for each in reversed(MEDIA_FORMATS)}

#: Pillow's names of the image formats that wdsctl opens. It opens no others: some readers run programs (EPS calls
#: Ghostscript), and each one is open to attack.
PILLOW_FORMATS = tuple(reader for each in MEDIA_FORMATS if each.media_type == "image" for reader in each.readers)


def media_extensions(media_type: MediaType) -> tuple[str, ...]:
    """Return all extensions of a media type, the likeliest first."""
    return tuple(name for name, each in FORMAT_BY_EXTENSION.items() if each.media_type == media_type)


def decodable_extensions(media_type: MediaType) -> frozenset[str]:
    """Return the extensions of a media type that the loader decodes."""
    return frozenset(name for name in media_extensions(media_type) if FORMAT_BY_EXTENSION[name].readers)


def has_reader(format_name: str) -> bool:
    """Whether wdsctl decodes a format, as `sniff` calls it; True for formats that are no media."""
    found = [each for each in MEDIA_FORMATS if each.name == format_name]
    return not found or any(each.readers for each in found)


def decoder_package(format_name: str) -> str:
    """Return the package on PyPI that decodes a format for which `has_reader` is False."""
    return next(each.decoder_package for each in MEDIA_FORMATS if each.name == format_name)


def transcode_targets(media_type: MediaType) -> dict[str, MediaFormat]:
    """Return the formats that transcoding can write, by the name in its options.

    The name is the format of an image, or the usual extension of audio.
    """
    return {
        each.name if media_type == "image" else each.extensions[0]: each
        for each in MEDIA_FORMATS
        if each.encoder and each.media_type == media_type
    }


PartKind = Literal["text", "integer", "json", "lines", "npy", "npz", "torch", "image", "video", "audio", "other"]

MEDIA_KINDS: frozenset[PartKind] = frozenset(("image", "video", "audio"))
ARRAY_KINDS: frozenset[PartKind] = frozenset(("npy", "npz", "torch"))

#: The other extensions that the loader decodes (`wdsctl/loader/decoding/parts.py`).
EXTENSIONS_BY_KIND: dict[PartKind, tuple[str, ...]] = {
    "text": ("txt", "text", "transcript", "caption", "srt", "vtt", "md", "html", "xml", "csv", "tsv"),
    "integer": ("cls", "cls2", "index", "inx", "id"),
    "json": ("json", "jsn"),
    "lines": ("jsonl", "ndjson"),
    "npy": ("npy",),
    "npz": ("npz",),
    "torch": ("pth", "pt"),
}
_KIND_BY_EXTENSION: dict[str, PartKind] = {
    **{name: kind for kind, names in EXTENSIONS_BY_KIND.items() for name in names},
    **{name: each.media_type for name, each in FORMAT_BY_EXTENSION.items() if each.readers},
}

#: Extensions of files that are not media, whatever their content.
_OTHER = (
    "txt json jsonl ndjson csv tsv xml html htm md yaml yml cls cls2 id index idx npy npz pth pt pkl pickle "
    "safetensors msgpack mp tok tokens caption url parquet"
)
OTHER_EXTENSIONS = frozenset(_OTHER.split())

#: Bytes: the largest part that wdsctl and the loader decode as a whole.
MAX_DECODABLE_BYTES = 1 << 30

#: Pixels of the largest image that wdsctl and the loader decode. Twice `PIL.Image.MAX_IMAGE_PIXELS`, the limit at which
#: Pillow raises an error.
MAX_IMAGE_PIXELS = 178_956_970


def part_kind(part: str) -> PartKind:
    """Return what the loader decodes a part to, by its last extension in any case: `image` for `seg.PNG`."""
    return _KIND_BY_EXTENSION.get(part.rpartition(".")[2].lower(), "other")
