"""Time windows: a sample is a frame of a sequence, with values of frames before and after it.

`windows` checks the windows that the user asks for, and turns seconds into frames. `source` is the split of a dataset
whose samples get these values; `frame_rows` finds the frames of a sequence, `values` turns lines of JSON into tensors.
`plan` imports it.
"""
