"""What is written beside a primary and its media, so that both are trained from together: a blend file and a cooker."""

from __future__ import annotations

import json
from collections.abc import Sequence

from wdsctl.core.convert.recipe import Recipe
from wdsctl.core.convert.references import REFERENCES
from wdsctl.core.dataset_yaml import DatasetConfig, needed_fields
from wdsctl.core.field_path import parse_field_path
from wdsctl.core.sample_types import CRUDE, SAMPLE_TYPES

_BLEND = """\
# Written by `wdsctl convert --layout polylithic`. The task encoder needs the cooker in cook.py beside this file:
#     class MyTaskEncoder(DefaultTaskEncoder):
#         cookers = (Cooker(cook),)
splits:
"""

_COOK = '''\
"""Makes samples of the primary and its media. Written by `wdsctl convert --layout polylithic`; change it as you like.

    from wdsctl.loader import Cooker, DefaultTaskEncoder, get_train_dataset

    class MyTaskEncoder(DefaultTaskEncoder):
        cookers = (Cooker(cook),)

    get_train_dataset("blend.yaml", batch_size=8, task_encoder=MyTaskEncoder())
"""

from __future__ import annotations

{imports}from wdsctl.loader import {names}


{own}


def field(sample, media, *ways, optional=False):
    """The first of these that the sample has: (part, steps into its JSON), its own or one of the media."""
    own, references = parts_of(sample)
    for part, steps in ways:
        if part in own:
            value = own[part]
        elif part in references:
            value = media.get(references[part], sample)
        else:
            continue
        try:
            for step in steps:
                value = value[step]
        except (LookupError, TypeError):
            continue
        return value
    if optional:
        return None
    raise KeyError(f"the sample has none of {{ways}}")


@cooker
def cook(sample, media):
{body}
'''

_OWN_TAR = f'''\
def parts_of(sample):
    """(the parts that the primary has, by name; part -> entry of the media)."""
    return sample, sample["{REFERENCES}"]'''

_OWN_LINES = '''\
def parts_of(sample):
    """(the parts that the line has, by name; part -> entry of the media)."""
    line = sample["json"]
    spelled = line.get("as", {})
    own = {}
    for name, value in line["parts"].items():
        if spelled.get(name) == "base64":
            value = b64decode(value)
        elif name.rpartition(".")[2] in ("cls", "cls2", "index", "inx", "id"):
            value = int(value)
        own[name] = value
    return own, line["media"]'''


def blend_text(splits: Sequence[str]) -> str:
    """The blend file: every split of the default set, or `train` where there are none."""
    entries = "".join(
        f"  {json.dumps(name)}:\n    path: primary\n    aux: {{media: media}}\n" for name in splits or ("train",)
    )
    return _BLEND + entries


def cook_text(config: DatasetConfig, recipe: Recipe) -> str:
    """The cooker: of the sample type that the dataset had, or of crude samples with all their parts."""
    is_typed = config.sample_type in SAMPLE_TYPES and config.sample_type != CRUDE and bool(config.field_map)
    names = sorted(["basic_sample_keys", "cooker", *([config.sample_type] if is_typed else [])], key=str.lower)
    own = _OWN_LINES if recipe.primary == "jsonl" else _OWN_TAR
    imports = "from base64 import b64decode\n\n" if recipe.primary == "jsonl" else ""
    return _COOK.format(names=", ".join(names), own=own, body=_typed(config) if is_typed else _CRUDE, imports=imports)


_CRUDE = f"""\
    own, references = parts_of(sample)
    mine = {{name: value for name, value in own.items() if not name.startswith("__") and name != "{REFERENCES}"}}
    return {{
        **basic_sample_keys(sample),
        **mine,
        **{{name: media.get(entry, sample) for name, entry in references.items()}},
    }}"""


def _typed(config: DatasetConfig) -> str:
    lines = [f"    return {config.sample_type}(", "        **basic_sample_keys(sample),"]
    needed = needed_fields(config)
    for name, source in config.field_map.items():
        ways = ", ".join(f"({each.part!r}, {each.steps!r})" for each in parse_field_path(source).alternatives)
        ways += "" if name in needed else ", optional=True"
        lines.append(f"        {name}=field(sample, media, {ways}),")
    return "\n".join([*lines, "    )"])
