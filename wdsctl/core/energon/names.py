"""The names of Megatron Energon 7.4 that `wdsctl.loader.energon` has, by module, and what replaces those without a
counterpart.

For the loader, which offers the names, and for `migrate`, which reads programs without importing them.
"""

from __future__ import annotations

ENERGON_PACKAGE = "megatron.energon"
OUR_PACKAGE = "wdsctl.loader.energon"

_BLEND = "write a blend file, or pass a Blender to get_train_dataset"
_BATCHES = "pass batch_size to get_train_dataset, and override batch or encode_batch in the task encoder"
_PATH = "pass the path of the dataset to get_train_dataset or get_val_dataset"
_TYPE = f"{_PATH}; `wdsctl prepare --sample-type` sets the type of its samples"
_METADATASET = "pass the path of the metadataset, or the same as a mapping, to get_train_dataset or get_val_dataset"
_MEDIA = "run `wdsctl index DATASET --media`, which reads the facts of all media"
_COMMAND = "run the command of wdsctl: docs/energon.md lists them"
_LAZY = "use `Lazy`: get_lazy and to_cache of a cache pool return objects of this type"

#: What to write instead of each name.
REPLACEMENTS = {
    "AVWebdatasetDecoder": "set decoder = SampleDecoder(av_decode=...) in the task encoder",
    "BaseWrapperDataset": "override a hook of the task encoder",
    "BatchDataset": _BATCHES,
    "BlendDataset": _BLEND,
    "CrudeWebdataset": f"{_PATH}; `wdsctl prepare --sample-type CrudeSample` makes its samples crude",
    "CustomTransform": "write the transform as a function of an image",
    "DatasetLoader": _METADATASET,
    "DatasetLoaderInterface": _METADATASET,
    "DirectLazy": _LAZY,
    "FileCacheLazy": _LAZY,
    "FileStoreDecoder": "use a SampleDecoder: its `decoders` are functions for single formats",
    "GroupBatchDataset": "override batch_group_criterion in the task encoder",
    "IterMapDataset": "make encode_sample or encode_batch of the task encoder a generator",
    "JoinedWebdatasetFactory": "write a join in a blend file",
    "LogSampleDataset": "pass trace=FOLDER to get_train_dataset, and read it with `wdsctl trace`",
    "MediaFilterConfig": _MEDIA,
    "MediaFilterStrategy": _MEDIA,
    "Metadataset": _METADATASET,
    "MetadatasetV2": _METADATASET,
    "MixBatchDataset": f"{_BLEND}; batch_group_criterion of the task encoder separates datasets in batches",
    "PackingDataset": "pass packing=Packing(...), or packing_buffer_size, to get_train_dataset",
    "PrimaryFileStore": "mark the cooker with @cooker(need_primary=True), and use its argument `primary`",
    "ShuffleBufferDataset": "pass shuffle_buffer_size to get_train_dataset",
    "Watchdog": "pass watchdog_timeout_seconds to get_loader",
    "WatchdogDataset": "pass watchdog_timeout_seconds to get_loader",
    "WebdatasetMeta": "`wdsctl inspect --json` prints counts of splits and shards",
    "command": _COMMAND,
    "command_info": _COMMAND,
    "command_redist": _COMMAND,
    "get_dataset_from_config": _PATH,
    "load_dataset": _METADATASET,
    "main": _COMMAND,
    "prepare_filesystem_dataset": _MEDIA,
    "prepare_media_command": _COMMAND,
}

#: Classes to derive from, which open no datasets -> what does.
FACTORIES = {
    "BaseCoreDatasetFactory": _PATH,
    "BaseWebdatasetFactory": _PATH,
    "CaptioningWebdataset": _TYPE,
    "CrudeJsonlDatasetFactory": _PATH,
    "DefaultCrudeJsonlDatasetFactory": _PATH,
    "DefaultDecoderWebdatasetFactory": _PATH,
    "DefaultGenericWebdatasetFactory": _PATH,
    "ImageClassificationWebdataset": _TYPE,
    "ImageWebdataset": _TYPE,
    "InterleavedWebdataset": _TYPE,
    "MultiChoiceVQAWebdataset": _TYPE,
    "OCRWebdataset": _TYPE,
    "SimilarityInterleavedWebdataset": _TYPE,
    "StandardWebdatasetFactory": _PATH,
    "TextWebdataset": _TYPE,
    "VQAOCRWebdataset": _TYPE,
    "VQAWebdataset": _TYPE,
    "VidQAWebdataset": _TYPE,
}

_STATE = "save and restore the state of the loader"
_LENGTH = "use len(), on the dataset or on its loader"
_RANK = "use rank, world_size and num_workers of the WorkerConfig"

#: Class -> members that wdsctl's class lacks -> what to write instead. Objects of functions have the class's name, too.
MISSING_MEMBERS = {
    "Batch": {"extend": "use derive_from, and pass the fields"},
    "Cooker": {
        **dict.fromkeys(("need_cache", "need_primary"), "pass it to the decorator @cooker"),
        "is_match": "use fits, with the subflavors",
    },
    "FileStoreCachePool": dict.fromkeys(
        ("current_cache_count", "current_cache_size", "max_cache_count", "max_cache_size", "method"),
        "the pool does not publish its counts",
    ),
    "Lazy": {"ds": "use store", "fname": "use entry.name", "pool": "use get, which reads through the pool"},
    "Sample": {"pin_memory": "pass pin_memory=True to get_loader"},
    "SampleDecoder": {"decode": "call the decoder with the name of the part and its bytes"},
    "SavableDataLoader": dict.fromkeys(
        ("cmd_queues", "id", "next_id", "result_queues"), "the loader has no such queues"
    ),
    "SavableDataset": {
        **dict.fromkeys(("restore_state", "reset_state_deep", "reset_state_own", "save_state"), _STATE),
        **dict.fromkeys(("len_rank", "len_worker", "worker_has_samples"), _LENGTH),
        **dict.fromkeys(
            ("assert_can_restore", "can_restore_sample", "restore_sample"), "use restore_sample of the loader"
        ),
        "build": "pass the dataset to get_loader",
    },
    "TaskEncoder": {"cache": "mark the cooker with @cooker(need_cache=True), and use its argument `cache`"},
    "WorkerConfig": {
        **dict.fromkeys(
            ("active_worker_batch_index", "active_worker_sample_index"),
            "use current_batch_index and current_sample_index of the task encoder",
        ),
        **dict.fromkeys(
            ("assert_worker", "global_rank", "global_worker_id", "rank_worker_id", "worker_id_offset"), _RANK
        ),
        **dict.fromkeys(
            (
                "active_worker_config",
                "worker_activate",
                "worker_deactivate",
                "worker_pop_sample_index",
                "worker_push_sample_index",
                "worker_seed",
            ),
            "use the random generators in hooks, which the loader seeds for each sample",
        ),
        **dict.fromkeys(("should_log", "worker_log"), "pass trace=FOLDER to get_train_dataset"),
    },
}

#: Function or class -> arguments that wdsctl's lacks.
MISSING_ARGUMENTS = {"RepeatDataset": {"restart"}}

#: Names that cannot be called or derived from as in Energon -> what to do.
NO_CONSTRUCTORS = dict.fromkeys(("BasicDataLoader", "SavableDataLoader"), "call get_loader or get_savable_loader")
NO_BASES = {
    **dict.fromkeys(("BasicDataLoader", "SavableDataLoader"), "use the loader as a member of your class"),
    **dict.fromkeys(("DecodeFileStore", "SystemFileStore"), "derive from FileStore"),
    **dict.fromkeys(
        (
            "ConcatDataset",
            "EpochizeDataset",
            "FilterDataset",
            "GcDataset",
            "LimitDataset",
            "MapDataset",
            "RepeatDataset",
        ),
        "override a hook of the task encoder",
    ),
    "SavableDataset": _PATH,
}

#: Module below the package ("" is the package) -> modules below it that are the module itself under other names.
SUBMODULES = {
    module: tuple(names.split())
    for module, names in {
        "": "edataclass source_info",
        "av": "av_data av_decoder",
        "cache": "base file_cache_pool file_store no_cache",
        "cli": "main",
        "epathlib": "epath",
        "flavors": """
        base_dataset captioning crude image image_classification interleaved jsonl jsonl.crude_jsonl_dataset
        multichoice_vqa ocr similarity_interleaved text vid_qa vqa vqa_and_ocr
        """,
        "flavors.webdataset": """
        base_webdataset config default_decoder_webdataset default_generic_webdataset joined_webdataset metadata
        sample_decoder standard_webdataset
        """,
        "media": "extractor filesystem_prepare metadata",
        "metadataset": "dataset_loader loader loader_interface metadataset metadataset_v2",
        "task_encoder": "cooking",
        "tools": "analyze_debug checkpoint info lint prepare preview",
        "wrappers": """
        base batch_dataset blend_dataset concat_dataset epochize_dataset filter_dataset gc_dataset group_batch_dataset
        iter_map_dataset limit_dataset log_sample_dataset map_dataset mix_batch_dataset packing_dataset repeat_dataset
        shuffle_buffer_dataset watchdog_dataset
        """,
    }.items()
}

#: Module below the package ("" is the package) -> its names.
NAMES_BY_MODULE = {
    module: frozenset(names.split())
    for module, names in {
        "": """
        AugmentTaskEncoder BaseCoreDatasetFactory BaseWebdatasetFactory Batch BatchDataset BlendDataset CachePool
        CaptioningSample CaptioningWebdataset ConcatDataset Cooker CrudeJsonlDatasetFactory CrudeSample
        CrudeWebdataset DatasetLoader DatasetLoaderInterface DecodeFileStore DefaultCrudeJsonlDatasetFactory
        DefaultDecoderWebdatasetFactory DefaultGenericWebdatasetFactory DefaultTaskEncoder DirectLazy
        EpochizeDataset FileCacheLazy FileStore FileStoreCachePool FileStoreDecoder FilterDataset GcDataset
        GroupBatchDataset ImageClassificationSample ImageClassificationWebdataset ImageSample ImageWebdataset
        InterleavedSample InterleavedWebdataset IterMapDataset JoinedWebdatasetFactory Lazy LimitDataset
        LogSampleDataset MapDataset Metadataset MetadatasetV2 MixBatchDataset MockLazy MultiChoiceVQASample
        MultiChoiceVQAWebdataset NoCachePool OCRSample OCRWebdataset PackingDataset PrimaryFileStore RepeatDataset
        Sample SampleDecoder SavableDataLoader SavableDataset ShuffleBufferDataset SimilarityInterleavedSample
        SimilarityInterleavedWebdataset SkipSample SourceInfo StandardWebdatasetFactory SystemFileStore TaskEncoder
        TextSample TextWebdataset VQAOCRWebdataset VQASample VQAWebdataset VidQASample VidQAWebdataset WorkerConfig
        __version__ basic_sample_keys batch_list batch_pad_stack batch_stack concat_pad cooker edataclass
        generic_batch generic_concat get_loader get_savable_loader get_train_dataset get_val_dataset
        get_val_datasets homogeneous_concat_mix load_dataset log_exception prepare_metadataset reraise_exception
        stateless traverse_metadataset
        """,
        "av": """
        AVData AVDecoder AVWebdatasetDecoder get_clips_uniform get_single_frames_uniform
        """,
        "cache": """
        CachePool DecodeFileStore DirectLazy FileCacheLazy FileStore FileStoreCachePool FileStoreDecoder Lazy
        MockLazy NoCachePool PrimaryFileStore SystemFileStore
        """,
        "cli": """
        main prepare_media_command
        """,
        "dataset_config": """
        get_dataset_from_config
        """,
        "epathlib": """
        DEFAULT_PROFILE_NAME EPath
        """,
        "errors": """
        FatalSampleError SkipSample log_exception reraise_exception
        """,
        "flavors": """
        AVData AVDecoder BaseCoreDatasetFactory BaseWebdatasetFactory CaptioningSample CaptioningWebdataset
        CrudeJsonlDatasetFactory CrudeSample CrudeWebdataset DefaultCrudeJsonlDatasetFactory
        DefaultDecoderWebdatasetFactory DefaultGenericWebdatasetFactory ImageClassificationSample
        ImageClassificationWebdataset ImageSample ImageWebdataset InterleavedSample InterleavedWebdataset
        JoinedWebdatasetFactory MultiChoiceVQASample MultiChoiceVQAWebdataset OCRSample OCRWebdataset Sample
        SampleDecoder SavableDataset SimilarityInterleavedSample SimilarityInterleavedWebdataset
        StandardWebdatasetFactory TextSample TextWebdataset VQAOCRSample VQAOCRWebdataset VQASample VQAWebdataset
        VidQASample VidQAWebdataset WebdatasetMeta
        """,
        "flavors.webdataset": """
        AVData AVDecoder BaseWebdatasetFactory DefaultDecoderWebdatasetFactory DefaultGenericWebdatasetFactory
        INDEX_SQLITE_FILENAME INDEX_UUID_FILENAME INFO_JSON_FILENAME INFO_YAML_FILENAME JoinedWebdatasetFactory
        MAIN_FOLDER_NAME SPLIT_YAML_FILENAME SampleDecoder StandardWebdatasetFactory WebdatasetMeta
        """,
        "loader": """
        get_loader get_savable_loader
        """,
        "media": """
        AVMetadata AudioFacts ImageMetadata MediaFilterConfig MediaFilterStrategy VideoFacts
        prepare_filesystem_dataset
        """,
        "metadataset": """
        DatasetBlendMode DatasetLoader DatasetLoaderInterface Metadataset MetadatasetV2 load_dataset prepare_metadataset
        traverse_metadataset
        """,
        "savable_loader": """
        BasicDataLoader SavableDataLoader SavableDataLoaderState
        """,
        "task_encoder": """
        AugmentTaskEncoder Batch Cooker DefaultTaskEncoder TaskEncoder basic_sample_keys batch_list batch_pad_stack
        batch_stack cooker generic_batch get_train_dataset get_val_dataset get_val_datasets stateless
        """,
        "task_encoder.base": """
        AugmentTaskEncoder Batch Cooker CrudeSample DefaultTaskEncoder Sample SampleDecoder SkipSample TaskEncoder
        WorkerConfig basic_sample_keys batch_list batch_pad_stack batch_stack cooker edataclass generic_batch
        stateless
        """,
        "task_encoder.loader": """
        get_train_dataset get_val_dataset get_val_datasets
        """,
        "tools": """
        command command_info command_redist
        """,
        "transforms": """
        CustomTransform MergeTransform
        """,
        "watchdog": """
        Watchdog
        """,
        "worker": """
        WorkerConfig
        """,
        "wrappers": """
        BaseWrapperDataset BatchDataset BlendDataset ConcatDataset EpochizeDataset FilterDataset GcDataset
        GroupBatchDataset IterMapDataset LimitDataset LogSampleDataset MapDataset MixBatchDataset PackingDataset
        RepeatDataset SavableDataset ShuffleBufferDataset WatchdogDataset concat_pad generic_concat
        homogeneous_concat_mix
        """,
    }.items()
}
