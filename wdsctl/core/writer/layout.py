"""How the samples of a type are stored: which part holds which field. Checks each sample and makes its parts.

The first medium of a type is a part with only an extension (`jpg`), further ones begin with the name of their field
(`mask.png`, `images.0.jpg`). The first text is `txt`, a whole number `cls`, all other fields are keys of `json`. The
type alone decides, so all samples of a dataset are stored alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

from wdsctl.core.convert.parts import ImageTranscodeOptions, parse_image
from wdsctl.core.dataset.config import DatasetConfig
from wdsctl.core.errors import DatasetError, UsageError
from wdsctl.core.importers.protocol import FilePart, Part
from wdsctl.core.index.write_dataset_yaml import as_usage_errors
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION, MEDIA_EXTENSIONS, part_kind
from wdsctl.core.safe_open import FolderOpener
from wdsctl.core.samples.boxes import read_boxes
from wdsctl.core.samples.conversations import normalize_conversation
from wdsctl.core.samples.field_map import check_field, check_sample_type
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.samples.naming import KEY_COLUMN
from wdsctl.core.samples.preferences import normalize_preference
from wdsctl.core.samples.types import BOX_FORMATS, CRUDE, MEDIA_LIST_KINDS, SAMPLE_TYPES, is_custom_type
from wdsctl.core.text import short_repr
from wdsctl.core.writer.values import (
    PNG,
    MediaKind,
    encode_array,
    encode_integer,
    encode_media,
    encode_pixels,
    encode_strict_json,
    encode_text,
    is_picture,
    json_value,
    read_file,
    refuse,
)

KEY_NAMES = ("key", KEY_COLUMN)  # of a sample: not fields
_IMAGE_KINDS = ("image", "images")
_ITEM_KINDS: dict[str, MediaKind] = {"image": "image", "video": "video", "audio": "audio", "mask": "mask"}

_ENCODERS: dict[str, Callable[[str, Any], bytes]] = {
    "text": encode_text,
    "integer": encode_integer,
    "json": encode_strict_json,
    "npy": encode_array,
}

Target = Literal["media", "media list", "txt", "cls", "json"]


class FieldLayout(NamedTuple):
    """Where a field is stored. `prefix`: of the names of its media, such as `mask.`."""

    name: str
    kind: str
    required: bool
    target: Target
    prefix: str = ""


def field_layouts(sample_type: str) -> dict[str, FieldLayout]:
    """The layout of each field of a sample type."""
    layouts: dict[str, FieldLayout] = {}
    taken: set[str] = set()
    for name, kind, required, _ in SAMPLE_TYPES[sample_type]:
        target: Target = "json"
        prefix = ""
        if kind in _ITEM_KINDS:
            target, prefix = "media", f"{name}." if "media" in taken else ""
        elif kind in MEDIA_LIST_KINDS:
            target, prefix = "media list", f"{name}."
        elif kind == "text" and "txt" not in taken:
            target = "txt"
        elif kind == "integer" and "cls" not in taken:
            target = "cls"
        taken.add(target)
        layouts[name] = FieldLayout(name, kind, required, target, prefix)
    return layouts


@dataclass(slots=True)
class SampleLayout:
    """Checks samples of one type and makes their parts.

    `fields`: empty for CrudeSample. `encode`: by field, or by name of a part, how to encode pictures. `base`: the
    folder of files that texts name. `seen`: the fields that some sample had.
    """

    sample_type: str
    fields: Mapping[str, FieldLayout]
    encode: Mapping[str, ImageTranscodeOptions]
    base: FolderOpener
    seen: set[str]

    def close(self) -> None:
        self.base.close()

    def parts(self, sample: Mapping[str, Any]) -> list[Part | FilePart]:
        """The parts of a sample, sorted by name. Raises DatasetError WDS262 for values that do not fit."""
        parts: list[Part | FilePart] = []
        in_json: dict[str, Any] = {}
        fields, seen = self.fields, self.seen
        for name, value in sample.items():
            if value is None or name in KEY_NAMES:
                continue
            field = fields.get(name)
            if field is None:
                parts.append(self._extra_part(name, value))
                continue
            seen.add(name)
            target = field.target
            if target == "media":
                kind = _ITEM_KINDS[field.kind]
                parts.append(encode_media(name, field.prefix, kind, value, self.encode.get(name, PNG), self.base))
            elif target == "txt":
                parts.append(Part("txt", encode_text(name, value)))
            elif target == "cls":
                parts.append(Part("cls", encode_integer(name, value)))
            elif target == "json":
                in_json[name] = json_value(name, field.kind, value)
            else:
                parts += self._media_list(field, value)
        for name, field in fields.items():
            if field.required and sample.get(name) is None:
                self._refuse_missing(field, sample)
        self._check_composed(sample, in_json)
        if in_json:
            parts.append(Part("json", encode_strict_json("/".join(in_json), in_json)))
        parts.sort(key=_name)
        _check_names(parts)
        return parts

    def note_fields(self, sample: Mapping[str, Any]) -> None:
        """Remember the fields of a sample that a finished shard has."""
        self.seen.update(name for name, value in sample.items() if value is not None and name in self.fields)

    def _media_list(self, field: FieldLayout, value: Any) -> list[Part | FilePart]:
        if not isinstance(value, list | tuple):
            refuse(field.name, value, "a list of media", "pass [value] for a list of one")
        kind: MediaKind = MEDIA_LIST_KINDS[field.kind]
        encode = self.encode.get(field.name, PNG)
        return [
            encode_media(f"{field.name}[{i}]", f"{field.prefix}{i}.", kind, each, encode, self.base)
            for i, each in enumerate(value)
        ]

    def _extra_part(self, name: Any, value: Any) -> Part | FilePart:
        """A part that is no field: of a crude sample, or one whose name has a dot. Its extension says the format."""
        if not isinstance(name, str):
            raise UsageError(f"{short_repr(name)} is not the name of a field", hint="fields have texts as names")
        if self.fields:
            if "." not in name or name.partition(".")[0] in self.fields:
                self._refuse_field(name)
        elif not name or name.startswith("__"):
            check_field(CRUDE, name)
        if "/" in name or name.startswith(".") or name.endswith(".") or not name.isprintable():
            hint = "name it like an extension: `json`, `depth.npy`"
            raise DatasetError(f"{name!r} cannot name a part", hint=hint, code="WDS262")
        if isinstance(value, bytes | bytearray | memoryview):
            return Part(name, bytes(value))
        media = FORMAT_BY_EXTENSION.get(name.rpartition(".")[2].lower())
        if hasattr(value, "__fspath__") or (media is not None and isinstance(value, str)):
            return read_file(name, name, value, self.base)
        if media is not None and media.encoder and (is_picture(value) or hasattr(value, "__array__")):
            options = self.encode.get(name) or _parse_encoding(name, media.name)
            if options.format_name == media.name:
                return Part(name, encode_pixels(name, value, options))
        if part_kind(name) not in _ENCODERS:
            hint = f"give the part an extension that fits the value, such as '{name}.json', or pass bytes"
            refuse(name, value, "bytes or a Path", hint)
        return Part(name, _ENCODERS[part_kind(name)](name, value))

    def _refuse_field(self, name: str) -> None:
        try:
            with as_usage_errors():
                check_field(self.sample_type, name.partition(".")[0])
        except UsageError as error:
            error.hint = f"{error.hint}; leave it out, or store it as a part beside the fields, such as '{name}.json'"
            raise
        raise UsageError(
            f"{name!r} begins like the field {name.partition('.')[0]}",
            hint="choose another name for the part: names of this form hold the media of the field",
        )

    def _refuse_missing(self, field: FieldLayout, sample: Mapping[str, Any]) -> None:
        given = [str(name) for name in sample if name not in KEY_NAMES]
        what = "given None" if field.name in sample else f"not given (there are {', '.join(given) or 'no fields'})"
        clue = did_you_mean(field.name, given)
        raise DatasetError(
            f"{field.name}: {what}, but every {self.sample_type} needs it ({field.kind})",
            hint=f"{clue} pass the field, or skip this sample".strip(),
            code="WDS262",
        )

    def _check_composed(self, sample: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Check fields that belong together as the loader does."""
        if self.sample_type == "DetectionSample":
            read_boxes(values["boxes"])
            form = sample.get("box_format")
            if form is not None and form not in BOX_FORMATS:
                refuse("box_format", form, f"one of {', '.join(BOX_FORMATS)}", did_you_mean(form, BOX_FORMATS) or "")
        elif self.sample_type in ("ConversationSample", "PreferenceSample"):
            media = {name: list(sample.get(name) or ()) for name in ("images", "videos", "audios")}
            if self.sample_type == "PreferenceSample":
                texts = (values["prompt"], values["chosen"], values["rejected"])
                normalize_preference(*texts, **media, tools=values.get("tools"))
            else:
                normalize_conversation(values["messages"], **media, tools=values.get("tools"))

    def config(self, part_names: Collection[str]) -> DatasetConfig:
        """The sample type and field map of samples with these parts, for dataset.yaml."""
        field_map = {name: self._path(field, part_names) for name, field in self.fields.items() if name in self.seen}
        field_map = {name: path for name, path in field_map.items() if path}  # an empty list of media has no part
        optional = tuple(name for name in field_map if not self.fields[name].required)
        return DatasetConfig(self.sample_type, field_map, optional=optional)

    def _path(self, field: FieldLayout, part_names: Collection[str]) -> str:
        if field.target == "json":
            return f"json[{field.name}]"
        if field.target == "media list":
            return f"{field.prefix}*" if any(name.startswith(field.prefix) for name in part_names) else ""
        if field.target == "media":
            rests = (name.removeprefix(field.prefix) for name in part_names if name.startswith(field.prefix))
            return ",".join(f"{field.prefix}{rest}" for rest in sorted(rests) if rest in MEDIA_EXTENSIONS)
        return field.target


def sample_layout(sample_type: str, encode: Mapping[str, str] | None, base: str) -> SampleLayout:
    """The layout of a sample type. Raises UsageError for an unknown type or field, or an unknown encoding."""
    with as_usage_errors():
        check_sample_type(sample_type)
    if is_custom_type(sample_type):
        raise UsageError(
            f"the fields of {sample_type} are not known without running its code",
            hint=f"write {CRUDE}, then set sample_type and field_map in dataset.yaml",
        )
    fields = {} if sample_type == CRUDE else field_layouts(sample_type)
    options = {name: _parse_encoding(name, text) for name, text in (encode or {}).items()}
    for name in options:
        pictures = [each.name for each in fields.values() if each.kind in _IMAGE_KINDS]
        if fields and name not in pictures:
            raise UsageError(
                f"encode: {name!r} is not a field of {sample_type} with pictures",
                hint=f"{did_you_mean(name, pictures)} it has {', '.join(pictures) or 'none'}".strip(),
            )
    return SampleLayout(sample_type, fields, options, FolderOpener(base), set())


def _parse_encoding(name: str, text: str) -> ImageTranscodeOptions:
    try:
        return cast("ImageTranscodeOptions", parse_image(text or "png"))
    except UsageError as error:
        raise UsageError(error.message.replace("--image", f"encode[{name!r}]"), hint=error.hint) from error


def _name(part: Part | FilePart) -> str:
    return part.name


def _check_names(parts: Iterable[Part | FilePart]) -> None:
    last = ""
    for part in parts:
        if part.name == last:
            raise DatasetError(
                f"two values would be the part {last}",
                hint="give one of them another name, such as 'other.json'",
                code="WDS262",
            )
        last = part.name
    if not last:
        raise DatasetError("the sample has no fields", hint="skip this sample", code="WDS262")
