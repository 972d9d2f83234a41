"""The task encoder: where a training says what its samples and batches are. Override the hooks you need."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wdsctl.core.errors import UsageError
from wdsctl.loader.batching import generic_batch
from wdsctl.loader.conversion import batched_as, converted
from wdsctl.loader.cooking import Cooker
from wdsctl.loader.decoding import BatchMemory, SampleDecoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import TypeVar as Defaulted

    # So that `class Mine(DefaultTaskEncoder)` is complete as it stands. Python has these from 3.13 on.
    T_sample = Defaulted("T_sample", default=Any)
    T_encoded_sample = Defaulted("T_encoded_sample", default=Any)
    T_raw_batch = Defaulted("T_raw_batch", default=Any)
    T_batch = Defaulted("T_batch", default=Any)
else:
    T_sample = TypeVar("T_sample")
    T_encoded_sample = TypeVar("T_encoded_sample")
    T_raw_batch = TypeVar("T_raw_batch")
    T_batch = TypeVar("T_batch")

#: In the order they run.
HOOKS = (
    "cook_crude_sample",
    "encode_sample",
    "preencode_sample",
    "select_samples_to_pack",
    "postencode_sample",
    "pack_selected_samples",
    "batch_group_criterion",
    "batch",
    "encode_batch",
)

_CONVERSIONS = {"encode_sample": "_encoded_sample_type", "batch": "_raw_batch_type", "encode_batch": "_batch_type"}


class TaskEncoder(Generic[T_sample, T_encoded_sample, T_raw_batch, T_batch]):
    """crude sample -> cooker -> sample -> `encode_sample` -> packs -> groups -> `batch` -> `encode_batch`.

    `decoder` says what the parts become before the first hook; None leaves them bytes. `cookers` make samples of crude
    ones. A hook that is not overridden costs nothing. One that is draws its random numbers (torch on the CPU, numpy,
    random) from generators that are seeded for its sample or batch, so that a resumed run draws the same.

    Every hook but the three that choose (`select_samples_to_pack`, `batch_group_criterion`, `postencode_sample` under
    packing) may be a generator of any number of outputs, and may raise SkipSample to leave its input out.
    """

    decoder: SampleDecoder | None = SampleDecoder()
    cookers: Sequence[Cooker] = ()

    def cook_crude_sample(self, sample: dict[str, Any], cooker: Cooker, aux: Mapping[str, Any]) -> Any:
        """A sample of a crude one, by the cooker that is for its dataset; `aux` goes to it by name."""
        return cooker.cook(sample, **aux)

    def encode_sample(self, sample: T_sample) -> Any:
        """One sample as the batch wants it."""
        return sample

    def preencode_sample(self, sample: T_sample) -> Any:
        """The first half of `encode_sample`, before packing: as little as is needed to choose. Override one of them."""
        return sample

    def postencode_sample(self, sample: Any) -> Any:
        """The second half, for the samples that a pack is made of, just before it is; without packing, right away."""
        return sample

    def select_samples_to_pack(self, samples: list[Any]) -> list[list[Any]]:  # noqa: ARG002 - for who overrides it
        """Lists of samples of this buffer (`packing_buffer_size` of them), a pack each. The rest is left out."""
        raise _has_no_default("select_samples_to_pack")

    def pack_selected_samples(self, samples: list[Any]) -> Any:  # noqa: ARG002 - for who overrides it
        """One sample of the samples of a pack."""
        raise _has_no_default("pack_selected_samples")

    def batch_group_criterion(self, sample: Any) -> tuple[Hashable, int | None]:  # noqa: ARG002 - for who overrides it
        """The group that a sample is batched in, and how many make a batch (None: the `batch_size`)."""
        raise _has_no_default("batch_group_criterion")

    def batch(self, samples: list[T_encoded_sample]) -> T_raw_batch:
        """Several samples as one batch: see `generic_batch`."""
        batch: T_raw_batch = generic_batch(samples)
        return batch

    def encode_batch(self, batch: T_raw_batch) -> Any:
        """The batch as the training loop wants it."""
        return batch


class DefaultTaskEncoder(TaskEncoder[T_sample, T_encoded_sample, T_raw_batch, T_batch]):
    """Converts between the hooks, field by field and by name, to the types it is given.

    Each may be a dataclass, a NamedTuple or dict. `encoded_sample_type`: after encode_sample; `raw_batch_type`: after
    batch; `batch_type`: after encode_batch. Override any hook as well.
    """

    # On the class, for subclasses that do not call this constructor.
    _encoded_sample_type: type[Any] | None = None
    _raw_batch_type: type[Any] | None = None
    _batch_type: type[Any] | None = None

    def __init__(
        self,
        *,
        encoded_sample_type: type[T_encoded_sample] | None = None,
        raw_batch_type: type[T_raw_batch] | None = None,
        batch_type: type[T_batch] | None = None,
    ) -> None:
        self._encoded_sample_type = encoded_sample_type
        self._raw_batch_type = raw_batch_type
        self._batch_type = batch_type

    def encode_sample(self, sample: T_sample) -> Any:
        """The sample as `encoded_sample_type`."""
        return converted(sample, self._encoded_sample_type)

    def batch(self, samples: list[T_encoded_sample]) -> T_raw_batch:
        """The default batch as `raw_batch_type`; a type that has `from_samples` makes it itself."""
        batch: T_raw_batch = batched_as(samples, self._raw_batch_type)
        return batch

    def encode_batch(self, batch: T_raw_batch) -> Any:
        """The batch as `batch_type`."""
        return converted(batch, self._batch_type)


class AugmentTaskEncoder(TaskEncoder[Any, Any, Any, Any]):
    """Another encoder with something around it: derive from this, and override what is to be different.

    All that is not overridden is the inner encoder's: its decoder, its cookers and every one of its hooks, and a hook
    that neither overrides costs nothing. `super().encode_sample(sample)` is the inner one's, as is
    `self.inner.encode_sample(sample)`.
    """

    def __init__(self, inner: TaskEncoder[Any, Any, Any, Any]) -> None:
        self.inner = inner
        if type(self).decoder is TaskEncoder.decoder:
            self.decoder = inner.decoder
        if type(self).cookers is TaskEncoder.cookers:
            self.cookers = inner.cookers
        for hook in HOOKS:
            if getattr(type(self), hook) is getattr(AugmentTaskEncoder, hook):
                setattr(self, hook, getattr(inner, hook))


def _of_the_inner(hook: str) -> Callable[..., Any]:
    """What `super()` means in an encoder around another: the inner one's hook, not the default that does nothing."""

    @functools.wraps(getattr(TaskEncoder, hook))
    def handed_on(self: AugmentTaskEncoder, *args: Any, **named: Any) -> Any:
        return getattr(self.inner, hook)(*args, **named)

    return handed_on


for _hook in HOOKS:
    setattr(AugmentTaskEncoder, _hook, _of_the_inner(_hook))


def _has_no_default(hook: str) -> UsageError:
    return UsageError(
        f"{hook} does nothing unless it is overridden, and was called as it is",
        hint=f"override it without super().{hook}(), or leave it out: what is not overridden is not called",
    )


def overridden(encoder: TaskEncoder[Any, Any, Any, Any], hook: str) -> bool:
    """Whether the hook does anything; where it does not, a loader need not call it. A conversion is something."""
    function = _function(encoder, hook)
    if function is getattr(DefaultTaskEncoder, hook):
        return function is not getattr(TaskEncoder, hook) and _conversion(encoder, hook) is not None
    return function is not getattr(TaskEncoder, hook)


def batch_function(
    encoder: TaskEncoder[Any, Any, Any, Any], memories: Sequence[BatchMemory] = ()
) -> Callable[[list[Any]], Any]:
    """What does as `encoder.batch` does, and without copying images that were decoded into `memories`.

    A `batch` of the user's own is called as it is.
    """
    if not overridden(encoder, "batch"):
        return functools.partial(generic_batch, memories=memories)
    if is_conversion(encoder, "batch"):
        return functools.partial(batched_as, target=_conversion(encoder, "batch"), memories=memories)
    return encoder.batch


def is_conversion(encoder: TaskEncoder[Any, Any, Any, Any], hook: str) -> bool:
    """Whether the hook is no code of the user's: a conversion to a type draws no random numbers."""
    return _function(encoder, hook) is getattr(DefaultTaskEncoder, hook)


def config(encoder: TaskEncoder[Any, Any, Any, Any]) -> dict[str, Any]:
    """What of a recipe is decided here, by name, for the fingerprint of a plan."""
    hooks = {hook: _name(_function(encoder, hook)) for hook in HOOKS if overridden(encoder, hook)}
    types = {hook: _conversion(encoder, hook) for hook in HOOKS}
    conversions = {hook: _name(target) for hook, target in types.items() if target is not None}
    decoder = encoder.decoder.config() if encoder.decoder is not None else None
    return {"type": _name(type(encoder)), "hooks": hooks, "conversions": conversions, "decoder": decoder}


def _conversion(encoder: TaskEncoder[Any, Any, Any, Any], hook: str) -> type[Any] | None:
    """The type that the default of a hook converts to. An inner encoder knows it where its hook was taken over."""
    owner = getattr(getattr(encoder, hook), "__self__", encoder)
    target: type[Any] | None = getattr(owner, _CONVERSIONS.get(hook, ""), None)
    return target


def _function(encoder: TaskEncoder[Any, Any, Any, Any], hook: str) -> Any:
    method = getattr(encoder, hook)
    return getattr(method, "__func__", method)


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"
