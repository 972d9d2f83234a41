"""Photographs to an S3 store, two ranks that train from it, killed and resumed, and two nodes that index it."""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from pathlib import Path

from demo import DemoError, example, print_step, run_demo, step, wdsctl

HERE = Path(__file__).resolve().parent
ROOT, STATES = "s3://corpora/photos", "s3://corpora/states"
STEPS, SAVE_EVERY, KILL_AT = 30, 10, 17
RANKS = 2


def main(argv: list[str] | None = None) -> int:
    return run_demo(demo, __doc__, "store", "--steps", STEPS, argv)


def demo(folder: Path, steps: int) -> None:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it prints every request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        os.environ.update(
            AWS_ENDPOINT_URL=f"http://{host}:{port}",
            AWS_ACCESS_KEY_ID="demo",
            AWS_SECRET_ACCESS_KEY="demo-secret",  # noqa: S106 - of a server of this machine
            AWS_DEFAULT_REGION="us-east-1",
            XDG_DATA_HOME=str(folder / "data-home"),
        )
        print_step(f"An S3 server runs at {os.environ['AWS_ENDPOINT_URL']}.")
        make_bucket()
        run(folder, steps)
    finally:
        server.stop()


def make_bucket() -> None:
    import fsspec

    fsspec.filesystem("s3").mkdir("corpora")


def run(folder: Path, steps: int) -> None:
    print_step("1. A raw folder on this machine, and its shards in the store.")
    example(folder, "make_raw_folder.py", "raw")
    wdsctl(folder, "prepare", "raw", ROOT, "--split", "8,1,1", "--shard-samples", "50", "--no-input")
    wdsctl(folder, "inspect", ROOT)
    print_step(f"2. Two ranks train {steps} steps from the store.")
    truth = [train(folder, f"{STATES}/one", rank, steps) for rank in range(RANKS)]
    print_step(f"3. Train again, kill each rank with SIGKILL at step {KILL_AT}, and run the same commands again.")
    for rank in range(RANKS):
        train(folder, f"{STATES}/two", rank, steps, kill_at=KILL_AT)
    again = [train(folder, f"{STATES}/two", rank, steps) for rank in range(RANKS)]
    first = KILL_AT - KILL_AT % SAVE_EVERY + 1  # after the last save
    for before, after in zip(truth, again, strict=True):
        if list(after) != list(range(first, steps + 1)) or any(after[each] != before[each] for each in after):
            raise DemoError("the resumed training has other batches")
    print(f"yes: on both ranks, steps {first} to {steps} have the very same batches as without the kill")
    wdsctl(folder, "checkpoint", "info", f"{STATES}/two")
    print_step("4. A Ray cluster of two nodes, both on this machine, indexes the shards from scratch.")
    index_with_ray(folder)


def train(folder: Path, states: str, rank: int, steps: int, *, kill_at: int = 0) -> dict[int, str]:
    script, options = "store/train_from_store.py", [ROOT, states, str(rank), str(RANKS), str(steps)]
    typed = ["python", f"examples/{script}", *options]
    lines = step(folder, typed, [sys.executable, str(HERE / script), *options], kill_at=kill_at)
    return {int(match[1]): match[2] for line in lines if (match := re.match(r"step +(\d+) (\w+)", line))}


def index_with_ray(folder: Path) -> None:
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            cluster.add_node(num_cpus=1)
            options = ["--executor", "ray", "--ray-address", str(cluster.address), "--catalog", "by-ray"]
            wdsctl(folder, "index", ROOT, *options)
            wdsctl(folder, "inspect", ROOT, "--catalog", "by-ray")
        finally:
            cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
