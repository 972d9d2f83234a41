"""The blend file and the cooker that `convert --layout polylithic` writes next to primary and media."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from wdsctl.core.dataset.config import DatasetConfig, required_fields
from wdsctl.core.dataset.polylithic import REFERENCES_PART
from wdsctl.core.media.kinds import EXTENSIONS_BY_KIND
from wdsctl.core.samples.types import COMPOSED_TYPES, CRUDE, MEDIA_LIST_KINDS, SAMPLE_TYPES

_BLEND_TEMPLATE = """\
# Written by `wdsctl convert --layout polylithic`. The task encoder needs the cooker in cook.py beside this file:
#     class MyTaskEncoder(DefaultTaskEncoder):
#         cookers = (Cooker(cook),)
splits:
"""

_COOKER_TEMPLATE = '''\
"""Makes samples of the primary and its media. Written by `wdsctl convert --layout polylithic`; change it as you like.

    from wdsctl.loader import Cooker, DefaultTaskEncoder, get_train_dataset

    class MyTaskEncoder(DefaultTaskEncoder):
        cookers = (Cooker(cook),)

    get_train_dataset("blend.yaml", batch_size=8, task_encoder=MyTaskEncoder())
"""

from __future__ import annotations

{imports}from wdsctl.loader import {names}


{own}


{helpers}@cooker
def cook(sample, media):
{body}
'''

_FIELD_CODE = '''\
def field(sample, media, path, *, kind="any", optional=False):
    """The value of a field from the first of its alternatives, or the list of all parts that match; the parts are the
    primary's own and those of the media.
    """
    own, references = parts_of(sample)
    parsed = parse_field_path(path)
    names = find_parts(parsed, {**own, **references}, kind)
    parts = {name: own[name] if name in own else media.get(references[name], sample) for name in names}
    return extract_field(parsed, parts, kind=kind, **({"default": None} if optional else {}))


'''

_TAR_PARTS_CODE = f'''\
def parts_of(sample):
    """(the parts that the primary has, by name; part -> entry of the media)."""
    return sample, sample["{REFERENCES_PART}"]'''

_INTEGER_EXTENSIONS = ", ".join(f'"{each}"' for each in EXTENSIONS_BY_KIND["integer"])
_JSONL_PARTS_CODE = f'''\
def parts_of(sample):
    """(the parts that the line has, by name; part -> entry of the media)."""
    line = sample["json"]
    spelled = line.get("as", {{}})
    own = {{}}
    for name, value in line["parts"].items():
        if spelled.get(name) == "base64":
            value = b64decode(value)
        elif name.rpartition(".")[2] in ({_INTEGER_EXTENSIONS}):
            value = int(value)
        own[name] = value
    return own, line["media"]'''


def blend_yaml(splits: Sequence[str]) -> str:
    """The blend file for the splits of the default set, or `train` if there are none."""
    entries = "".join(
        f"  {json.dumps(name)}:\n    path: primary\n    aux: {{media: media}}\n" for name in splits or ("train",)
    )
    return _BLEND_TEMPLATE + entries


def cooker_code(config: DatasetConfig, primary_form: Literal["tar", "jsonl"]) -> str:
    """The code of the cooker, which builds the dataset's sample type, or else crude samples with all parts."""
    is_typed = config.sample_type in SAMPLE_TYPES and config.sample_type != CRUDE and bool(config.field_map)
    names = ["basic_sample_keys", "cooker", *([config.sample_type] if is_typed else [])]
    names += ["compose_fields"] if is_typed and config.sample_type in COMPOSED_TYPES else []
    own = _JSONL_PARTS_CODE if primary_form == "jsonl" else _TAR_PARTS_CODE
    imports = "from base64 import b64decode\n\n" if primary_form == "jsonl" else ""
    if is_typed:
        imports += "from wdsctl.core.samples.field_path import parse_field_path\n"
        imports += "from wdsctl.core.samples.fields import extract_field, find_parts\n"
    return _COOKER_TEMPLATE.format(
        names=", ".join(sorted(names, key=str.lower)),
        own=own,
        helpers=_FIELD_CODE if is_typed else "",
        body=_typed_body(config) if is_typed else _CRUDE_BODY,
        imports=imports,
    )


_CRUDE_BODY = f"""\
    own, references = parts_of(sample)
    mine = {{name: value for name, value in own.items() if not name.startswith("__") and name != "{REFERENCES_PART}"}}
    return {{
        **basic_sample_keys(sample),
        **mine,
        **{{name: media.get(entry, sample) for name, entry in references.items()}},
    }}"""


def _typed_body(config: DatasetConfig) -> str:
    needed = required_fields(config)
    kinds = {field.name: field.kind for field in SAMPLE_TYPES[config.sample_type]}
    lines = [f"    return {config.sample_type}(", "        **basic_sample_keys(sample),"]
    composes = config.sample_type in COMPOSED_TYPES
    if composes:
        lines += ["        **compose_fields(", f"            {config.sample_type},", "            {"]
    for name, source in config.field_map.items():
        options = f", kind={kinds[name]!r}" if kinds[name] in (*MEDIA_LIST_KINDS, "integer") else ""
        options += "" if name in needed else ", optional=True"
        value = f"field(sample, media, {source!r}{options}),"
        lines.append(f"                {name!r}: {value}" if composes else f"        {name}={value}")
    if composes:
        lines += ["            },", "        ),"]
    return "\n".join([*lines, "    )"])
