"""The form of a state: what `wdsctl.core.job_state` says of each field, checked.

A state is checked at each restore and each merge, so this is quick: types are compared, not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wdsctl.core.printable import short

State = dict[str, Any]

LARGEST = 1 << 62  # of a count: what arithmetic in 64 bits holds
MOST_RANKS = 1 << 20

_CURSOR = frozenset({"picks", "stream", "mix", "bans"})
_PLAIN = frozenset({int, str, bool, float, type(None)})


def wrong_with(state: State) -> str:
    """What is wrong with a state that has all its fields, or nothing. Some 60 µs with 8 lanes."""
    return (
        _wrong_counts(state)
        or _wrong_rank(state)
        or _wrong_plan(state["plan"])
        or _wrong_lanes(state)
        or _wrong_cursors(state)
    )


def lanes_of(state: Mapping[str, Any]) -> range:
    """The lanes that a state speaks for: all of the job, or those of its rank, by the turns of the geometry. In a pass,
    lane l is always of rank l mod world."""
    count, world = len(state["lanes"]), state["world"]
    if state["kind"] == "world":
        return range(count)
    if state.get("pass") is not None:
        return range(state["rank"], count, world)
    return range((state["drawn"] - state["base"] + state["rank"]) % world, count, world)


def _wrong_counts(state: State) -> str:
    for field in ("world", "drawn", "virtual", "base"):
        if not _counts(state[field]):
            return f"{field!r} is {short(state[field])}, and no count"
    if state["pass"] is not None and not _counts(state["pass"]):
        return f"'pass' is {short(state['pass'])}, and neither a count nor null"
    if "end" in state and state["end"] not in ("open", "reached", "passed"):
        return f"'end' is {short(state['end'])}, and neither 'open' nor 'reached' nor 'passed'"
    if not isinstance(state["generation"], list) or not all(map(_counts, state["generation"])):
        return f"'generation' is {short(state['generation'])}, and no list of counts"
    if not _is_lists(state["bans"]) or not all(_is_ban(each) for entry in state["bans"] for each in entry):
        return f"'bans' is {short(state['bans'])}, and no list of lists of samples"
    return ""


def _wrong_rank(state: State) -> str:
    kind, rank, world = state["kind"], state["rank"], state["world"]
    if world > MOST_RANKS:
        return f"'world' is {world:,}, and a job has at most {MOST_RANKS:,} ranks"
    if kind not in ("rank", "world"):  # a tuple: what is no text may have no hash
        return f"'kind' is {short(kind)}, and neither 'rank' nor 'world'"
    if type(rank) is not int or world < 1 or not (0 <= rank < world if kind == "rank" else rank == -1):
        return f"'rank' is {short(rank)}, of {world} in a state of kind {kind!r}"
    return ""


def _wrong_plan(plan: Any) -> str:
    if not isinstance(plan, dict) or not {"order", "recipe", "shape"} <= plan.keys():
        return f"'plan' is {short(plan)}, and has no order, recipe and shape"
    if not isinstance(plan["order"], dict) or not _is_json(plan["order"]):
        return "the plan's 'order' is no JSON object"
    if not isinstance(plan["recipe"], str) or not _are_texts(plan["shape"]):
        return "the plan's 'recipe' is no text, or its 'shape' no list of texts"
    stores = plan.get("aux", {})
    if not isinstance(stores, dict) or not _are_texts([*stores, *stores.values()]):
        return "the plan's 'aux' is no JSON object of texts"
    return ""


def _wrong_lanes(state: State) -> str:
    lanes = state["lanes"]
    if not isinstance(lanes, list):
        return f"'lanes' is {short(lanes)}, and no list"
    for i, lane in enumerate(lanes):
        is_lane = type(lane) is list and len(lane) == 2 and _counts(lane[0]) and type(lane[1]) is list
        if not is_lane or (lane[1] and not all(map(_is_cut, lane[1]))):
            return f"lane {i} is {short(lane)}, and not [root, [[picks, children, child], ...]]"
    if not lanes:
        return ""
    if state["pass"] is None and len(lanes) % state["world"]:
        return f"{len(lanes)} lanes cannot have been dealt to {state['world']} ranks"
    if state["pass"] is None and state["drawn"] < state["base"]:
        return f"its lanes began at batch {state['base']} of the world, after batch {state['drawn']} where it was saved"
    return ""


def _wrong_cursors(state: State) -> str:
    cursors, lanes = state["cursors"], state["lanes"]
    if not isinstance(cursors, dict) or not all(_is_number(number) for number in cursors):
        return "'cursors' is no JSON object whose keys are numbers"
    if not lanes:
        return "" if _is_json(cursors) else "'cursors' holds what is no JSON"
    own = set(lanes_of(state))
    there = {int(number) for number in cursors}
    if there != own:
        whose = f"of rank {state['rank']} " if state["kind"] == "rank" else ""
        missing, odd = sorted(own - there), sorted(there - own)
        return f"lanes {missing} {whose}are missing" if missing else f"lanes {odd} are no lanes {whose}here"
    for number, cursor in cursors.items():
        wrong = _wrong_cursor(cursor, lanes[int(number)], len(state["bans"]))
        if wrong:
            return f"lane {number}: {wrong}"
    return ""


def _wrong_cursor(cursor: Any, lane: Any, bans: int) -> str:
    if type(cursor) is not dict or not cursor.keys() >= _CURSOR:
        return f"its cursor is {short(cursor)}, and has no picks, stream, mix and bans"
    levels = 1
    for cut in lane[1]:
        levels += cut[2] > 0
    mix, since = cursor["mix"], cursor["bans"]
    if not _counts(cursor["picks"]):
        wrong = f"'picks' is {short(cursor['picks'])}, and no count"
    elif type(cursor["stream"]) is not dict or not _is_json(cursor["stream"]):
        wrong = "'stream' is no JSON object"
    elif not _is_lists(mix) or not all(level and _are_pairs(level) for level in mix):
        wrong = f"'mix' is {short(mix)}, and no list of lists of [segment, pick]"
    elif not _counts(cursor.get("turns", 0)):
        wrong = f"'turns' is {short(cursor['turns'])}, and no count"
    elif len(mix) != levels:
        wrong = f"'mix' has {len(mix)} levels, and the lane's cuts make {levels}"
    elif not _is_lists(since) or not _are_pairs(since) or any(entry >= bans for entry, _ in since):
        wrong = f"'bans' is {short(since)}, and no list of [entry, pick]"
    else:
        wrong = ""
    return wrong


def _counts(value: Any) -> bool:
    return type(value) is int and 0 <= value < LARGEST


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_lists(value: Any) -> bool:
    if type(value) is not list:
        return False
    for each in value:  # noqa: SIM110 - a generator costs as much as all the rest
        if type(each) is not list:
            return False
    return True


def _are_pairs(lists: list[list[Any]]) -> bool:
    for each in lists:
        if type(each) is not list or len(each) != 2 or not (_counts(each[0]) and _counts(each[1])):
            return False
    return True


def _is_cut(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_counts, value)) and value[2] < value[1] > 1


def _is_ban(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and _are_pairs([value]))


def _is_number(text: Any) -> bool:
    return isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 20 and str(int(text)) == text


def _is_json(value: Any) -> bool:
    """Whether a value is what JSON has, all the way down. Without recursion: it may come from anywhere."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        kind = type(each)
        if kind is dict:
            for key, inner in each.items():
                if type(key) is not str:
                    return False
                if type(inner) is not int:
                    waiting.append(inner)
        elif kind is list:
            waiting += [inner for inner in each if type(inner) is not int]
        elif kind not in _PLAIN:
            return False
    return True
