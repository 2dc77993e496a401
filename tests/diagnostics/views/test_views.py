import math

import pytest
import torch
from seams import scores, seen_by

from pretrain.diagnostics.views import (
    AttentionLogitsView,
    DeadUnitsView,
    EmbeddingsView,
    HeadSimilarityView,
    NormInputsView,
    ResidualStreamView,
)
from pretrain.diagnostics.views.view import PerPlace

CPU = torch.device("cpu")


def rows_of(ids, real):
    """The real tokens of each row."""
    return [row[mask] for row, mask in zip(ids, real, strict=True)]


@pytest.mark.parametrize("causal", [True, False])
def test_the_largest_logit_is_that_of_real_tokens(network, look, ids, real, causal):
    transformer = network(causal)
    figures = look(AttentionLogitsView(transformer.config, CPU), transformer, ids, real)
    for layer in range(2):
        largest = 0.0
        for row in rows_of(ids, real):
            logits = scores(seen_by(transformer, row), transformer, layer)
            largest = max(largest, logits[logits.isfinite()].abs().max().item())
        assert figures[f"attention/max_logit/layer_{layer}"] == pytest.approx(largest, rel=1e-5)


def test_an_infinite_logit_is_reported_as_such(network, look, ids):
    transformer = network(qk_norm=False)
    transformer.blocks[0].attention.core.scale = math.inf
    figures = look(AttentionLogitsView(transformer.config, CPU), transformer, ids)
    assert figures["attention/max_logit/layer_0"] == math.inf


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_the_smallest_norm_input_is_that_of_a_real_token(network, look, ids, real, norm):
    transformer = network(norm=norm)
    figures = look(NormInputsView(transformer, CPU), transformer, ids, real)
    names = {
        "layer_1/feed_forward_norm": "blocks.1.feed_forward_norm",
        "final_norm": "final_norm",
        "embeddings/norm": "embeddings.norm",
    }
    for place, name in names.items():
        spreads = []
        for row in rows_of(ids, real):
            x = seen_by(transformer, row)[name][0][0].double()
            spreads += [x.std(-1, correction=0) if norm == "layernorm" else x.norm(dim=-1) / 4]
        expected = torch.cat(spreads).min().item()
        assert figures[f"norm/min_input_std/{place}"] == pytest.approx(expected, rel=1e-5)


def test_the_residual_stream_is_that_of_real_tokens(network, look, ids, real):
    transformer = network()
    figures = look(ResidualStreamView(transformer.config, CPU), transformer, ids, real)
    places = {"layer_0": "blocks.0", "layer_1": "blocks.1", "last": "final_norm"}
    expected = {}
    for place, name in places.items():
        rows = [seen_by(transformer, row)[name][0][0].double() for row in rows_of(ids, real)]
        expected[place] = torch.cat(rows).square().mean().sqrt().item()
        assert figures[f"residual/rms/{place}"] == pytest.approx(expected[place], rel=1e-5)
    growth = expected["last"] / expected["layer_0"]
    assert figures["residual/growth"] == pytest.approx(growth, rel=1e-5)


def test_patterns_are_compared_row_by_row(network, look, ids, real):
    transformer = network()
    figures = look(HeadSimilarityView(transformer, CPU), transformer, ids, real)
    for layer in range(2):
        cosines = []
        for row in rows_of(ids, real):
            weights = scores(seen_by(transformer, row), transformer, layer).softmax(-1)
            unit = weights / weights.norm(dim=-1, keepdim=True)
            cosines += [unit[:, i] @ unit[:, i].T for i in range(len(row))]
        mean = torch.stack(cosines).mean(0)
        largest = max(mean[i, j].item() for i in range(4) for j in range(4) if i != j)
        logged = figures[f"attention/pattern_similarity/layer_{layer}"]
        assert logged == pytest.approx(largest, rel=1e-5)


@pytest.mark.parametrize("config", [{}, {"n_kv_heads": 2}])
def test_query_projections_of_copied_heads_are_alike(network, look, ids, config):
    transformer = network(**config)
    view = HeadSimilarityView(transformer, CPU)
    before = look(view, transformer, ids)
    with torch.no_grad():
        weight = transformer.blocks[1].attention.qkv.weight
        weight[8:12] = 3 * weight[0:4]  # head 2 is head 0, three times as large
    after = look(view, transformer, ids)
    assert before["attention/query_similarity/layer_1"] < 0.9
    assert after["attention/query_similarity/layer_1"] == pytest.approx(1, abs=1e-6)
    name = "attention/query_similarity/layer_0"
    assert after[name] == before[name]


def test_orthogonal_query_projections_have_a_cosine_of_zero(network, look, ids):
    transformer = network(d_model=16, n_heads=2)
    with torch.no_grad():
        weight = transformer.blocks[0].attention.qkv.weight
        weight[:8, 8:], weight[8:16, :8] = 0.0, 0.0
    figures = look(HeadSimilarityView(transformer, CPU), transformer, ids)
    assert figures["attention/query_similarity/layer_0"] == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("position", ["learned", "sinusoidal"])
def test_token_norms_are_compared_with_what_positions_add(network, look, ids, real, position):
    transformer = network(position=position, position_scale=0.5)
    figures = look(EmbeddingsView(transformer, CPU), transformer, ids, real)
    tokens, added = [], []
    for row in rows_of(ids, real):
        tokens += transformer.embeddings.token.weight[row].double().norm(dim=-1).tolist()
        for place in range(len(row)):
            if position == "learned":
                vector = transformer.embeddings.position.weight[place].double()
            else:
                angles = [place / 10_000 ** (2 * i / 16) for i in range(8)]
                vector = torch.tensor([f(a) for a in angles for f in (math.sin, math.cos)])
            added.append(0.5 * vector.norm().item())
    expected = (sum(tokens) / len(tokens)) / (sum(added) / len(added))
    assert figures["embedding/token_to_position"] == pytest.approx(expected, rel=1e-5)


def test_activity_is_the_share_of_tokens_on_which_a_unit_is_active(network, look, ids):
    transformer = network(linear_bias=True, d_ff=10)
    with torch.no_grad():
        for block in transformer.blocks:
            block.feed_forward.up.weight.zero_()
            block.feed_forward.up.bias.fill_(-1.0)
            block.feed_forward.up.bias[5:] = 1.0  # active on all tokens
    figures = look(DeadUnitsView(transformer.config, CPU, 10), transformer, ids)
    activity = [figures[f"ffn/activity_{p}/layer_1"] for p in ("p10", "p50", "p90")]
    assert activity == [0.0, 0.5, 1.0]  # the median lies between the two halves
    assert figures["ffn/dead_share/layer_1"] == 0.5


@pytest.mark.parametrize(
    ("reduction", "expected"), [("max", [3.0, 5.0]), ("min", [-1.0, 5.0]), ("sum", [2.0, 5.0])]
)
def test_places_are_reduced_apart_and_start_again(reduction, expected):
    metric = PerPlace(3, reduction)
    for place, value in ((0, 3.0), (0, -1.0), (1, 5.0)):
        metric.update(place, torch.tensor(value))
    first = metric.close()
    assert first[:2] == expected
    assert first[2] == 0.0 if reduction == "sum" else math.isnan(first[2])
    metric.update(2, torch.tensor(7.0))
    assert metric.close()[2] == 7.0
