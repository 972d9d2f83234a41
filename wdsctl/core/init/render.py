"""Fill the templates. Values of the data become literals of Python, YAML or a shell, and never code.

A template is a file of `templates`: a whole script, with `$name` where a value or a shared piece goes. Pieces have no
placeholders of their own, and what is filled in is not searched for any.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from pprint import pformat
from string import Template
from typing import Any

from wdsctl.core.init.kinds import TrainingKind
from wdsctl.core.yaml_files.document import dump_yaml

TEMPLATES_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")

#: Placeholders of scripts that are filled with the piece of the same name.
_PIECES = ("image", "padded", "decoder", "loop")

_DECODING = """\
# JPEG is decoded at a reduced size where that suffices; photographs are turned upright.
    decoder = SampleDecoder(image_decode="torchrgb8", min_side=SIDE, exif_orientation=True)"""
_LABELLED_DECODING = """\
# Photographs are turned as dataset.yaml says (`drawn_on`), so that their boxes fit.
    decoder = SampleDecoder(image_decode="torchrgb8")"""

_BLEND_NOTE = """\
# The datasets that train.py reads for each split, and the share of samples of each dataset.
#
# Add a dataset with samples of the same type as another entry below `blend`:
#
#   - path: /data/more        # a relative path begins at this file
#     weight: 2               # twice as many samples as an entry of weight 1
#
# docs/blend-files.md of wdsctl describes all keys.

"""


def read_template(name: str) -> str:
    with open(os.path.join(TEMPLATES_FOLDER, name), encoding="utf-8") as file:
        return file.read()


def render_script(
    kind: TrainingKind,
    constants: Mapping[str, tuple[Any, str]],
    *,
    messages: str = "",
    has_labels_on_images: bool = False,
) -> str:
    """The text of train.py. `constants`: name -> (value, remark). `messages`: the piece that yields turns, for vlm.

    `has_labels_on_images`: the images of texts (ocr) have boxes, which must fit them.
    """
    pieces = {name: read_template(f"{name}.py.txt").strip() for name in _PIECES}
    if messages:
        pieces["messages"] = read_template(f"messages_{messages}.py.txt").strip()
    lines = [_format_constant(name, value, remark) for name, (value, remark) in constants.items()]
    decoding = _LABELLED_DECODING if has_labels_on_images else _DECODING
    return Template(read_template(f"{kind}.py.txt")).substitute(pieces, constants="\n".join(lines), decoding=decoding)


def _format_constant(name: str, value: Any, remark: str) -> str:
    """An assignment. `remark`: a comment of ours, without text from the data."""
    if isinstance(value, Sequence) and len(value) > 1 and list(value) == list(range(len(value))):
        text = f"list(range({len(value)}))"
    else:
        text = pformat(value, width=110 - len(name), compact=True, sort_dicts=False)
        text = textwrap.indent(text, " " * (len(name) + 3)).lstrip()
    comment = f"  # {remark}" if remark else ""
    return f"{name} = {text}{comment}"


def render_blend_file(path: str, splits: Mapping[str, str]) -> str:
    """The text of blend.yaml. `splits`: name in the file -> the split of the dataset that it is."""
    return _BLEND_NOTE + dump_yaml(
        {
            "splits": {
                name: {
                    "blend": [
                        {"path": path, "weight": 1}
                        if split == name
                        else {"path": path, "split_part": split, "weight": 1}
                    ]
                }
                for name, split in splits.items()
            }
        }
    )


def render_readme(about: str, inspect_command: str) -> str:
    return Template(read_template("README.md.txt")).substitute(about=about, inspect=inspect_command)
