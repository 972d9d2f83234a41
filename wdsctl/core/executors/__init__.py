"""Where the units of a command run besides processes of this machine: one module per executor, behind
`wdsctl/core/jobs.py`.

`ray_cluster` runs units on a Ray cluster. `array_job` plans and merges jobs whose units run as tasks of any scheduler,
`array_task` runs one task, `templates` writes scripts for schedulers. `job_folder` has the files of a job;
`unit_results` and `typed_values` store units and results in them, by their declared types. The command line imports
this room.
"""
