"""Executors that run the units of a command outside this machine's processes, behind `wdsctl/core/jobs.py`.

`ray_cluster` runs units on a Ray cluster. `array_job` plans and merges jobs whose units run as tasks of any scheduler,
`array_task` runs one task, `templates` writes scripts for schedulers. `job_folder` reads and writes the files of a job;
`unit_results` and `typed_values` encode units and results by their declared types. The command line imports this room.
"""
