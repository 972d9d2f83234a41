"""The facts that a catalog keeps in its table `meta`, by name. What reads and writes them stands elsewhere."""

from __future__ import annotations

#: The field of JSON from which keys of lines come.
KEY_FIELD = "key_field"

#: Where keys of names with several dots end, if that was ever decided.
KEY_UNTIL = "key_until"

#: Which shards are chosen, and that new ones are hashed ("1").
SELECTION, HASHED = "selection", "hashed"

#: What the dataset holds on the whole.
TOTALS = "totals"

#: Rules of the sets of splits, what is excluded, what strata and groups have given, and what that was worked out from.
RULES, EXCLUDES, STRATA, GROUPS, MARK = "split_rules", "split_excludes", "split_strata", "split_groups", "split_mark"
OF_SPLITS = (RULES, EXCLUDES, STRATA, GROUPS, MARK)
