"""From nodes to parts: references are followed, groups are put together, and every key finds its meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from wdsctl.core.beneath import check_store
from wdsctl.core.blend_file import shapes
from wdsctl.core.blend_file.amounts import amount
from wdsctl.core.blend_file.around import Around, mapping, text, within
from wdsctl.core.blend_file.joining import joined
from wdsctl.core.blend_file.nodes import Node
from wdsctl.core.blend_file.parts import Mix, Run, laid_end_to_end, mixed, shares
from wdsctl.core.blend_file.paths import aux_meant, folder_of, identity, is_blend_file, is_jsonl, meant
from wdsctl.core.blend_file.plan import Leaf, Segment, Stretch, Unit
from wdsctl.core.blend_file.problems import Place, called, suggestion, wrong
from wdsctl.core.blend_file.schedule import check_some, turns_of
from wdsctl.core.blend_file.texts import Texts
from wdsctl.core.urls import shown

_UNITS: tuple[Unit, ...] = ("samples", "tokens")
_ONE = Fraction(1)


def expand(node: Node, around: Around, texts: Texts, entry_of: str = "") -> Run | Mix:
    """`entry_of`: the key of the list that the node stands in."""
    kind = shapes.kind_of(node, entry_of)
    make: dict[str, Callable[[Node, Around, Texts, str], Run | Mix]] = {
        "path": _reference,
        "blend": _blend,
        "datasets": _blend,
        "blend_epochized": _in_order,
        "concat": _in_order,
        "join": _join,
    }
    return make[kind](node, within(around, node), texts, kind)


def _blend(node: Node, around: Around, texts: Texts, kind: str) -> Mix:
    entries = _entries(node, kind)
    place = node.at(kind)
    for key in ("weight_by", "schedule"):
        if key in node.value and not around.is_top:
            hint = "write it at the outermost blend, or make this entry a blend file of its own"
            raise wrong(f"{key} holds for a whole job, and this blend is part of another node", node.at(key), hint=hint)
    weights = [_amount(entry, "weight") for entry in entries]
    names = _names(entries)
    schedule = node.value.get("schedule")
    if schedule is None:
        check_some(weights, place)
    turns = turns_of(schedule, node.at("schedule"), names, weights) if schedule else []
    parts = [expand(entry, replace(around, is_top=False), texts, kind) for entry in entries]
    segments = tuple(Segment(turn.step, shares(parts, turn.weights)) for turn in turns)
    return replace(mixed(parts, turns[0].weights if turns else weights, place), unit=_unit(node), schedule=segments)


def _in_order(node: Node, around: Around, texts: Texts, kind: str) -> Run:
    runs = []
    entries = _entries(node, kind)
    _names(entries)
    for entry in entries:
        part = expand(entry, replace(around, is_top=False), texts, kind)
        if isinstance(part, Mix):
            raise wrong(
                f"a blend (at {part.place}) inside {kind}, which is an order with an end; a blend goes on for ever",
                entry.place,
                hint="turn it round: a blend whose entry is the epochized one; or make the inner one epochized too",
                code="WDS604",
            )
        runs.append((_amount(entry, "repetitions"), part))
    if not any(times for times, _ in runs):
        message = "repetitions: all repetitions are 0, so nothing would ever come"
        raise wrong(message, node.at(kind), hint="give at least one entry repetitions above 0", code="WDS602")
    return laid_end_to_end(runs, node.at(kind))


def _join(node: Node, around: Around, texts: Texts, kind: str) -> Run:
    inner = replace(around, is_top=False)
    return joined(node, inner, lambda entry, inside: expand(entry, inside, texts, kind))


def _reference(node: Node, around: Around, texts: Texts, kind: str) -> Run | Mix:
    path, place = node.value[kind], node.at(kind)
    if isinstance(path.value, dict):
        _forbid(node, ("dataset_config", "split_config", "aux"), "a blend")
        return _file(path, around, texts)
    target = meant(text(node, kind), around.folder)
    if is_blend_file(target):
        _forbid(node, ("dataset_config", "split_config", "aux"), "another blend file")
        opened = (*around.files, _not_open(target, around, place))
        return _file(texts.node(target, place), replace(around, folder=folder_of(target), files=opened), texts)
    if is_jsonl(target):
        _forbid(node, ("dataset_config", "split_config"), "a JSONL file")
    texts.count_reference(place)
    leaf = Leaf(
        path=target,
        split_part=around.split_part,
        subflavors=around.subflavors,
        multiplier=around.multiplier,
        dataset_config=_name(node, "dataset_config"),
        split_config=_name(node, "split_config"),
        aux=_aux(node, around),
        subsets=around.subsets,
        where=str(place),
    )
    return Run((Stretch(leaf),), place)


def _file(node: Node, around: Around, texts: Texts) -> Run | Mix:
    part, name = shapes.part_of_file(node, around.split_part)
    return expand(part, replace(around, split_part=name), texts)


def _not_open(path: str, around: Around, place: Place) -> tuple[str, str]:
    """The file and split that is to be opened. Raises DatasetError WDS601 if it is being read already."""
    key = (identity(path), around.split_part)
    if key in around.files:
        chain = [*around.files[around.files.index(key) :], key]
        message = "path: the blend files lead back: " + " -> ".join(f"{shown(file)} ({part})" for file, part in chain)
        raise wrong(message, place, hint="take one of these references out", code="WDS601")
    return key


def _entries(node: Node, kind: str) -> list[Node]:
    entries = node.value[kind].value
    if not isinstance(entries, list) or not entries:
        hint = "write a list of entries, each with a path"
        raise wrong(f"{kind}: expected a list, found {called(entries or None)}", node.at(kind), hint=hint)
    for entry in entries:
        shapes.check_mapping(entry)
    return entries


def _amount(entry: Node, key: str) -> Fraction:
    return amount(entry.value[key], key, entry.at(key)) if key in entry.value else _ONE


def _names(entries: list[Node]) -> list[str]:
    """Empty for those without one."""
    names = [text(entry, "name") if "name" in entry.value else "" for entry in entries]
    for i, (name, entry) in enumerate(zip(names, entries, strict=True)):
        if name and (name.isdecimal() or name in names[:i]):
            why = "looks like the number of an entry" if name.isdecimal() else "is the name of another entry too"
            raise wrong(f"name: {name!r} {why}", entry.at("name"), hint="give it another name")
    return names


def _unit(node: Node) -> Unit:
    if "weight_by" not in node.value:
        return "samples"
    said = text(node, "weight_by")
    for unit in _UNITS:
        if said == unit:
            return unit
    message = f"weight_by: expected samples or tokens, found {said!r}{suggestion(said, _UNITS)}"
    raise wrong(message, node.at("weight_by"), hint="samples is what holds without this key")


def _forbid(node: Node, keys: tuple[str, ...], what: str) -> None:
    for key in keys:
        if key in node.value:
            raise wrong(
                f"{key}: the path is {what}, which has none", node.at(key), hint="write it where the dataset is"
            )


def _name(node: Node, key: str) -> str | None:
    return text(node, key) if key in node.value else None


def _aux(node: Node, around: Around) -> dict[str, str]:
    """The stores by name. Raises PermissionDenied WDS409 where a file names one outside of its folder; a mapping that
    the user's program made may name any."""
    if "aux" not in node.value:
        return {}
    stores = {name: aux_meant(text(node.value["aux"], name), around.folder) for name in mapping(node, "aux")}
    for name, store in stores.items() if around.files else ():
        check_store(store, around.folder, str(node.value["aux"].at(name)))
    return stores
