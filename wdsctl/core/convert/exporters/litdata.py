"""Write LitData chunks for `litdata.StreamingDataset`: `chunk-*.bin` and an index.json, as `litdata.optimize` does.

An item is a dict with one field per part, and `__key__`. A field has the type that LitData decodes: jpeg, image (PNG,
WebP), str, json, bytes; int and float on request. All stored bytes are those of the part, so that `--from litdata`
restores them. All items of a folder have the same fields: a part that some samples lack is empty there (`null` for
JSON), and a field `__parts__` lists the parts of each sample.

Source: https://github.com/Lightning-AI/litData (README), and files that its writer produces (litdata 0.2.76).
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, BinaryIO, cast

from wdsctl.core.convert.exporters import PartPresence, WrittenUnit
from wdsctl.core.convert.exporters.spool import unstorable_part_error
from wdsctl.core.dataset.location import quote_shell_word
from wdsctl.core.errors import DatasetError, UsageError, translate_os_errors
from wdsctl.core.files import fsync_path, write_text
from wdsctl.core.importers.common.files import TEXT_PARTS, part_extension
from wdsctl.core.importers.common.samples import FILES_COLUMN
from wdsctl.core.importers.common.values import check_format_options, parse_list_option
from wdsctl.core.importers.protocol import FilePart, Options, Part
from wdsctl.core.json_text import read_json
from wdsctl.core.media.kinds import FORMAT_BY_EXTENSION
from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.samples.naming import KEY_COLUMN, PARTS_COLUMN
from wdsctl.core.shards.in_place.kinds import INDEX_FILE

_MAX_CHUNK_BYTES = (1 << 32) - 1  # offsets have 32 bits
_MEMORY_BYTES = 32 << 20  # larger chunks go through a temporary file
_OPTIONS = ("binary", "int", "float")
#: Formats of images that LitData decodes: name in `FORMAT_BY_EXTENSION` -> LitData's type.
_IMAGE_TYPES = {"jpeg": "jpeg", "png": "image:png", "webp": "image:webp"}
_MAX_TAG = 0x20  # LitData takes JSON whose first byte is not larger for its own packed values


@dataclass(frozen=True)
class LitDataExporter:
    """Options: `-O binary=txt,json` stores these parts as bytes; `int=cls` and `float=score` store numbers.

    `parts`: those of the folder; `types`: their LitData types, with those of the other fields.
    """

    name: str = "litdata"
    about: str = "LitData chunks and their index, for StreamingDataset"
    suffix: str = ".bin"
    template: str = "chunk-0-{index}.tar"
    parts: PartPresence = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)

    def check(self, options: Options) -> None:
        check_format_options(self.name, options, _OPTIONS)

    def check_options(self, parts: Collection[str], options: Options) -> None:
        """Raises UsageError for a part that no sample has, and a part in two options."""
        chosen: dict[str, str] = {}
        for option in _OPTIONS:
            for name in parse_list_option(options, option):
                if name not in parts:
                    raise UsageError(
                        f"litdata: no sample has the part {name!r} of the option {option}",
                        hint=f"{did_you_mean(name, parts)} the parts are {', '.join(sorted(parts))}".strip(),
                    )
                if chosen.setdefault(name, option) != option:
                    raise UsageError(
                        f"litdata: the options {chosen[name]} and {option} both name the part {name!r}",
                        hint="name the part in one of them",
                    )

    def with_parts(self, parts: PartPresence, options: Options) -> LitDataExporter:
        """Raises DatasetError WDS237 for a reserved name, and for a number that some samples lack."""
        kinds = {"binary": "bytes", "int": "int", "float": "float"}
        chosen = {name: kind for option, kind in kinds.items() for name in parse_list_option(options, option)}
        types = {}
        for name, is_in_all in sorted(parts.items()):
            if name in (KEY_COLUMN, FILES_COLUMN, PARTS_COLUMN):
                raise _part_error(name, "has a reserved name", "rename the part: `--rename-part OLD=NEW`")
            if chosen.get(name) in ("int", "float") and not is_in_all:
                hint = f"omit `-O {quote_shell_word(f'to.{chosen[name]}={name}')}`, or select samples that have it"
                raise _part_error(name, "is missing in some samples, and a number cannot be empty", hint)
            types[name] = chosen.get(name) or _litdata_type(name, is_in_all=is_in_all)
        if not all(parts.values()):
            types[PARTS_COLUMN] = "json"
        # The last field: LitData looks for a signature at the end of a chunk, and a key never has its NUL bytes.
        types[KEY_COLUMN] = "str"
        return replace(self, parts=parts, types=types)

    def write(self, path: str, samples: Iterable[tuple[str, Iterator[Part]]], options: Options) -> WrittenUnit:  # noqa: ARG002
        offsets = [0]
        with (
            translate_os_errors(path),
            cast("BinaryIO", tempfile.SpooledTemporaryFile(_MEMORY_BYTES, dir=os.path.dirname(path) or ".")) as body,
        ):
            size = 0
            for key, parts in samples:
                for chunk in self._encode_item(key, {part.name: part for part in parts}):
                    size += body.write(chunk)
                if size + 4 * (len(offsets) + 2) > _MAX_CHUNK_BYTES:
                    raise DatasetError(
                        "the chunk would exceed 4 GiB, the limit of its 32-bit offsets",
                        hint="write smaller chunks: `--shard-size 64MB`",
                        where=f"sample {key!r}",
                        code="WDS237",
                    )
                offsets.append(size)
            head = 4 * (len(offsets) + 1)
            table = struct.pack(f"<{len(offsets) + 1}I", len(offsets) - 1, *(head + offset for offset in offsets))
            digest = blake2b(table, digest_size=16)
            with open(path, "xb") as file:
                file.write(table)
                body.seek(0)
                _copy_hashed(body, file, digest)
            fsync_path(path)
        facts = {"digest": digest.hexdigest(), "config": self._config()}
        return WrittenUnit(os.path.basename(path), len(offsets) - 1, head + size, json.dumps(facts, sort_keys=True))

    def finish(self, folder: str, units: Iterable[WrittenUnit], options: Options) -> None:  # noqa: ARG002 - of the protocol
        """Write index.json from the facts of the units.

        `updated_at` names LitData's cache of the dataset. It is a digest of the chunks, not a time: other content gets
        another cache, and the same content the same bytes.
        """
        chunks, digest = [], blake2b(digest_size=16)
        config: Any = None
        for unit in units:
            facts = read_json(unit.facts)
            config = config or facts["config"]
            digest.update(facts["digest"].encode())
            chunks.append(
                {"chunk_bytes": unit.size_bytes, "chunk_size": unit.samples, "dim": None, "filename": unit.name}
            )
        index = {"chunks": chunks, "config": config, "updated_at": digest.hexdigest(), "written_by": "wdsctl"}
        write_text(os.path.join(folder, INDEX_FILE), json.dumps(index, sort_keys=True))

    def _encode_item(self, key: str, parts: Mapping[str, Part | FilePart]) -> Iterator[bytes]:
        """The bytes of an item: the sizes of its fields, then the fields."""
        other = next((name for name in parts if name not in self.parts), None)
        if other is not None:
            raise unstorable_part_error(key, other, "is not in the listing of its source, so it has no field")
        fields = [_encode_field(key, name, kind, parts) for name, kind in self.types.items()]
        sizes = [each.size if isinstance(each, FilePart) else len(each) for each in fields]
        if max(sizes) > _MAX_CHUNK_BYTES:
            name = list(self.types)[sizes.index(max(sizes))]
            raise unstorable_part_error(key, name, f"has {max(sizes):,} bytes")
        yield struct.pack(f"<{len(sizes)}I", *sizes)
        for each in fields:
            if isinstance(each, FilePart):
                yield from each.chunks()
            else:
                yield each

    def _config(self) -> dict[str, Any]:
        leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
        spec = {
            "type": "builtins.dict",
            "context": json.dumps(list(self.types)),
            "children_spec": [leaf] * len(self.types),
        }
        return {
            "chunk_bytes": None,
            "chunk_size": None,
            "compression": None,
            "compression_batch_size": None,
            "compression_level": None,
            "data_format": list(self.types.values()),
            "data_spec": json.dumps([1, spec]),
            "encryption": None,
            "ipc_compression": None,
            "item_loader": "PyTreeLoader",
            "types": {name: kind.partition(":")[0] for name, kind in self.types.items()},
        }


EXPORTER = LitDataExporter()


def _litdata_type(part: str, *, is_in_all: bool) -> str:
    """The LitData type of a part, by its name. An empty value is no image: images that some samples lack are bytes."""
    extension = part_extension(part)
    image = FORMAT_BY_EXTENSION.get(extension)
    if image and is_in_all and image.name in _IMAGE_TYPES:
        return _IMAGE_TYPES[image.name]
    return "json" if extension == "json" else "str" if extension in TEXT_PARTS else "bytes"


def _encode_field(key: str, name: str, kind: str, parts: Mapping[str, Part | FilePart]) -> bytes | FilePart:
    """The bytes of a field; a large part that stays as it is, unread. Empty, or null, if the sample lacks the part."""
    if name == KEY_COLUMN:
        return _encode_key(key)
    if name == PARTS_COLUMN:
        return json.dumps(sorted(parts)).encode()
    if name not in parts:
        return b"null" if kind == "json" else b""
    part = parts[name]
    return part if kind == "bytes" and isinstance(part, FilePart) else _encode_value(key, name, part.data, kind)


def _encode_key(key: str) -> bytes:
    try:
        return key.encode()
    except UnicodeEncodeError as error:
        raise DatasetError(
            "the key is not UTF-8, which this format cannot store",
            hint="use `--to folder`, which keeps names of any bytes",
            where=f"sample {key!r}",
            code="WDS237",
        ) from error


def _encode_value(key: str, name: str, data: bytes, kind: str) -> bytes:
    """The bytes of a field. Raises DatasetError WDS237 if LitData would give another value, or none."""
    if kind not in ("str", "json", "int", "float"):
        return data
    try:
        text = data.decode()
        if kind == "json":
            _check_json(text)
        elif kind == "int":
            return _encode_int(text)
        elif kind == "float":
            return _encode_float(text)
    except UnicodeDecodeError as error:
        raise _unreadable_error(key, name, "is not UTF-8", "binary") from error
    except (ValueError, OverflowError) as error:
        if kind == "json":
            raise _unreadable_error(key, name, f"is not JSON that LitData reads ({error})", "binary") from error
        why = f"is {text[:40]!r}, and not a{'n' if kind == 'int' else ''} {kind} in its shortest form"
        raise unstorable_part_error(
            key, name, why, f"omit `-O {quote_shell_word(f'to.{kind}={name}')}`: the part is then a text"
        ) from error
    return data


def _check_json(text: str) -> None:
    """Raises ValueError for JSON of which LitData would make something else: it uses orjson if that is installed."""
    if not text or ord(text[0]) <= _MAX_TAG:
        raise ValueError("it is empty, or begins with a blank")
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_int=_parse_int)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()  # raises for half a surrogate pair


def _refuse_constant(name: str) -> float:
    raise ValueError(f"it has the number {name}")


def _parse_int(text: str) -> int:
    number = int(text)
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError(f"it has a number of more than 64 bits, {text[:30]}")
    return number


def _encode_int(text: str) -> bytes:
    """Eight bytes. Raises ValueError unless reading them gives the same text again."""
    number = int(text)
    if str(number) != text or not -(1 << 63) <= number < 1 << 63:
        raise ValueError("the text would change")
    return struct.pack("<q", number)


def _encode_float(text: str) -> bytes:
    number = float(text)
    if repr(number) != text:
        raise ValueError("the text would change")
    return struct.pack("<d", number)


def _unreadable_error(key: str, name: str, why: str, option: str) -> DatasetError:
    return unstorable_part_error(
        key, name, why, f"pass `-O {quote_shell_word(f'to.{option}={name}')}` to store the part as bytes"
    )


def _part_error(name: str, why: str, hint: str) -> DatasetError:
    return DatasetError(f"the part {name!r} {why}, which this format cannot store", hint=hint, code="WDS237")


def _copy_hashed(source: BinaryIO, file: BinaryIO, digest: Any) -> None:
    while block := source.read(1 << 20):
        digest.update(block)
        file.write(block)
