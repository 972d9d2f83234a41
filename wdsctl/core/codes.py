"""Every code that wdsctl prints, what it means and what to do: the text behind `wdsctl explain`.

0xx requests · 1xx what a scan finds in shards · 2xx raw folders and splits · 3xx catalog · 4xx storage · 5xx loader.
"""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    title: str
    meaning: str
    remedy: str


CODES: dict[str, Code] = {
    "WDS001": Code(
        "the request makes no sense",
        "An option has a value that cannot be used, two options contradict each other, or one that is "
        "needed is absent.",
        "The message names the option. `wdsctl COMMAND --help` lists what each accepts.",
    ),
    "WDS002": Code(
        "the input is missing or unreadable",
        "The path that was given does not exist, or is not the kind of thing the command works on.",
        "Check the path. A dataset is a folder with tar files in it, at any depth.",
    ),
    "WDS003": Code(
        "there is nothing to work on",
        "The folder exists, but holds no tar files and no files that can become samples.",
        "Check that the path is the folder that holds the data. `wdsctl prepare RAW DEST` makes shards from raw files.",
    ),
    "WDS101": Code(
        "not a tar file",
        "The file ends in .tar, but its first block is no tar header.",
        "Look at it with `file`. If it is compressed, decompress it; if a copy went wrong, copy it again.",
    ),
    "WDS102": Code(
        "the shard is truncated",
        "A member's header promises more bytes than the file has. The samples before it are good and are indexed.",
        "Copy the shard again from its origin and run `wdsctl index` again.",
    ),
    "WDS103": Code(
        "a tar header is damaged",
        "A header's checksum does not fit its bytes. What comes after it in this shard cannot be "
        "trusted and is left out.",
        "Copy the shard again from its origin and run `wdsctl index` again.",
    ),
    "WDS104": Code(
        "interleaved keys",
        "A key comes again later in the shard with other parts: the members of its sample do not stand side by side. "
        "Readers of WebDataset make two incomplete samples of it.",
        "Write the shard again with its members sorted by name: `tar --sort=name -cf NEW.tar ...`.",
    ),
    "WDS105": Code(
        "duplicate key in one shard",
        "A key comes again later in the shard with a part it had already. Training sees both samples under one key.",
        "Rename one of them, or remove it, and run `wdsctl index` again.",
    ),
    "WDS106": Code(
        "the same key in several shards",
        "Real datasets have it, and training goes on: samples are told apart by shard and place. "
        "Looking a sample up by its key alone is ambiguous, though, and joins by key are refused.",
        "Nothing, for training. For joins, make the keys unique (a folder name before the key is enough).",
    ),
    "WDS107": Code(
        "duplicate part",
        "One sample has the same part twice. WebDataset readers use one of the two, silently; wdsctl uses the last.",
        "Write the shard again with one of the two.",
    ),
    "WDS108": Code(
        "a part is missing",
        "The field map of dataset.yaml (or, without one, nearly every sample) has this part, and this sample lacks it.",
        "Complete the sample or remove it. If the part is optional, take it out of the field map.",
    ),
    "WDS109": Code(
        "an unexpected part",
        "Some samples have a part that others lack and that the field map does not use. A warning where hardly any "
        "sample has it, else a note.",
        "Nothing, if it is meant. Otherwise it is often a misspelt extension.",
    ),
    "WDS110": Code(
        "an empty part",
        "The part has 0 bytes.",
        "For most formats an empty file cannot be decoded: complete the sample or remove it.",
    ),
    "WDS111": Code(
        "members that are no regular files",
        "Directories, links and devices in a tar hold no data. They are counted and never followed.",
        "Nothing, if they are meant. A hard link's data stands only once: write the shard again with "
        "`--hard-dereference`.",
    ),
    "WDS112": Code(
        "members whose names make no key",
        "A name without a dot, or one that begins with a dot, has no key and part. Such members are passed over.",
        "Give the files an extension if they belong to samples.",
    ),
    "WDS113": Code(
        "a compressed shard",
        "A .tar.gz (.tgz, .tar.zst, ...) cannot be read at random places, and is not used for training.",
        "Decompress it: `gunzip SHARD.tar.gz`. Media are compressed already; a tar of them is hardly larger.",
    ),
    "WDS114": Code(
        "no end-of-archive mark",
        "The tar ends at a member's border, without the two blocks of zeros that POSIX asks for. "
        "All that is there is readable; whether there was more cannot be told.",
        "If the writer was killed, write the shard again. Otherwise nothing.",
    ),
    "WDS115": Code(
        "a shard without samples",
        "The tar is well formed and holds no member that makes a sample.",
        "Remove it, or look at why it was written.",
    ),
    "WDS116": Code(
        "a name that is not UTF-8",
        "The member's name cannot be read as UTF-8. The odd bytes appear as \\xNN in its key.",
        "Write the shard again with UTF-8 names.",
    ),
    "WDS117": Code(
        "data after the end of the archive",
        "Something stands behind the end-of-archive mark, where no tar reader looks. Two tars joined by `cat` look so.",
        "Unpack both and write them into one: `tar --concatenate` joins archives, `cat` does not.",
    ),
    "WDS200": Code(
        "the data is not what it should be",
        "Raw files or shards cannot be used as they stand.",
        "The message says which, and what to do.",
    ),
    "WDS201": Code(
        "raw samples are incomplete",
        "Files that share a name make a sample. Some samples lack a part that most others have, some files are strays "
        "that belong to no sample, or some cannot be read.",
        "`--on-missing skip` leaves them out, `--on-missing keep` keeps what there is. `--parts jpg,txt` says what a "
        "complete sample has.",
    ),
    "WDS202": Code(
        "a raw file changed while it was read",
        "The file's size is not what it was when the work was planned.",
        "Run the same command again when nothing writes to the folder.",
    ),
    "WDS203": Code(
        "source files have vanished",
        "Samples that are in the shards already are no longer in the raw folder, while others of the same shard have "
        "changed. Writing that shard again would lose them.",
        "Restore the files, or prepare into a new folder.",
    ),
    "WDS210": Code(
        "the split cannot be made",
        "The shares do not parse, or a split that was asked for would be empty.",
        "`--split train=8,val=1,test=1` or `8,1,1`. With few shards, `--by sample`.",
    ),
    "WDS211": Code(
        "there is no such split",
        "The dataset has splits, and not this one; or it has none yet.",
        "`wdsctl inspect DATASET` lists them; `wdsctl split DATASET train=8,val=1,test=1` makes them.",
    ),
    "WDS220": Code(
        "the field map does not fit",
        "dataset.yaml does not parse, names a sample type that does not exist, or maps a field to a "
        "part that is not there.",
        "The message names the line. `wdsctl prepare DATASET --redetect` writes it anew.",
    ),
    "WDS221": Code(
        "the sample type is ambiguous",
        "The evidence fits no sample type, or several equally well.",
        "Say it: `--sample-type CaptioningSample --field-map image=jpg,caption=txt`.",
    ),
    "WDS300": Code(
        "the catalog cannot be used",
        "Something about the catalog prevents the command.",
        "The message says what. The catalog can always be made again from the shards: `wdsctl index "
        "DATASET --rebuild`.",
    ),
    "WDS301": Code(
        "there is no catalog",
        "The dataset has not been prepared or indexed, or its catalog is kept elsewhere.",
        "`wdsctl prepare DATASET`. A catalog elsewhere is named by `--catalog` or WDSCTL_CATALOG.",
    ),
    "WDS302": Code(
        "the catalog is damaged",
        "The file is no SQLite database of ours, or fails its own checks; or its offsets file is missing or damaged.",
        "`wdsctl index DATASET --rebuild` makes it again from the shards; splits by rule are made again from "
        "dataset.yaml. The damaged file is kept beside it. An offsets file is made again by `wdsctl index DATASET`.",
    ),
    "WDS303": Code(
        "the catalog is from a newer wdsctl",
        "Its schema version is higher than this program knows.",
        "`pip install -U wdsctl`, or `wdsctl index DATASET --rebuild --catalog ELSEWHERE` for a catalog of your own.",
    ),
    "WDS304": Code(
        "the catalog is locked",
        "Another wdsctl is writing to this dataset. Reading and training go on undisturbed.",
        "Wait for it. If the holder is on another machine and surely dead, remove the lock file that "
        "the message names.",
    ),
    "WDS305": Code(
        "the catalog is out of date",
        "Shards have been added, changed or removed since the dataset was indexed.",
        "`wdsctl index DATASET`; only what changed is read.",
    ),
    "WDS306": Code(
        "shards have vanished",
        "The catalog lists shards that are no longer there.",
        "Bring them back, or say `--missing drop` to forget them, `--missing keep` to keep their rows.",
    ),
    "WDS401": Code(
        "the disk is full",
        "Nothing half-written is left in place; what was there before is unchanged.",
        "Free some space and run the same command again: it goes on where it stopped.",
    ),
    "WDS402": Code(
        "permission denied",
        "The system does not let this user read or write there.",
        "Check the owner and the mode of the path. A dataset that is read-only gets its catalog "
        "elsewhere: `--catalog DIR`.",
    ),
    "WDS403": Code(
        "a short read",
        "A file ended before the bytes that the catalog promises: it was truncated or replaced after it was indexed.",
        "`wdsctl validate DATASET` tells which shards changed, `wdsctl index DATASET` takes them in.",
    ),
    "WDS404": Code(
        "reading or writing failed",
        "The system reported an error of the device or the network.",
        "The message carries the system's own words. Run the same command again: finished work is kept.",
    ),
    "WDS405": Code(
        "a worker process died",
        "A process that worked on a shard ended without a word. Mostly the system ended it because memory ran out.",
        "Give fewer --workers, or more memory, and run the same command again: finished work is kept.",
    ),
    "WDS500": Code(
        "the loader cannot go on",
        "The request or the data does not allow it.",
        "The message says what.",
    ),
    "WDS501": Code(
        "the state does not fit",
        "The saved state belongs to other data, another seed or another order. Going on would repeat or miss samples.",
        "Resume with the dataset and the arguments of the run that saved it; the message lists what differs.",
    ),
    "WDS502": Code(
        "the states do not fit together",
        "States of several ranks were taken at different steps, or some are missing.",
        "Give the states of all ranks, saved at the same step.",
    ),
    "WDS503": Code(
        "a sample failed",
        "Reading, decoding or a hook of the task encoder failed on one sample.",
        "The message names the sample and the cause. Raise SkipSample in `encode_sample` to leave a sample out.",
    ),
    "WDS504": Code(
        "workers come with the next step",
        "This release runs the loader in the training process.",
        "`WorkerConfig(num_workers=0)`.",
    ),
    "WDS505": Code(
        "no sample comes through",
        "A whole pass over the data gave no sample: every one was skipped.",
        "Look at the hook that raises SkipSample.",
    ),
    "WDS506": Code(
        "samples cannot be batched",
        "The samples of one batch have different types or tensors that cannot be stacked.",
        "Override `batch`, or make them alike in `encode_sample`.",
    ),
}
