"""The sections of the page that ``pretrain inspect`` writes."""

import html
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from pretrain.commands.inspection import Inspection
from pretrain.diagnostics.position_similarity import position_cosines, weight_by_distance
from pretrain.pictures import Bars, Curves, HeatMap
from pretrain.pictures.attention_explorer import EXPLORER_STYLE, attention_explorer
from pretrain.pictures.page import facts, page, section, side_by_side, table
from pretrain.runs.inside_pictures import entropy_map, positions_picture

_KINDS = {
    "clm": "causal language model (GPT)",
    "mlm": "masked language model (BERT)",
    "encoder": "encoder without a head",
    "classification": "classifier",
}
_MOST_DISTANCES = 256
_STYLE = """
section { overflow-x: auto; } .guess { white-space: nowrap; margin-right: 14px; }
.guess.hit { font-weight: 700; color: var(--mark); } .guess .faint { font-weight: 400; }
.nats { display: inline-block; height: 9px; background: var(--heat); margin-right: 6px; }
""".strip()


def inspection_page(task: Any, seen: Inspection, progress: dict[str, str]) -> str:
    """The document.

    Args:
        task: The model.
        seen: What it did with the text.
        progress: How far it was trained, by name.
    """
    parts = [
        facts({**_model_facts(task), **progress}),
        *_verdict(seen),
        _attention(task, seen),
        *_expected(task, seen),
        _heads(seen),
        _units(task, seen),
        *_positions(task),
    ]
    return page(f"Inside a {_KINDS[task.objective]}", parts, f"{EXPLORER_STYLE}\n{_STYLE}")


def _model_facts(task: Any) -> dict[str, str]:
    config = task.config
    n_parameters = sum(p.numel() for p in task.parameters())
    return {
        "layers × heads": f"{config.n_layers} × {config.n_heads}",
        "width": f"{config.d_model}",
        "positions": config.position,
        "norm": f"{config.norm}, {config.norm_position}",
        "activation": config.activation,
        "vocabulary": f"{config.vocab_size:,}",
        "parameters": f"{n_parameters:,}",
    }


def _verdict(seen: Inspection) -> list[str]:
    if seen.verdict is None:
        return []
    if "value" in seen.verdict:
        return [section("Answer", f"The value is {seen.verdict['value']:.4f}.")]
    shares = sorted(seen.verdict["probabilities"].items(), key=lambda pair: -pair[1])
    return [section("Label", "Probabilities, for the whole text.", Bars(dict(shares[:20])).svg())]


def _attention(task: Any, seen: Inspection) -> str:
    cut = f" The last {seen.n_cut:,} tokens of the text are left out here." if seen.n_cut else ""
    sees = "itself and what stands before it" if task.causal else "all tokens"
    return section(
        "Attention",
        "Point at a token to see what it looks at, and choose a head among the small maps. A row "
        f"of a map is a token, its cells what it looks at; here it sees {sees}. The stronger the "
        f"shade, the larger the weight (by its square root, so that small ones show).{cut}",
        attention_explorer(seen.tokens, seen.inside.weights, seen.inside.entropy, _query(seen)),
    )


def _query(seen: Inspection) -> int:
    """The token to begin with: the first mask of a masked model, else one in the last third."""
    masks = [i for i, one in enumerate(seen.expected) if one.guesses and one.surprisal is None]
    inner = [i for i in masks if i < len(seen.ids)]
    return inner[0] if inner else 2 * len(seen.ids) // 3


def _expected(task: Any, seen: Inspection) -> list[str]:
    if not seen.expected:
        return []
    known = [one.surprisal for one in seen.expected if one.surprisal is not None]
    mean = f" Mean surprisal: {sum(known) / len(known):.2f} nats a token." if known else ""
    if task.causal:
        words = "What the model expects at each place from the tokens before it."
    else:
        words = (
            "What the model expects at each place from all others: every token is hidden in turn "
            "behind a [MASK], and the masks of the text stay."
        )
    rows = [_expected_row(i, one, seen) for i, one in enumerate(seen.expected)]
    last = "expected here, likeliest first; bold is the token that stands here"
    shown = table(("", "token", "surprisal, nats", last), rows)
    return [section("Predictions", words + mean, shown)]


def _expected_row(place: int, one: Any, seen: Inspection) -> list[str]:
    token = _token(seen.tokens[place]) if place < len(seen.ids) else "next"
    surprisal = ""
    if one.surprisal is not None:
        width = min(one.surprisal, 12.0) * 8
        surprisal = f'<span class="nats" style="width:{width:.0f}px"></span>{one.surprisal:.2f}'
    guesses = "".join(
        f'<span class="guess{" hit" if guess == one.token else ""}">{_token(seen.names[guess])} '
        f'<span class="faint">{share:.1%}</span></span>'
        for guess, share in one.guesses
    )
    return [f'<span class="faint">{place}</span>', token, surprisal, guesses]


def _token(name: str) -> str:
    return f'<span class="token">{html.escape(name)}</span>'


def _heads(seen: Inspection) -> str:
    entropy = seen.inside.entropy
    n_heads = entropy.shape[1]
    pictures = [entropy_map(entropy.tolist())]
    if n_heads > 1:
        numbers, cell = [str(head) for head in range(n_heads)], min(40.0, max(6.0, 240 / n_heads))
        pictures += [
            HeatMap(
                matrix.tolist(), numbers, numbers, f"Likeness of heads, layer {layer}", cell=cell
            ).svg()
            for layer, matrix in enumerate(pattern_cosines(seen.inside.weights))
        ]
    words = (
        "Entropy is divided by that of looking at all visible tokens alike. Likeness is the mean "
        "cosine between the rows of two heads' maps: near 1, they look at the same tokens."
    )
    return section("Heads", words, side_by_side(*pictures))


def pattern_cosines(weights: Tensor) -> Tensor:
    """Mean cosine between the rows of each two maps of a layer.

    ``(n_layers, n_heads, n, n)`` to ``(n_layers, n_heads, n_heads)``.
    """
    unit = F.normalize(weights, dim=-1)
    return torch.einsum("lhqk,lgqk->lhg", unit, unit) / weights.shape[2]


def _units(task: Any, seen: Inspection) -> str:
    active = seen.inside.active
    if active is None:
        return section(
            "Feed-forward units", "A mixture of experts: not every unit sees each token."
        )
    layers = range(len(active))
    each = (active.float() / len(seen.ids)).mean(1)
    ever = (active > 0).float().mean(1)
    return section(
        "Feed-forward units",
        "A unit is active on a token if its pre-activation is above zero. Units that stay silent "
        "in one text need not be dead.",
        side_by_side(
            Bars({f"layer {i}": each[i].item() for i in layers}, "Active on a token, mean").svg(),
            Bars({f"layer {i}": ever[i].item() for i in layers}, "Active on any token").svg(),
        ),
    )


def _positions(task: Any) -> list[str]:
    """How near two positions are to the model; nothing where there are none."""
    config, title = task.config, "Positions"
    if config.position in ("learned", "sinusoidal"):
        known = position_cosines(task.transformer.embeddings, config.max_len)
        words = f"Cosine between the {config.position} vectors of two positions."
        return [section(title, words, positions_picture(known))]
    n = min(task.trained_len or config.max_len, _MOST_DISTANCES)
    by_distance = weight_by_distance(task.transformer, max(n, 2))
    if not by_distance:
        return []
    words = {
        "rotary": "Cosine of a vector with itself, turned by the rotation of a distance.",
        "xpos": "Cosine of a vector with itself, turned and faded by a distance.",
        "alibi": "The factor that the distance puts on a key's weight, for each head.",
    }[config.position]
    return [section(title, words, Curves(by_distance, x_title="distance in tokens").svg())]
