"""LeRobot datasets: tables of robot data in Parquet, a row a frame, and videos with a frame for each row.

`metadata` reads what the dataset says of itself, in the layouts v2.0, v2.1 and v3.0. `frames` turns the tables into
lines of JSON, one a frame, and checks them. `videos` checks that every video is there and long enough. `importer`
recognises such a dataset and describes its features.

Source: https://huggingface.co/docs/lerobot (dataset format), and the datasets that LeRobot writes.
"""
