"""Split rules: how a set of splits is divided, and what no split contains, as values.

`rule` defines a rule and its form in the catalog, `dataset_yaml` its form in `dataset.yaml`. `shares` parses ratios and
divides items by them, `names` checks the names of splits and of split sets, `excludes` lists what no split contains.
`wdsctl/core/split` assigns samples by these rules. Every room from `dataset` up, and the command line, may import this
room.
"""

from __future__ import annotations
