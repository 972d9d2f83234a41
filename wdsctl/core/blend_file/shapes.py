"""Which kind of node stands somewhere, and which keys it may have."""

from __future__ import annotations

from wdsctl.core.blend_file.around import COMMON
from wdsctl.core.blend_file.nodes import Node
from wdsctl.core.blend_file.problems import DOC, called, suggestion, unknown_key, wrong

#: The key that makes a node what it is, and the others that it may have. `datasets` is V1's word for blend.
KINDS: dict[str, tuple[str, ...]] = {
    "path": ("dataset_config", "split_config", "aux", "subflavor"),
    "blend": ("weight_by", "schedule"),
    "datasets": ("weight_by", "schedule"),
    "blend_epochized": (),
    "concat": (),
    "join": ("joiner", "nonmatch"),
}

#: What an entry of a list may have besides.
ENTRY: dict[str, tuple[str, ...]] = {
    "blend": ("weight", "name"),
    "datasets": ("weight", "name"),
    "blend_epochized": ("repetitions", "name"),
    "concat": ("name",),
    "join": ("nonmatch",),
}

_CLASS = ("__module__", "__class__")
_CLASSES = ("MetadatasetV2", "Metadataset")
_OF_DATASET = frozenset({"sample_type", "field_map"})
_HINT = "write one of path, blend, blend_epochized, concat, join"


def kind_of(node: Node, entry_of: str = "") -> str:
    """The key of KINDS that the node has; all its other keys are known ones. `entry_of`: the list that it stands in."""
    check_mapping(node)
    kinds: list[str] = [key for key in node.value if key in KINDS]
    extra = ENTRY.get(entry_of, ())
    known = [*extra, *COMMON, *(kinds or KINDS), *(key for kind in kinds or KINDS for key in KINDS[kind])]
    for key in node.value:
        if key not in known:
            raise unknown_key(key, node.at(key), dict.fromkeys(known))
    if len(kinds) != 1:
        message = " and ".join(kinds) + " exclude each other" if kinds else "there is no path and no blend"
        raise wrong(message, node.at(kinds[-1]) if kinds else node.place, hint=_HINT)
    return kinds[0]


def check_mapping(node: Node) -> None:
    if not isinstance(node.value, dict):
        raise wrong(f"expected a mapping with path or blend, found {called(node.value)}", node.place, hint=_HINT)


def part_of_file(node: Node, split_part: str) -> tuple[Node, str]:
    """The node of a split, in what stands at the top of a file, and the split's name.

    A file without `splits:` is one node for every split. Raises DatasetError WDS606 if there is no such split.
    """
    if not isinstance(node.value, dict):
        raise wrong(f"expected `splits:`, found {called(node.value)}", node.place, hint="write splits: {train: ...}")
    _check_class(node)
    _check_blend(node)
    if "splits" not in node.value:
        keys = {key: value for key, value in node.value.items() if key not in _CLASS}
        return Node(keys, node.place, node.keys), split_part
    for key in node.value:
        if key not in ("splits", *_CLASS):
            raise unknown_key(key, node.at(key), ("splits", *_CLASS))
    splits = node.value["splits"]
    if not isinstance(splits.value, dict) or not splits.value:
        message = f"splits: expected a mapping of names, found {called(splits.value or None)}"
        raise wrong(message, node.at("splits"), hint="write splits: {train: ...}")
    if split_part not in splits.value:
        message = f"splits: there is no split {split_part!r}{suggestion(split_part, splits.value)}"
        hint = f"the splits here are {', '.join(splits.value)}"
        raise wrong(message, node.at("splits"), hint=hint, code="WDS606")
    return splits.value[split_part], split_part


def _check_blend(node: Node) -> None:
    """Raise DatasetError WDS600 for a file that is about something else: it has no key of a blend file at all."""
    known, keys = ("splits", *KINDS), [*node.value]
    is_config = not _OF_DATASET.isdisjoint(keys)
    if not keys or any(key in known or (key in (*COMMON, *_CLASS) and not is_config) for key in keys):
        return
    close = "" if is_config else next((said for key in keys if (said := suggestion(key, known))), "")
    about = f"{', '.join(map(repr, keys[:3]))}{', ...' * (len(keys) > 3)}"
    hint = f"one begins with `splits:`, or path, blend, concat, join: {DOC}"
    if is_config:
        hint = "it looks like a dataset.yaml: give the folder of the dataset"
    raise wrong(f"this is no blend file: it is about {about}{close}", node.place, hint=hint)


def _check_class(node: Node) -> None:
    module = node.value["__module__"].value if "__module__" in node.value else "megatron.energon"
    name = node.value["__class__"].value if "__class__" in node.value else "Metadataset"
    hint = "write `__module__: megatron.energon` and `__class__: MetadatasetV2`, or neither"
    if str(module).split(".")[0] not in ("megatron", "wdsctl"):
        raise wrong(f"__module__: {called(module)} is code of your own", node.at("__module__"), hint=hint)
    if name not in _CLASSES:
        close = suggestion(str(name), _CLASSES)
        raise wrong(f"__class__: {called(name)} is no class of blends{close}", node.at("__class__"), hint=hint)
