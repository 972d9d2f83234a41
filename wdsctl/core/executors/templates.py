"""Scripts that run an array job under a scheduler: tasks, then merge, until no stage is left."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from wdsctl.core.executors.job_folder import Job

SchedulerName = Literal["slurm", "lsf", "kubernetes", "hf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTemplate:
    """A script for a scheduler."""

    scheduler: SchedulerName
    text: str


def write_template(job: Job, scheduler: SchedulerName) -> str:
    """Return a script for the scheduler, with comments on what to adapt. Tasks are numbered from 0.

    Tasks run with --trust-code, as machines may not have the record of who planned `job`: it must be `read_own_job`'s.
    """
    return _TEMPLATES[scheduler](job, shlex.quote(job.folder))


def _slurm(job: Job, folder: str) -> str:
    return f"""#!/bin/bash
# Run this script where `sbatch` works. Adapt the lines of #SBATCH, and activate your environment if needed.
# If a task fails, the merge names what is missing, and the script ends. Run it again: finished units stay.
set -eu
until wdsctl job status {folder} --quiet >/dev/null; do
  sbatch --wait --array=0-{job.tasks - 1} <<'TASK' || echo "a task failed: see its output" >&2
#!/bin/bash
#SBATCH --job-name=wdsctl
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH --time=04:00:00
#SBATCH --output=wdsctl-%A-%a.out
wdsctl job run {folder} --trust-code --workers "$SLURM_CPUS_PER_TASK" --quiet
TASK
  wdsctl job merge {folder}
done
"""


def _lsf(job: Job, folder: str) -> str:
    return f"""#!/bin/bash
# Run this script where `bsub` works. Adapt the options of bsub, and activate your environment if needed.
# LSF counts elements from 1; `wdsctl job run` reads LSB_JOBINDEX, and takes element 1 as task 0.
# If a task fails, the merge names what is missing, and the script ends. Run it again: finished units stay.
set -eu
until wdsctl job status {folder} --quiet >/dev/null; do
  bsub -K -J "wdsctl[1-{job.tasks}]" -n 4 -W 4:00 -o "wdsctl-%J-%I.out" \\
    wdsctl job run {folder} --trust-code --workers 4 --quiet || echo "a task failed: see its output" >&2
  wdsctl job merge {folder}
done
"""


def _kubernetes(job: Job, folder: str) -> str:
    return f"""# Adapt the image (with this version of wdsctl) and the volume, which all pods mount at the
# same path as the machine that plans and merges. Then, once for each stage:
#   kubectl apply -f job.yaml && kubectl wait --for=condition=complete --timeout=24h job/wdsctl
#   wdsctl job merge {folder}
#   kubectl delete job wdsctl
apiVersion: batch/v1
kind: Job
metadata:
  name: wdsctl
spec:
  completionMode: Indexed
  completions: {job.tasks}
  parallelism: {job.tasks}
  backoffLimit: {3 * job.tasks}
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: task
          image: REGISTRY/IMAGE
          command: ["wdsctl", "job", "run", "{_yaml_text(job.folder)}", "--trust-code", "--workers", "4", "--quiet"]
          resources:
            requests: {{cpu: "4", memory: 8Gi}}
          volumeMounts:
            - {{name: data, mountPath: /data}}
      volumes:
        - name: data
          persistentVolumeClaim: {{claimName: CLAIM}}
"""


def _yaml_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _hf(job: Job, folder: str) -> str:
    return f"""#!/bin/bash
# Hugging Face Jobs has no arrays: each task is a job of its own, with its number in WDSCTL_TASK.
# Adapt IMAGE (with this version of wdsctl) and VOLUME, which holds the data and the job folder. It must be mounted at
# the same path on the machine that plans and merges. Then, once for each stage, run this script, wait until
# `hf jobs ps` lists no task, and run: wdsctl job merge {folder}
set -eu
for task in $(seq 0 {job.tasks - 1}); do
  hf jobs run --detach --flavor cpu-upgrade --timeout 4h --env WDSCTL_TASK="$task" --volume VOLUME IMAGE \\
    wdsctl job run {folder} --trust-code --workers 4 --quiet
done
"""


_TEMPLATES: Mapping[SchedulerName, Callable[[Job, str], str]] = {
    "slurm": _slurm,
    "lsf": _lsf,
    "kubernetes": _kubernetes,
    "hf": _hf,
}
