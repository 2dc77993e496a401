"""Which of our tensors is which of the peer's, said once and read in both directions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pretrain.model import TransformerConfig

Parts = tuple[Tensor, ...]


class Same:
    """One tensor, as it is."""

    def split(self, tensor: Tensor) -> Parts:
        """Ours to theirs."""
        return (tensor,)

    def join(self, parts: Parts) -> Tensor:
        """Theirs to ours."""
        return parts[0]


class Transposed(Same):
    """A matrix that the peer keeps as ``(inputs, outputs)``, as GPT-2 does."""

    def split(self, tensor: Tensor) -> Parts:
        """Ours to theirs."""
        return (tensor.mT,)

    def join(self, parts: Parts) -> Tensor:
        """Theirs to ours."""
        return parts[0].mT


class Copied(Same):
    """One tensor of ours that the peer keeps several times; it computes with the first."""

    def __init__(self, n_copies: int) -> None:
        self.n_copies = n_copies

    def split(self, tensor: Tensor) -> Parts:
        """Ours to theirs."""
        return (tensor,) * self.n_copies


@dataclass(frozen=True)
class HeadRows(Same):
    """Rows of q, k and v, which are one tensor here and three there.

    Attributes:
        sizes: Rows of q, of k and of v.
        swapped_head_dim: Where the peer turns heads the other way round (as NanoChat), the head
            size: a turn by the opposite angle is ours with the two halves of each head of q and
            k in each other's place. None where both turn alike.
    """

    sizes: tuple[int, int, int]
    swapped_head_dim: int | None = None

    def split(self, tensor: Tensor) -> Parts:
        """Ours to theirs."""
        query, key, value = tensor.split(self.sizes)
        return self._turned(query), self._turned(key), value

    def join(self, parts: Parts) -> Tensor:
        """Theirs to ours."""
        query, key, value = parts
        return torch.cat((self._turned(query), self._turned(key), value))

    def _turned(self, rows: Tensor) -> Tensor:
        if self.swapped_head_dim is None:
            return rows
        halves = rows.unflatten(0, (-1, 2, self.swapped_head_dim // 2))
        return halves.flip(1).flatten(0, 2)


SAME, TRANSPOSED = Same(), Transposed()


@dataclass(frozen=True)
class Rule:
    """One tensor of ours and the peer's tensors that hold the same numbers."""

    ours: str
    theirs: tuple[str, ...]
    layout: Same = SAME


@dataclass(frozen=True)
class Filler:
    """A tensor that only the peer has, with the value that leaves its computation as ours."""

    theirs: str
    shape: tuple[int, ...]
    value: float


Rules = Iterable[Rule | Filler]


def to_theirs(rules: Rules, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The peer's tensors, float32, each with memory of its own.

    Args:
        rules: Together they must use every tensor of ``state`` once, the tied head apart.
        state: Tensors under our names.
    """
    tensors: dict[str, Tensor] = {}
    for rule in rules:
        if isinstance(rule, Filler):
            tensors[rule.theirs] = torch.full(rule.shape, rule.value)
        else:
            parts = rule.layout.split(state[rule.ours].detach().float())
            for name, part in zip(rule.theirs, parts, strict=True):
                tensors[name] = part.clone(memory_format=torch.contiguous_format)
    return tensors


def to_ours(rules: Rules, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse; fillers are not read, since a configuration read from the peer has none."""
    return {
        rule.ours: rule.layout.join(tuple(tensors[name].float() for name in rule.theirs))
        for rule in rules
        if isinstance(rule, Rule)
    }


def names(rules: Rules) -> set[str]:
    """The peer's names of all that the rules speak of."""
    found: set[str] = set()
    for rule in rules:
        found.update((rule.theirs,) if isinstance(rule, Filler) else rule.theirs)
    return found


def norm(ours: str, theirs: str, config: TransformerConfig) -> Iterator[Rule | Filler]:
    """The gain, and for a LayerNorm the bias, of a norm that the peer always has with both."""
    kinds = {"weight": (config.norm_gain, 1.0)}
    if config.norm == "layernorm":
        kinds["bias"] = (config.norm_bias, 0.0)
    for kind, (is_here, neutral) in kinds.items():
        if is_here:
            yield Rule(f"{ours}.{kind}", (f"{theirs}.{kind}",))
        else:
            yield Filler(f"{theirs}.{kind}", (config.d_model,), neutral)


def linear(
    ours: str,
    theirs: str | tuple[str, ...],
    weight: Same = SAME,
    bias: Same = SAME,
    bias_here: bool = False,
    zeros: tuple[int, ...] = (),
) -> Iterator[Rule | Filler]:
    """A linear layer: its matrix, and its bias or the peer's zeros in its place.

    Args:
        ours: Our module's name.
        theirs: The peer's module, or several among which its rows are divided.
        weight: Layout of the matrix.
        bias: Layout of the bias.
        bias_here: Whether we have a bias.
        zeros: Sizes of the peer's biases where we have none; empty where it has none either.
    """
    modules = (theirs,) if isinstance(theirs, str) else theirs
    yield Rule(f"{ours}.weight", tuple(f"{module}.weight" for module in modules), weight)
    if bias_here:
        yield Rule(f"{ours}.bias", tuple(f"{module}.bias" for module in modules), bias)
    elif zeros:
        for module, size in zip(modules, zeros, strict=True):
            yield Filler(f"{module}.bias", (size,), 0.0)


def head_rows(config: TransformerConfig, turned_back: bool = False) -> HeadRows:
    """How our q, k, v rows are divided; ``turned_back``: the peer turns heads the other way."""
    keys = config.kv_heads * config.head_dim
    return HeadRows((config.d_model, keys, keys), config.head_dim if turned_back else None)
