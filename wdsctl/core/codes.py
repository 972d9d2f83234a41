"""Every code that wdsctl prints, what it means and what to do: the text behind `wdsctl explain`.

0xx requests · 1xx what a scan finds in shards · 2xx raw folders and splits · 3xx catalog · 4xx storage · 5xx loader ·
6xx blend files.
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
        "Check the path. A dataset is a folder with tar files in it, or JSONL files, at any depth; or one JSONL file.",
    ),
    "WDS003": Code(
        "there is nothing to work on",
        "The folder exists, but holds no tar files and no files that can become samples. Or a conversion is asked for "
        "samples or parts of which the source has none.",
        "Check that the path is the folder that holds the data. `wdsctl prepare RAW DEST` makes shards from raw files. "
        "`wdsctl inspect SOURCE` lists parts and splits.",
    ),
    "WDS004": Code(
        "there is no such sample or part",
        "The dataset has no sample of this key, or the sample has no part of this name. Keys are compared letter by "
        "letter; a key has no extension.",
        "`wdsctl ls DATASET PREFIX --samples` lists keys that begin alike, `--parts` the parts of each.",
    ),
    "WDS005": Code(
        "the request fits several samples or parts",
        "The key stands more than once in the dataset, or the sample has several parts and none was named.",
        "The message lists what there is: choose with `--shard` (and `--position`) or `--part`.",
    ),
    "WDS006": Code(
        "bytes that are no text would go to the terminal",
        "They could change what the terminal shows, or how it behaves.",
        "Write them to a file with `-o FILE`, or into a pipe.",
    ),
    "WDS007": Code(
        "the file holds no sums",
        "No line of it is a hash and a name, as `sha256sum` writes them. Hashes are of MD5, SHA-1, SHA-256, SHA-512 or "
        "BLAKE2b.",
        "`wdsctl checksum DATASET > SHA256SUMS` writes such a file. Of a hash of 128 digits say which it is: "
        "`--algorithm`.",
    ),
    "WDS008": Code(
        "the shards that were named are not all there",
        "A brace range or a list names shards that are not in the folder, or one twice; a glob matches nothing; or the "
        "shards have no folder in common. A dataset is never quietly smaller than what was asked for.",
        "Check the range and the folder. `--missing drop` goes on with those that are there.",
    ),
    "WDS009": Code(
        "the generation is not kept",
        "A dataset is known at its last three generations, as long as their offsets files are in `.wdsctl`. Shards "
        "that are added, changed or removed begin a generation.",
        "`wdsctl log DATASET` shows which run made which generation.",
    ),
    "WDS010": Code(
        "the configuration cannot be used",
        "A configuration file does not parse, or it or a WDSCTL_ variable names a command or an option that does not "
        "exist, or has a value that the option does not take.",
        "The message names the file or the variable. `wdsctl config check` lists all that is wrong, `wdsctl config "
        "show` what is in force and where it is from.",
    ),
    "WDS101": Code(
        "not a tar file",
        "The file ends in .tar, but its first block is no tar header.",
        "Look at it with `file`. If a copy went wrong, copy it again.",
    ),
    "WDS102": Code(
        "the shard is truncated",
        "A member's header promises more bytes than the file has. The samples before it are good and are indexed.",
        "Copy the shard again from its origin and run `wdsctl index` again. Where there is none, "
        "`wdsctl repair DATASET DEST` writes a copy that ends after the last whole sample.",
    ),
    "WDS103": Code(
        "a tar header is damaged",
        "A header's checksum does not fit its bytes. What comes after it in this shard cannot be "
        "trusted and is left out.",
        "Copy the shard again from its origin and run `wdsctl index` again. Where there is none, "
        "`wdsctl repair DATASET DEST` writes a copy of all that can be read.",
    ),
    "WDS104": Code(
        "interleaved keys",
        "A key comes again later in the shard with other parts: the members of its sample do not stand side by side. "
        "Readers of WebDataset make two incomplete samples of it.",
        "`wdsctl repair DATASET DEST` writes a copy in which they stand together; so does `tar --sort=name -cf NEW.tar "
        "...`.",
    ),
    "WDS105": Code(
        "duplicate key in one shard",
        "A key comes again later in the shard with a part it had already. Training sees both samples under one key.",
        "Rename one of them, or remove it, and run `wdsctl index` again. In the copy that `wdsctl repair DATASET DEST` "
        "writes, the second has another key.",
    ),
    "WDS106": Code(
        "the same key in several shards",
        "Real datasets have it, and training goes on: samples are told apart by shard and place. "
        "Looking a sample up by its key alone is ambiguous, though, and others cannot be joined to it (WDS608).",
        "Nothing, for training. For joins, make the keys unique (a folder name before the key is enough).",
    ),
    "WDS107": Code(
        "duplicate part",
        "One sample has the same part twice. WebDataset readers use one of the two, silently; wdsctl uses the last.",
        "Write the shard again with one of the two: `wdsctl repair DATASET DEST` takes the last.",
    ),
    "WDS108": Code(
        "a part is missing",
        "An error where a field is made of the part: the loader leaves such a sample out. A warning where no field is, "
        "and at least 95 % of the samples have it.",
        "Complete the sample. If samples may lack it, say so in dataset.yaml: `optional: [NAME]`, a field or a part.",
    ),
    "WDS109": Code(
        "a part that only some samples have",
        "Other samples lack the part, and no field is made of it.",
        "Nothing, if that is intended. A part that few samples have is often a misspelt extension.",
    ),
    "WDS110": Code(
        "an empty part",
        "The part has 0 bytes.",
        "For most formats an empty file cannot be decoded: complete the sample or remove it.",
    ),
    "WDS111": Code(
        "members that are no regular files",
        "Directories in a tar hold no data, nor do links and devices whose names make no part. They are counted, and "
        "never followed.",
        "Nothing, if they are meant.",
    ),
    "WDS112": Code(
        "members whose names make no key",
        "A name without a dot, or one that begins with a dot, has no key and part. Such members are passed over.",
        "Give the files an extension if they belong to samples.",
    ),
    "WDS113": Code(
        "a compressed shard",
        "A .tar.gz (.tgz, .tar.zst, ...) or a .jsonl.gz cannot be read at random places, and is not used for training.",
        "`wdsctl convert SRC DEST` unpacks it into new shards; `gunzip` or `unzstd` where it lies. `--exclude '*gz'` "
        "leaves it out without a word. Media are compressed already; a tar of them is hardly larger.",
    ),
    "WDS114": Code(
        "no end-of-archive mark",
        "The tar ends at a member's border, without the two blocks of zeros that POSIX asks for. "
        "All that is there is readable; whether there was more cannot be told.",
        "If the writer was killed, write the shard again. Otherwise nothing.",
    ),
    "WDS115": Code(
        "a shard without samples",
        "The tar is well formed and holds no member that makes a sample; or all lines of a file are blank.",
        "Remove it, or look at why it was written.",
    ),
    "WDS116": Code(
        "a name that is not UTF-8",
        "The member's name cannot be read as UTF-8. The odd bytes appear as \\xNN in its key.",
        "Write the shard again with UTF-8 names.",
    ),
    "WDS117": Code(
        "data after the end of the archive",
        "Something stands behind the end-of-archive mark, where no tar reader looks. An error where samples do: two "
        "tars were joined by `cat`, or a disk has left zeros where a header was, which look like the mark.",
        "`wdsctl repair` writes a copy with all of them, and tells what is lost. To join tars, `tar --concatenate` is "
        "right, and `cat` is not.",
    ),
    "WDS118": Code(
        "a part that is no regular file",
        "A hard or symbolic link, a sparse file or a device has the name of a part. Its data is not in the tar under "
        "that name, so the sample is without this part.",
        "Write the shard again from the files themselves: `tar --dereference --hard-dereference -cf NEW.tar ...`.",
    ),
    "WDS119": Code(
        "a dataset without samples",
        "The shards are there, and nothing in them makes a sample. A member makes one by a name such as `0001.jpg`: a "
        "key, a dot and a part.",
        "`wdsctl validate DATASET` tells of each shard what it holds instead.",
    ),
    "WDS120": Code(
        "no file of lines",
        "The file ends in .jsonl, and is binary, or text in UTF-16 or UTF-32. JSONL is UTF-8, an object a line.",
        "Look at it with `file`. `iconv -f UTF-16 -t UTF-8 OLD > NEW` writes text again.",
    ),
    "WDS121": Code(
        "lines that are no JSON objects",
        "A line is a list, a word or something else that does not begin with { and end with }. The lines keep their "
        "numbers, and fail when they are decoded. A file that begins with [ is one JSON array and no JSONL: "
        "`jq -c '.[]' OLD > NEW.jsonl` makes lines of it.",
        "Mend the lines, or remove them; `wdsctl validate DATASET` counts them.",
    ),
    "WDS122": Code(
        "the last line is cut",
        "The file ends in the middle of an object: a copy or its writer stopped there. The lines before are good and "
        "are indexed.",
        "Copy the file again, or let its writer finish, and run `wdsctl index` again. `wdsctl repair DATASET DEST` "
        "writes a copy without that line.",
    ),
    "WDS123": Code(
        "lines that do not parse",
        "A line begins and ends like an object and is no JSON. It keeps its number, and fails when it is decoded.",
        "The message names the first one's line and place. Mend it, or remove the line.",
    ),
    "WDS124": Code(
        "lines that are not UTF-8",
        "JSON is UTF-8. A line with other bytes keeps its number, and fails when it is decoded.",
        "`iconv -f LATIN1 -t UTF-8 OLD > NEW`, with the encoding that the file was written in.",
    ),
    "WDS125": Code(
        "a byte order mark",
        "The file begins with three bytes that JSON does not have. They are passed over.",
        "Nothing. Other readers may stumble over it: `sed -i '1s/^\\xEF\\xBB\\xBF//' FILE` takes it away.",
    ),
    "WDS126": Code(
        "lines without the key's field",
        "Keys come from a field (`--key`), and these lines have nothing in it that can be a key: text that is not "
        "empty, or a whole number. Their numbers are their keys.",
        "Complete the lines. Until then, joins and look-ups by key do not find them.",
    ),
    "WDS127": Code(
        "tars and files of lines in one folder",
        "A dataset is of one kind. Where the catalog knows which, the others are left out, and this is a note; "
        "otherwise it is an error.",
        "Name the file in the place of the folder (`wdsctl prepare labels.jsonl`), or leave one kind out: "
        "`--exclude '*.jsonl'`.",
    ),
    "WDS128": Code(
        "a name that leads out of the archive",
        "A member's name begins with / or has `..` in it. It is a key like others in training, where nothing is "
        "unpacked; wdsctl writes no file under such a name, and other tools may.",
        "Write the shard again with relative names, from the folder that holds the files: `tar -C FOLDER -cf ...`.",
    ),
    "WDS129": Code(
        "Energon counted otherwise",
        "The dataset was prepared by Energon, whose `.nv-meta/.info.json` has other shards, or other numbers of "
        "samples in them. It counts what it could read of a damaged shard, and does not look again when shards change.",
        "What counts is what wdsctl has found: `wdsctl validate DATASET` looks at every header.",
    ),
    "WDS130": Code(
        "something is missing from a repaired shard",
        "Members that were indexed, or that are left of a sample of which others are gone, are not in the copy that "
        "`wdsctl repair` made, or in what it left as it was. The message names the first of them, `--json` all.",
        "Copy the shard again from its origin, if there is one. `wdsctl index` the copy if it is to be used as it is.",
    ),
    "WDS131": Code(
        "what dataset.yaml says may be missing, no sample has",
        "A name under `optional:` is neither that of a mapped field nor that of a part that any sample has.",
        "Correct the name, or take it out. A part that is to come later may stay.",
    ),
    "WDS140": Code(
        "a part does not begin as it must",
        "The header of an image, a sound, a video, an array or an archive is damaged, cut off, or of something else.",
        "Replace the part, or keep the sample out of training: `wdsctl validate DATASET --level headers --quarantine`.",
    ),
    "WDS141": Code(
        "a medium is not what the catalog says",
        "Its header says another size, codec or duration than `--media` noted when the dataset was indexed.",
        "If the shard is meant to be as it is: `wdsctl index DATASET --media --rebuild`. Otherwise restore the shard.",
    ),
    "WDS142": Code(
        "the name of a part is not what it holds",
        "Such as a PNG under the name jpg, or a wav under the name mp3. Most readers go by the content; those that go "
        "by the name fail.",
        "Nothing, as far as wdsctl is concerned.",
    ),
    "WDS143": Code(
        "a part does not decode",
        "An image, a sound, a video, an array or a number that is damaged, or that holds what is never loaded. In "
        "training its sample fails, is told and left out.",
        "Replace the part, or keep the sample out of training: `wdsctl validate DATASET --level content --quarantine`.",
    ),
    "WDS144": Code(
        "a part is no JSON",
        "Its name says that it is, and it does not parse.",
        "The message says where. `--quarantine` keeps such samples out of training.",
    ),
    "WDS145": Code(
        "a text is not UTF-8",
        "Text and JSON are read as UTF-8, and nothing else is guessed.",
        "Write the part again in UTF-8. `--quarantine` keeps such samples out of training.",
    ),
    "WDS146": Code(
        "a part is too large to decode",
        "More than 1 GiB, or what it says that it unpacks to is; or an image of more than 178,956,970 pixels. A small "
        "file may claim to be as large as that, to fill the memory of whoever opens it.",
        "If it is meant, the loader's limits are `max_pixels` and `max_bytes` of SampleDecoder.",
    ),
    "WDS147": Code(
        "a part decodes, and is damaged",
        "Its own checksums do not fit its bytes, it ends before its header says so, or its decoder had to make "
        "something up in the place of what it could not read. The loader does not notice.",
        "Look at it. Shards of which hashes are noted (`wdsctl index --hash`) are told apart from media that were bad "
        "before they were put there.",
    ),
    "WDS148": Code(
        "a field is missing",
        "The field map says where a field comes from, and this sample has nothing there, or null. The loader leaves "
        "such a sample out.",
        "Complete the sample, or correct the field map in dataset.yaml. If samples may lack the field, say so there: "
        "`optional: [FIELD]`.",
    ),
    "WDS149": Code(
        "a field holds the wrong thing",
        "Such as a number where the sample type has text, or a list of other things than it is to hold.",
        "Correct the sample, or the field map in dataset.yaml.",
    ),
    "WDS150": Code(
        "fields of a sample do not fit one another",
        "Lists that belong together have unlike lengths, or the number of the right choice is none of the choices.",
        "Correct the sample. `--quarantine` keeps such samples out of training.",
    ),
    "WDS151": Code(
        "a shard's bytes have changed",
        "Its SHA-256 is not what was noted, by `wdsctl index --hash` or in a file of sums beside it. Anything in it "
        "may be wrong, pixels too, which no other check sees.",
        "Copy the shard again from its origin. `--quarantine` keeps all of it out of training.",
    ),
    "WDS152": Code(
        "no hash of a shard is known",
        "Nobody has noted its SHA-256, so nobody can tell whether its bytes are what they were.",
        "`wdsctl index DATASET --hash` notes what they are now; or put a SHA256SUMS beside the shards.",
    ),
    "WDS153": Code(
        "a file of sums cannot be understood",
        "A line of coreutils' form is 64 hex digits, two spaces and a name. A file SHARD.sha256 may also be the digits "
        "alone, and names no other shard.",
        "`sha256sum *.tar > SHA256SUMS` writes one.",
    ),
    "WDS154": Code(
        "a reference differs in case",
        "What a sample refers to is in the store, with other capital letters. Stores compare names letter by letter.",
        "Correct the reference, or the name in the store.",
    ),
    "WDS155": Code(
        "media that nothing refers to",
        "Entries of a store that no sample of this dataset names. They may serve another one.",
        "Nothing, if they are meant.",
    ),
    "WDS156": Code(
        "references cannot be followed",
        "The field is in no sample, or holds what is no name; or its store cannot be opened, or has nothing of what it "
        "names. `--refs` of such a rule is not kept in dataset.yaml.",
        "`--refs FIELD=STORE` names both: `--refs image=../media`, with dots for fields in fields.",
    ),
    "WDS157": Code(
        "something could not be repaired",
        "`wdsctl repair` does not guess. The message says what it left as it is, or left out.",
        "Copy the shard again from its origin, if there is one.",
    ),
    "WDS158": Code(
        "JSON with numbers that it does not have",
        "NaN, Infinity or -Infinity. Python reads and writes them; most other readers refuse the whole file.",
        "Write null, or leave the name out: `json.dumps(..., allow_nan=False)` refuses such numbers.",
    ),
    "WDS159": Code(
        "a name twice in one object of JSON",
        "The last of the values counts here, as in Python and JavaScript; other readers take the first one, or refuse "
        "the file.",
        "Write the object again with each name once.",
    ),
    "WDS160": Code(
        "names that differ only in case or in Unicode form",
        "Keys, parts of one sample or paths of shards, such as `a/Cat` and `a/cat`, or an accented letter that is one "
        "character in one name and two in the other. They are told apart here and on Linux. Where the files are "
        "unpacked on macOS or Windows, one takes the place of the other.",
        "Nothing, as far as wdsctl is concerned. Rename one of the two before the files go to such a system.",
    ),
    "WDS165": Code(
        "a name that is too long",
        "A member of a tar has a name of more than 65,536 bytes. It is not read, and no sample is made of it; what "
        "follows it is read. No file system has such names, so that the shard was made to be odd, or is damaged.",
        "Write the shard again from its origin, with shorter names.",
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
        "a file changed while it was read",
        "It is not what it was when the work was planned: a raw file has another size, a source of a conversion or a "
        "shard that is repaired has another size or time. Nothing is made of it.",
        "Run the same command again when nothing writes to the folder. A conversion then says that it is of other "
        "sources: `--yes` begins it anew.",
    ),
    "WDS203": Code(
        "source files have vanished",
        "The files of samples that are in the shards already are no longer in the raw folder, while files of others of "
        "the same shard have changed. Writing that shard again would lose the samples that are gone. Samples that were "
        "renamed are not: they are recognised by their content.",
        "Restore the files. `--missing keep` leaves such shards as they are, and goes on with new files. `--missing "
        "drop` writes them again without the samples that are gone; `--dry-run` names these first.",
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
    "WDS212": Code(
        "splits overlap",
        "A shard matches the patterns of several splits, or a key is in the lists of several.",
        "The message counts them and names the first. Let every shard, and every key, be named by one split alone.",
    ),
    "WDS213": Code(
        "samples have no split",
        "They match no pattern, or are in no list of keys.",
        "`--rest train` names the split of the rest, `--rest none` leaves it out. Of shards that came later, too: they "
        "are in no split until `wdsctl split` says where they belong.",
    ),
    "WDS214": Code(
        "something that is named is not there",
        "A pattern matches no shard, a listed key, or one to exclude, is not in the dataset, or nothing is known by a "
        "code to exclude.",
        "Patterns are of whole paths below the root. `--allow-empty` passes over what is not there.",
    ),
    "WDS215": Code(
        "samples have no group",
        "The value that a split goes by is not in some samples (`--group-by`), or in none (`--stratify`): the part or "
        "the field is missing, or null, or the part is no JSON.",
        "`--rest train` names the split that samples without a group go to, `--rest none` leaves them out.",
    ),
    "WDS216": Code(
        "the same content is in two splits",
        "`wdsctl split DATASET --leaks` compared samples by the bytes of their parts. What is measured on such a "
        "sample of val has been learned from train.",
        "Divide by a value that the copies share, such as `--group-by json:url`, or leave copies out: `--exclude-key`.",
    ),
    "WDS217": Code(
        "split.yaml and the splits do not fit",
        "The file is no split.yaml of Energon; or the splits cannot be said in one, which knows whole shards, and "
        "samples to leave out.",
        "The message says what. `wdsctl split DATASET 8,1,1 --by shard` makes splits that can be exported.",
    ),
    "WDS220": Code(
        "the field map does not fit",
        "dataset.yaml does not parse, names a sample type that does not exist, or maps a field to a "
        "part that is not there.",
        "The message names the line. `wdsctl prepare DATASET --redetect` writes it anew.",
    ),
    "WDS221": Code(
        "the sample type is ambiguous",
        "Several sample types fit nearly as well, or the one that fits would leave images, videos or sounds unused.",
        "Say it: `--sample-type CaptioningSample --field-map image=jpg,caption=txt`.",
    ),
    "WDS222": Code(
        "the dataset has code of its own",
        "dataset.yaml names a function in a file beside it (`sample_loader`, `part_filter`). It came with the data, "
        "and would run with all that you may do.",
        "Read the file. If you trust it: `get_train_dataset(..., trust_code=True)`.",
    ),
    "WDS230": Code(
        "a reference leads outside",
        "A row names a file by an absolute path, with `..`, by a link that leaves the folder, or by a URL. Nothing "
        "outside the source is read, and nothing is fetched.",
        "Where the file is yours, `-O base=FOLDER` says which folder references begin in, and allows all that lies "
        "below it, by absolute paths and `..`, too (`-O base=/`: everything). Otherwise write relative references; "
        "those of an index of shards (wids, MDS, LitData) begin beside it.",
    ),
    "WDS231": Code(
        "a file that is referred to is missing",
        "A row names a file that is not there.",
        "Bring the file back or take out the row. `-O base=FOLDER` says which folder references begin in. Letters' "
        "case counts.",
    ),
    "WDS232": Code(
        "a row cannot be read",
        "It has more or fewer fields than the header, its quotes are odd, it lacks the field that keys come from, or a "
        "field of files holds something else.",
        "The message names file and row. Mend it, or leave the row out.",
    ),
    "WDS233": Code(
        "the source is damaged",
        "A file ends too early, its index does not fit it, or it is not what its name says.",
        "Copy it again from its origin.",
    ),
    "WDS234": Code(
        "values that only code can read",
        "Pickles run code when they are read, and data from elsewhere may hold anything. wdsctl reads none; nor does "
        "it read encodings that it does not know.",
        "Write the dataset again without that column, or with an encoding that is plain data.",
    ),
    "WDS235": Code(
        "the form cannot be told",
        "The source looks like no form that is known, or like several of them alike.",
        "Name it: `--from FORM`. The message lists the forms.",
    ),
    "WDS236": Code(
        "an optional package is missing",
        "The form needs a package that wdsctl does not bring along.",
        "The message has the command that installs it.",
    ),
    "WDS237": Code(
        "the form cannot hold this sample",
        "Some part of it is too large for the form, is text that is not UTF-8, or its name cannot be a file's name "
        "there.",
        "The message names the sample and what would work. `--to folder` takes nearly everything.",
    ),
    "WDS238": Code(
        "samples would change their split",
        "A dataset that has several splits is divided otherwise, and samples would leave their split for another, or "
        "for none. A model that has been trained on the old ones may then be measured on what it has learned from. "
        "Samples that are excluded now count, too: they come back to their split later.",
        "`--dry-run` shows how many samples go from which split to which, and the first of them. `--set NAME` makes "
        "another set of splits beside this one: nothing moves. `--yes` does it, and needs no more where no model has "
        "been trained on the old splits.",
    ),
    "WDS245": Code(
        "it cannot be told where keys end",
        "Names have several dots, and several rules fit them; or the rule in force makes one sample of many files: "
        "`IMG_2024.01.07.jpg` and `IMG_2024.01.08.jpg` have one key up to the first dot. That is WebDataset's rule, "
        "and it stays for tars.",
        "Of raw files, say the rule: `--key-until known-extension`, `last-dot` or `first-dot`. Of tars, `wdsctl "
        "convert DATASET DEST --from packed -O key-until=known-extension` writes new ones; if they are meant as they "
        "are, `wdsctl prepare DATASET --key-until first-dot` says so.",
    ),
    "WDS246": Code(
        "another rule of keys than before",
        "Every sample would have another key, and what is known by keys would be of none: splits, views, saved states.",
        "Leave `--key-until` out, and dataset.yaml as it was. To have other keys, prepare the files into a new folder.",
    ),
    "WDS247": Code(
        "two samples would have one key",
        "Keys in shards have no dots, since WebDataset ends them at the first: `_` takes their place. Two names of the "
        "folder become the same by that, such as a.b.jpg and a_b.jpg.",
        "Rename the files of one of them.",
    ),
    "WDS248": Code(
        "tars are read up to the first dot",
        "All readers of WebDataset end keys there. A catalog that did otherwise would have other samples than theirs.",
        "`wdsctl convert DATASET DEST --from packed -O key-until=RULE` writes new shards, which all read alike.",
    ),
    "WDS249": Code(
        "a sample would get the key of one that is gone",
        "A sample of the raw folder would have a key in the shards that another sample has there, whose own files are "
        "gone or have another name, and whose shard stays as it is: a new `a_b.jpg` where `a.b.jpg` was (keys in "
        "shards have no dots), or `mv a.jpg b.jpg` over a `b.jpg` that is in another shard.",
        "Give the new files other names, or restore those that are gone. `--missing drop` takes samples whose files "
        "are gone out of their shards; `--dry-run` names these first.",
    ),
    "WDS253": Code(
        "a dataset would lie in another one",
        "The destination lies in a folder that is a dataset, or has one below it. The outer one takes all shards below "
        "it for its own: its next `index` adds those of the inner one, also to its splits, and its next `prepare` is "
        "refused. Nothing was made. A folder that only collects datasets is none: it has no catalog, or one of nothing "
        "but the shards of datasets below it.",
        "Give a destination beside the dataset. To train on both, name them in a blend file.",
    ),
    "WDS270": Code(
        "data names code that may not run",
        "A dataset.yaml names a sample type by its module, or a blend file a joiner. Importing a module runs it, with "
        "all that you may do, and what is in such files is data, whoever wrote them. Nothing was imported.",
        "The message names the code, its file, and the line that asks for it. If you trust it: "
        "`get_train_dataset(..., trust_code=True)`. Or import it in your own program and register it: "
        "`wdsctl.loader.register_joiner(joined)`, `register_sample_type(Labelled)`.",
    ),
    "WDS271": Code(
        "a module lies in the dataset",
        "Code that is named by its module would be imported from the dataset's own folder. What lies there is data, "
        "and may have the name of a module of yours.",
        "Put your module beside your program, or run the command in another folder. If the module is the dataset's, "
        "and you trust it: `wdsctl index --trust-code`.",
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
        "The file is no SQLite database of ours, or fails its own checks; or its offsets file is missing or damaged; "
        "or the ledger beside it is damaged.",
        "`wdsctl index DATASET --rebuild` makes it again from the shards; splits by rule are made again from "
        "dataset.yaml. One that cannot be read is kept beside the new one. An offsets file is made again by `wdsctl "
        "index DATASET`; a damaged ledger is set aside by the next command that writes.",
    ),
    "WDS303": Code(
        "the catalog is from a newer wdsctl",
        "Its schema version is higher than this program knows. As a note of `catalog check`: it is lower, and is "
        "read as it is.",
        "`pip install -U wdsctl`, or `wdsctl index DATASET --rebuild --catalog ELSEWHERE` for a catalog of your own.",
    ),
    "WDS304": Code(
        "the catalog is locked",
        "Another wdsctl is writing to this dataset. Reading and training go on undisturbed.",
        "Wait for it: `index`, `prepare`, `split`, `convert`, `repair`, `catalog` and `validate --quarantine` do, with "
        "`--wait [SECONDS]`. If the holder is surely dead, `--break-lock` says whose lock it is and takes it; a holder "
        "that runs on this machine loses it only with `--yes` beside it.",
    ),
    "WDS305": Code(
        "the catalog is out of date",
        "Shards have been added, changed or removed since the dataset was indexed; or a run that was giving renamed "
        "ones their new names was killed.",
        "`wdsctl index DATASET`; only what changed is read.",
    ),
    "WDS306": Code(
        "shards have vanished",
        "The catalog lists shards that are no longer there.",
        "Bring them back, or say `--missing drop` to forget them, `--missing keep` to keep their rows.",
    ),
    "WDS307": Code(
        "the catalog has no rows of samples",
        "It has counts, splits and the offsets file, from which training, `get`, `ls`, `inspect --key` and joins read. "
        "SQL over samples, `--where` and lists of keys (`--keys`) need a row a sample. Tars have none where the "
        "catalog was made with --no-sample-rows, or where they came beside lines that are gone and kept (`--missing "
        "keep`): a catalog of lines has no rows until tars take the place of all of them.",
        "`wdsctl index DATASET --sample-rows` adds them; every shard is read once for it. Shards that are gone and "
        "kept cannot be: bring them back first, or forget them, with `--missing drop`.",
    ),
    "WDS310": Code(
        "there is no such column",
        "The dataset has no numbers of this name for its samples.",
        "The message lists the columns that there are. `wdsctl index DATASET --column NAME=MODULE:FUNCTION` makes one.",
    ),
    "WDS311": Code(
        "a column is damaged",
        "The file of a column is cut short, or is no such file.",
        "`wdsctl index DATASET --drop-column NAME --column NAME=MODULE:FUNCTION` makes it again.",
    ),
    "WDS312": Code(
        "the function of a column cannot be used",
        "There is no such module, or nothing of that name in it, or it is no function; or no sample has the part that "
        "it is to look at.",
        "Modules are looked for in the current folder first, as `python -m` does, unless that is the dataset's. The "
        "message names what is nearest.",
    ),
    "WDS313": Code(
        "a sample has no value in a column",
        "The function of the column raised an error for the sample, or gave something that is no whole number from 0 "
        "to 2^63 - 1. The column is published only when every sample has a value; shards that are done are kept.",
        "Mend the function and run the same command again. `--on-error zero` gives such samples 0.",
    ),
    "WDS314": Code(
        "a column is out of date",
        "The column was made for an earlier generation of the dataset, or shards were written again since. Columns of "
        "functions in Python are brought up to date only when they are asked for.",
        "The message has the command. Shards that have not changed keep their values.",
    ),
    "WDS320": Code(
        "a medium is unreadable",
        "An image, a sound or a video has no facts, and the finding says why: it is damaged or cut off, it is empty, "
        "its content is something else than its name says, or nothing here reads its format. The catalog notes it so.",
        "Look at the sample. `SELECT * FROM v_media WHERE kind = 'unreadable'` lists them all. After Pillow or PyAV "
        "were upgraded, `wdsctl index DATASET --rebuild` looks again.",
    ),
    "WDS321": Code(
        "the selection of media makes no sense",
        "`--media` takes extensions (jpg,mp4), globs on file names ('*.seg.png'), both with commas between them, or "
        "one of the words content and auto.",
        "Bare `--media` means all parts that are media by their name or content.",
    ),
    "WDS322": Code(
        "a folder of media is no dataset of shards",
        "The folder holds media files that were prepared as they are, with `--media` and without a destination. Its "
        "catalog says what each file is; it has no samples, splits or columns.",
        "`wdsctl prepare FOLDER DEST` writes shards of the files. Others refer to the files by their names.",
    ),
    "WDS323": Code(
        "nothing is a medium by the selection",
        "Facts of media were asked for, and no part of any sample, or no file, is what `--media` says.",
        "`wdsctl inspect DATASET` lists the parts that there are.",
    ),
    "WDS330": Code(
        "there is no such view",
        "A view of the dataset was named (`DATASET@NAME`), and it has none of this name.",
        "The message lists the views that there are. `wdsctl view create DATASET NAME --where ...` makes one.",
    ),
    "WDS331": Code(
        "a view is out of date",
        "A view is a frozen selection of samples. Shards that it has samples of were written again, have grown or are "
        "gone, so that they cannot be told any more.",
        "`wdsctl view diff DATASET NAME` says what would change, `wdsctl view refresh DATASET NAME` makes the view "
        "again. A training that is to go on as it was needs the shards of that time.",
    ),
    "WDS332": Code(
        "the query cannot be used",
        "An expression of `view create --where` or a query of `wdsctl sql` does not parse, names a column or a "
        "function that is not there, or asks for more than reading the documented views.",
        "The message points at the place. docs/views.md lists the columns of expressions, docs/catalog.md the views.",
    ),
    "WDS333": Code(
        "there is a view of this name already",
        "Views are frozen: trainings name them, and their states are refused once a view means something else.",
        "Take another name, or `--replace` it. `wdsctl view show DATASET NAME` tells what it is.",
    ),
    "WDS334": Code(
        "the query was stopped",
        "It took longer than `--timeout`, which for what a view was made by is 10 minutes if nothing is said.",
        "Ask for less (`LIMIT`, a narrower `WHERE`), or allow more time. `--timeout 0` sets no limit.",
    ),
    "WDS335": Code(
        "the plan of a conversion is damaged",
        "A conversion keeps in the destination what it goes on by, and the file is not one of ours, or says what "
        "cannot be: it has other tables, or names files outside the destination.",
        "Move the file that the message names away, and run the same command again: it is made anew.",
    ),
    "WDS340": Code(
        "keys come more than once in the destination",
        "Datasets that are merged share keys, or one of them repeats keys in several shards. Written one behind "
        "the other, two samples of one key would become one.",
        "`--on-collision prefix` puts the source's name before each key (and a number before keys that repeat "
        "within one source); `--on-collision keep-first` takes the first sample of each key.",
    ),
    "WDS341": Code(
        "a part cannot be written anew",
        "`--image` or `--audio` was asked for, and the part is damaged, too large to be decoded safely, an "
        "animation, or of a kind that the new format has no room for. Its sample is left out, unless `--on-error "
        "keep` leaves it as it was.",
        "`wdsctl validate SOURCE` looks at the part. `--on-error error` stops at the first such part instead.",
    ),
    "WDS342": Code(
        "a sample would have two parts of one name",
        "After renaming or transcoding, two parts of a sample are called the same, such as a png that becomes a "
        "jpg beside a jpg. The sample is left out. Where every sample with a part would be, nothing is written.",
        "Give one of them another name (`--rename-part png=second.png`), or leave one out (`--drop-parts png`).",
    ),
    "WDS343": Code(
        "a reference of the primary leads nowhere",
        "A sample of a polylithic dataset names a medium that its store does not have, or has twice; or what "
        "names them does not parse. The sample is left out.",
        "`wdsctl validate PRIMARY --level refs` lists such references. Prepare the store again, or convert the "
        "original again.",
    ),
    "WDS344": Code(
        "the source is not what its catalog says",
        "Shards of the source are new, have changed or are gone since it was indexed, so it is not clear which "
        "samples are meant.",
        "Run `wdsctl index SOURCE` and convert again.",
    ),
    "WDS345": Code(
        "the destination was made by another conversion",
        "What lies there was written from other sources, or with other options: the message says what is different. "
        "Mixing both would leave a dataset that no command makes. A copy of the source is none of these: by names, "
        "sizes and times, or by bytes where times are new. A file that was renamed is: its sample has another key.",
        "Give another DEST: what is there stays as it is, and `wdsctl diff DEST OTHER` shows what has changed. What is "
        "new alone may be converted into a folder of its own; a blend file trains on both. Of a conversion that was "
        "not finished, `--yes` removes what it has written, and begins anew.",
    ),
    "WDS346": Code(
        "something that was worked out does not go along",
        "A column of the source, or what its catalog knows of media, is not carried over to the destination: it may "
        "not hold there (parts are written anew, left out or renamed), or only some of the sources have it, or they "
        "made it by different functions. The message says which. The source still has it.",
        "The message has the command that makes it anew. A function that says which parts it looks at (`tokens.parts = "
        '("txt",)`) goes along when other parts are changed.',
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
    "WDS406": Code(
        "no driver for this kind of store",
        "The dataset is at a URL, and the package that opens such URLs is not installed, or there is none.",
        "The message names the package, such as `pip install gcsfs`. s3:// works as wdsctl is installed.",
    ),
    "WDS407": Code(
        "worker processes cannot be started",
        "The system refused a process, a pipe or a thread: a limit on them is reached, or memory is short.",
        "`--workers 1` starts none. `ulimit -a` shows the limits; containers have more of their own.",
    ),
    "WDS408": Code(
        "the storage is down",
        "Not one file but the storage itself cannot be read: no connection after all retries, a server that sends "
        "whole files where ranges are asked for, a file system that is no longer mounted, or none of the dataset's "
        "shards is there any more. A training stops at once.",
        "Mend the connection or the mount, and go on: nothing is lost, the next batch is the one that failed.",
    ),
    "WDS409": Code(
        "a path of the data leads outside",
        "A link, an absolute path or `..` in a dataset, a table or a list leads out of the folder that you named. What "
        "data says is never a reason to open files elsewhere, so the file is not read.",
        "Where you mean it, name the folder yourself: `--allow-path DIR`, as often as there are folders, or "
        "WDSCTL_ALLOW_PATH, which training programs read, too.",
    ),
    "WDS415": Code(
        "a link stands where wdsctl writes",
        "What the user names is resolved, links and all. From there on no link is followed: one in `.wdsctl`, or below "
        "a destination, came with the data, and what it points to is nobody's to write to or to delete.",
        "Name the folder that is meant: `--catalog DIR` for a catalog that lies elsewhere, or the destination itself. "
        "Where the link is not yours, put a folder in its place.",
    ),
    "WDS416": Code(
        "a folder was moved while it was written to",
        "Its path leads to another folder now, or to a link, or to nothing. The run ended; nothing was written "
        "elsewhere.",
        "Put the folder back and run the same command again: finished work is kept.",
    ),
    "WDS417": Code(
        "not a file of our own",
        "A file that is changed in place (the ledger, a lock) is a pipe, a device or a folder, or has another name "
        "elsewhere (a hard link), whose file would be changed with it.",
        "The message says which. Look at what put it there, and move it away.",
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
    "WDS505": Code(
        "no sample comes through",
        "A lane took as many samples in a row as the datasets have, and 10,000 at least, and no batch came of them: "
        "hooks skipped them, they failed, or none of them fitted into a pack.",
        "Look at what raises SkipSample, at the failures in the log and in `loader.stats.causes`, and with packing at "
        "the lengths and the capacity.",
    ),
    "WDS506": Code(
        "samples cannot be batched",
        "The samples of one batch have different types or tensors that cannot be stacked.",
        "Override `batch`, or make them alike in `encode_sample`.",
    ),
    "WDS507": Code(
        "too many samples failed",
        "A sample that fails is told in the log, counted in `loader.stats.failed` and left out. Many in a row failed, "
        "or one failed in a way that no other sample will cure: a module or a name that is missing, or no memory.",
        "Look at the failure that the message names. `global_error_handler=reraise_exception` of WorkerConfig stops at "
        "the first one; `@stateless(failure_tolerance=n)` sets how many in a row a hook may fail, 0 any number.",
    ),
    "WDS508": Code(
        "a hook is not deterministic",
        "With `check_determinism=True` every hook runs twice on each sample, with the same random numbers, and this "
        "one gave two results. A resumed run could not make the same batches.",
        "Draw random numbers from torch, numpy or random, which are seeded for each sample, and keep nothing from one "
        "sample to the next.",
    ),
    "WDS509": Code(
        "a sample is too long for a pack",
        "Its length is above the capacity of packs, and `too_long` of the packing is 'error'.",
        "The message names the sample. Raise the capacity, or choose `too_long` 'drop', 'truncate' or 'split'.",
    ),
    "WDS510": Code(
        "the ranks cannot agree",
        "Ranks that have unlike numbers of batches are to be evened out, hooks decide how many there are, and the "
        "ranks cannot ask one another: torch.distributed is not running for them.",
        "Initialise torch.distributed before the loader, or give uneven='keep'.",
    ),
    "WDS511": Code(
        "nothing to pad with",
        "A rank has no batch of its own in this pass that it could hand out once more, and those of other ranks cannot "
        "be made here: all of their samples fail on this rank.",
        'The log says what fails here and not on other ranks. `uneven="keep"` needs no padding.',
    ),
    "WDS512": Code(
        "no group, or no batch size",
        "`batch_group_criterion` has to return a group that can be hashed and the size of its batches: 1 or more, or "
        "None for the dataset's `batch_size`. The samples it answers otherwise for are left out and counted.",
        "The message has the answer. `loader.stats.causes` says for how many samples it was so.",
    ),
    "WDS513": Code(
        "a group with two batch sizes",
        "`batch_group_criterion` gives samples of one group unlike sizes. A group has the size that it was begun with; "
        "samples that want another one are left out and counted.",
        "Make the size a function of the group, or let the group tell the sizes apart.",
    ),
    "WDS514": Code(
        "all samples are banned",
        "`ban`, with the bans that the state has, leaves nothing of a dataset that is to be read. A blend in which it "
        "has a share could not keep its weights.",
        "Ban fewer samples, or give the dataset the weight 0 in the blend. States keep bans: to take one back, resume "
        "from a state that was saved before it.",
    ),
    "WDS515": Code(
        "a method is named almost like a hook",
        "The task encoder has a method whose name is almost that of a hook, and does not override that hook: what it "
        "does is not called. This is a warning.",
        "Rename it to the hook, or, where it is no hook, begin its name with `_`.",
    ),
    "WDS516": Code(
        "the task encoder could pack, and does not",
        "`select_samples_to_pack` is overridden, and there is no `packing_buffer_size`: samples stay as they are, "
        "and neither it nor `pack_selected_samples` is called. This is a warning.",
        "Give `packing_buffer_size` to pack. Where nothing is to be packed, as in a validation, all is well.",
    ),
    "WDS517": Code(
        "another process draws from the loader",
        "A loader belongs to the process that opened it. In a process that was forked from that one, or in several "
        "workers of torch's DataLoader, it would give the same batches once more, and the training would not notice.",
        "Make a loader in each process, with get_loader(dataset), a rank of its own and the number of all ranks as "
        "world size. The loader has workers itself: `WorkerConfig(num_workers=...)`.",
    ),
    "WDS518": Code(
        "not the batch that is due",
        "What a worker sent was made for another task than the one that is due, or a second loop has handed out the "
        "batch that this loop is in the middle of. It is not handed out: batches would come twice and others never.",
        "Close the loader and go on with it: it begins again where it stood, and nothing is lost. Where it happens "
        "again, please report it, with what else uses the loader.",
    ),
    "WDS519": Code(
        "parts that no field takes",
        "Samples of the dataset have parts that the field map of dataset.yaml does not name. They are not read, and "
        "no batch has them. This is a warning.",
        "Where they are wanted, map them under `field_map` of dataset.yaml (`caption: json[caption]`), with a sample "
        "type that has the field; or write `sample_type: CrudeSample`, whose samples have all parts. Where they are "
        "not, all is well.",
    ),
    "WDS520": Code(
        "the ranks do not run the same job",
        "All ranks compare their plans when they begin. Some have another dataset, seed or argument, or a catalog that "
        "has gone on meanwhile. Going on would repeat or miss samples.",
        "The message names the ranks and what differs. Give all of them the same arguments and the same catalog.",
    ),
    "WDS521": Code(
        "a checkpoint that cannot be read",
        "The file is no JSON and no file of torch.save, is damaged, or holds objects that only code could make. "
        "Nothing in a checkpoint is ever run: containers, text and numbers are read, tensors passed over.",
        "Save the loader's state in a file of its own: `json.dump(loader.state_dict(), file)`, or "
        '`torch.save({"dataloader_state_dict": loader.state_dict()}, path)`.',
    ),
    "WDS522": Code(
        "no state of a loader is in the checkpoint",
        "The files were read, and nothing in them looks like what `state_dict()` of a loader returns.",
        "Name the file that the state was saved in; `--key` chooses among several.",
    ),
    "WDS523": Code(
        "an option of Energon that does nothing here",
        "It is taken, so that code for Energon runs as it is, and has no effect. This is a warning.",
        "Leave it out. In the place of `worker_debug_path`, `trace=FOLDER` of `get_train_dataset` keeps which samples "
        "were in each batch, and `wdsctl trace FOLDER` shows them.",
    ),
    "WDS526": Code(
        "sources cannot be batched together",
        "Samples of two sources of a blend have other parts, other types, or tensors that cannot be stacked, and the "
        "default batch cannot be made of them. Every batch with samples of both would be lost, and with them the "
        "smaller source.",
        "The message names both and what differs. Make them alike in a cooker or in `encode_sample`, override `batch`, "
        "or keep them in batches of their own with `batch_group_criterion`.",
    ),
    "WDS527": Code(
        "too large a share of a source fails",
        "Of the last thousand samples of a source, or of the last thousand batches or packs, a larger share failed "
        "than `max_failed_fraction` of the loader allows.",
        "The message has the most frequent cause with one of its samples. Mend it, or raise `max_failed_fraction`, and "
        "resume from the state that was saved last.",
    ),
    "WDS528": Code(
        "a shard is not what was indexed",
        "A training was resumed, and a shard is gone, has another size or other members than the catalog says. Without "
        "its samples others would take their place, and the run would not be the one that was saved.",
        "Restore the shard and resume from the same state. Where it is meant to be as it is, run `wdsctl index "
        "DATASET` and begin a new run. `changed_shards='skip'` goes on without its samples.",
    ),
    "WDS529": Code(
        "the file of a join is damaged",
        "Which samples of several datasets go together is computed once and kept in a file. What is in it is not what "
        "was written: the disk, or something between it and the memory, has changed it.",
        "Remove the file that the message names: it is computed again when the join is next opened.",
    ),
    "WDS530": Code(
        "a worker ended twice at the same task",
        "A worker process died or hung; another one took its place, and ended at the same task. The message says how, "
        "and what the worker said it was doing.",
        "Run with num_workers=0 to see the failure in the training process. SIGKILL mostly means that memory ran out: "
        "fewer workers, or smaller batches. A hang is cut short after `timeout_seconds`.",
    ),
    "WDS531": Code(
        "the work cannot be pickled",
        'Workers that begin in a fresh interpreter ("spawn", "forkserver") get their dataset and hooks by pickle. '
        "The message names the attribute that does not pickle, or the class that the new interpreter cannot find.",
        'Start workers by "fork", or define the class or function at the top level of a module.',
    ),
    "WDS532": Code(
        "a hook asked its process to exit",
        "A hook called `exit()`, `sys.exit()` or raised SystemExit in a worker.",
        "Raise SkipSample to leave a sample out, or another exception to stop the training.",
    ),
    "WDS533": Code(
        "an exception that cannot travel",
        "A worker raised an exception that does not come out of a pickle as what it was, or that is no Exception.",
        "The message has its text, and the worker's traceback is its cause.",
    ),
    "WDS534": Code(
        "the training script runs on import",
        "A fresh interpreter imports the training script to find its classes, and the script began to train again.",
        'Put what the script runs under `if __name__ == "__main__":`.',
    ),
    "WDS540": Code(
        "there is no trace",
        "The folder does not exist, or no rank of a job has written its trace into it.",
        'Give the folder that `get_train_dataset(..., trace="FOLDER")` named.',
    ),
    "WDS541": Code(
        "a trace file cannot be read as a whole",
        "An error where a part of it is damaged, where a newer wdsctl wrote it, or where batches are missing in it "
        "because the disk was full when they came; all else is told. A note where only its end is missing, as it is "
        "after a `kill -9`, or while it is being written.",
        "Copy the file again if it was copied. What was in the damaged part is lost; training is not touched by it.",
    ),
    "WDS542": Code(
        "nothing in the trace matches",
        "The step, the batch or the sample that was asked for is not in it: it came before tracing began, it was never "
        "reached, or its rank was killed or its disk full before it was written.",
        "`wdsctl trace FOLDER` shows which batches there are.",
    ),
    "WDS543": Code(
        "a dataset of the trace cannot be used",
        "The trace has numbers of samples, and their dataset or its catalog is no longer where it was; or the shard "
        "has been removed or has changed since. Restore keys are told all the same, keys and places are not.",
        "`--root OLD=NEW` says where it is now. The catalog is made again by `wdsctl index`.",
    ),
    "WDS544": Code(
        "a split is not the one that was traced",
        "In the same generation, the split of the dataset has other samples than it had. After `wdsctl split` that is "
        "harmless. After the catalog was deleted and made again, shards may have other numbers, and keys may be wrong.",
        "If the catalog was made again, find a copy of the old one, and name it by `--root OLD=NEW`.",
    ),
    "WDS545": Code(
        "a validation has fewer lanes than ranks",
        "A validation that packs or groups does so in a fixed number of lanes, each of which is one rank's, so its "
        'batches do not depend on the number of ranks. Here are more ranks than lanes, and `uneven="drop"` leaves out '
        "what other ranks lack: everything.",
        "Give `get_val_dataset(..., lanes=N)`, with N a multiple of the ranks, and the same N wherever losses are "
        'compared: batches depend on it. Or give `uneven="pad"`.',
    ),
    "WDS550": Code(
        "a store has no such entry",
        "A cooker asked an auxiliary store for a name that it does not have. Names are compared letter by letter; the "
        "hint has those that differ in case alone, and the other parts of the same key.",
        "Correct the reference in the primary, or add the file to the store and prepare it again.",
    ),
    "WDS551": Code(
        "a name of a store is ambiguous",
        "Several samples of an auxiliary store have the key and the part that a cooker asked for. Which of them is "
        "meant cannot be told, and taking any would train on the wrong one unnoticed.",
        "`wdsctl index STORE` reports such keys as WDS106. Rename all but one of them, or put them into stores apart.",
    ),
    "WDS552": Code(
        "a name leads out of a store",
        "A cooker asked a folder of files for an absolute path, for a path with `..` in it, for a link that leads out "
        "of the folder, or for what is no file. Nothing outside of a store is ever read.",
        "Refer to files by their path below the folder. Files that lie elsewhere are a store of their own.",
    ),
    "WDS553": Code(
        "nothing is known of a medium",
        "A cooker asked an auxiliary store for the facts of an image, a sound or a video, and its catalog has none, or "
        "says that the file cannot be read.",
        "`wdsctl index STORE --media` reads the facts of all media, of tars and of plain folders.",
    ),
    "WDS600": Code(
        "the blend file is not as it must be",
        "It is no YAML, a key is unknown or stands twice, a value is of the wrong kind, or a list is empty.",
        "The message names file, line and key. docs/blend-files.md lists the keys.",
    ),
    "WDS601": Code(
        "the blend files go round in a circle",
        "A blend file refers to itself, by way of others or at once, or an anchor contains itself.",
        "The message lists the files of the circle. Take one of the references out.",
    ),
    "WDS602": Code(
        "the weights cannot be used",
        "A weight or a number of repetitions is below zero or no number, all of them are 0, or a schedule of weights "
        "has steps that do not rise or names an entry that is not there.",
        'Write numbers such as 2, 0.5 or "1/3". 0 means never, and at least one must be above it.',
    ),
    "WDS603": Code(
        "the range does not fit",
        "The range of a `subset` is no range, is empty, mixes positions and percent, or reaches past the last sample.",
        "Write `[0, 500]`, `[500, end]` or `[0%, 25%]`. The message says how many samples there are.",
    ),
    "WDS604": Code(
        "a blend inside an epochized blend",
        "`blend_epochized` and `concat` are one order with an end: each sample comes so many times. A `blend` draws by "
        "weight and goes on for ever, so it has no place in such an order.",
        "Turn it round: a blend may have epochized entries. Or make the inner one epochized too, with repetitions.",
    ),
    "WDS605": Code(
        "the join is not as it must be",
        "A `join` has fewer than two members, or one that is a blend, a join or a subset; or its joiner is not there, "
        "or cannot be told from what is written; or it has none, and two members have fields of one name.",
        "The message names file, line and key. docs/blend-files.md shows joins.",
    ),
    "WDS606": Code(
        "the blend file has no such split",
        "A split was asked for, by the caller or by `split_part`, that the file's `splits:` does not name.",
        "The message lists the splits that it names. `split_part` at a reference chooses another one.",
    ),
    "WDS607": Code(
        "samples of a join have no partner",
        "A `join` asks for a sample of the same key in each member, and a member lacks some.",
        "The message says how many, and the first keys. `nonmatch: skip` at the member leaves them out, "
        "`nonmatch: none` gives None in the place of the partner.",
    ),
    "WDS608": Code(
        "a key of a join stands twice",
        "A member of a `join` that others are looked up in has two samples of one key: nobody can tell which is meant.",
        "The message names key and shards. Take one of them out, or join to a split that has one of them. The first "
        "member, whose samples are joined, may repeat keys.",
    ),
}
