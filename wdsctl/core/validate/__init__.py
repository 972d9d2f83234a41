"""`wdsctl validate`: checks a dataset, or all datasets of a blend. Each level has a module.

`validate` picks `dataset` or `blend`; `run_checks` checks shards in parallel and reuses stored results; `unit` checks
one shard in a worker. The levels are `structure`, `headers`, `content`, `load` (by the loader's
`wdsctl/loader/plan/load_check.py`), `schema` (with `completed`), `refs` (with `ref_stores`) and `hashes`; a change of
what a level finds also raises `CHECKS_FORMAT_VERSION` in `run_checks`, or stored results of unchanged shards stay in
use. Problems that a scan detects, such as duplicate keys, come from `tar_findings` and `jsonl_findings` in
`core/shards`. `robot_media` checks the videos and images of a LeRobot dataset. `quarantine` excludes broken samples;
`ci_formats` writes SARIF and JUnit. The command line and the Python API import it.
"""

from __future__ import annotations
