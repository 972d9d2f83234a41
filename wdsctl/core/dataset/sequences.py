"""The section `sequences` of dataset.yaml: samples are frames, which follow each other at a fixed rate.

The key of a frame is `SEQUENCE/NUMBER`; the frames of a sequence are neighbours in the shards, and their numbers have
no gaps. Without `features`, a frame has its parts. With `features`, it is a line of JSON, and has these of its values:
numbers as tensors, texts, images, which the line names by file and range of bytes, and frames of videos, which it names
by file and time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wdsctl.core.samples.fields import did_you_mean
from wdsctl.core.yaml_files.document import check_known_keys, config_error, describe_value, format_scalar, get_section

if TYPE_CHECKING:
    from wdsctl.core.yaml_files.document import YamlDocument

VIDEO, IMAGE, TEXT = "video", "image", "string"
FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
VALUE_DTYPES = (*FLOATS, *INTEGERS, "bool", TEXT)
_DTYPES = (*VALUE_DTYPES, IMAGE, VIDEO)
_REMARK = "# keys are SEQUENCE/NUMBER, one frame every 1/fps seconds; the loader reads time windows"


@dataclass(frozen=True, slots=True)
class SequenceConfig:
    """`fps`: frames per second. `features`: name -> dtype of the values in lines of JSON; empty: frames have parts."""

    fps: float
    features: dict[str, str] = field(default_factory=dict)


def parse_sequences(document: YamlDocument) -> SequenceConfig | None:
    """Parse the section; None without it. Raises DatasetError WDS220 with the line."""
    if document.data.get("sequences") is None:
        return None
    section = get_section(document, "sequences")
    check_known_keys(document, ("sequences",), ("fps", "features"))
    fps = section.get("fps")
    if isinstance(fps, bool) or not isinstance(fps, (int, float)) or not (math.isfinite(fps) and fps > 0):
        raise config_error(
            f"fps: expected a positive number, found {describe_value(fps)}",
            document.where("sequences", "fps"),
            hint="write the number of frames per second",
        )
    features = get_section(document, "sequences", "features")
    for name, dtype in features.items():
        if dtype not in _DTYPES:
            raise config_error(
                f"{name}: expected a dtype, found {describe_value(dtype)}",
                document.where("sequences", "features", name),
                hint=did_you_mean(str(dtype), _DTYPES) or f"choose one of {', '.join(_DTYPES)}",
            )
    return SequenceConfig(float(fps), features)


def format_sequences(config: SequenceConfig) -> str:
    """Format the section as YAML."""
    lines = [f"sequences:  {_REMARK}", f"  fps: {config.fps:.17g}"]
    if config.features:
        lines.append("  features:")
        lines += [f"    {format_scalar(name)}: {dtype}" for name, dtype in config.features.items()]
    return "\n".join(lines) + "\n"
