"""The way in: a path, a URL, a mapping or a `Blender`, and out comes a `BlendPlan`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from wdsctl.core.blend_file.around import Around, is_multiplier
from wdsctl.core.blend_file.expanding import expand
from wdsctl.core.blend_file.nodes import Node, from_mapping
from wdsctl.core.blend_file.parts import training_plan, validation_plan
from wdsctl.core.blend_file.plan import BlendPlan
from wdsctl.core.blend_file.problems import Place
from wdsctl.core.blend_file.texts import Texts
from wdsctl.core.errors import UsageError

Source = str | os.PathLike[str] | Mapping[str, Any]
Mode = Literal["train", "val"]


def read_blend(
    source: Source, *, split_part: str = "train", mode: Mode = "train", multiplier: int | None = 1
) -> BlendPlan:
    """The flat plan of a blend file, of the same as a mapping, or of a single dataset.

    Relative paths in a mapping are meant from the current folder. `mode="val"`: all leaves in order, once each, in one
    arm. `multiplier`: the caller's shuffle_over_epochs_multiplier, which those in the file multiply.
    Raises DatasetError (WDS600 to WDS606) with file, line and key; InputError where a blend file is missing. No
    dataset is opened, so paths of datasets may be wrong.
    """
    if mode not in ("train", "val"):
        raise UsageError(f"mode: expected train or val, found {mode!r}", hint='give mode="train" or mode="val"')
    if not is_multiplier(multiplier):
        hint = "give 1 or more passes, None for no shuffling, or -1 for drawing with replacement"
        raise UsageError(f"multiplier: expected a whole number, found {multiplier!r}", hint=hint)
    if not split_part:
        raise UsageError(f"split_part: expected a name, found {split_part!r}", hint='give split_part="train"')
    part = expand(_root(source), Around(os.getcwd(), split_part, multiplier), Texts())
    return training_plan(part) if mode == "train" else validation_plan(part)


def _root(source: Source) -> Node:
    if isinstance(source, Mapping):
        place = Place("mapping")
        return Node({"path": from_mapping(source, "mapping")}, place, {"path": place})
    try:
        path = os.fspath(source)
    except TypeError as error:
        hint = "give the path of a dataset or a blend file, or a mapping that says what a blend file would"
        raise UsageError(f"expected a path or a mapping, found {source!r:.60}", hint=hint) from error
    place = Place(path)
    return Node({"path": Node(path, place)}, place, {"path": place})
