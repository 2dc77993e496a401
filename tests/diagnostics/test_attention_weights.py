import math

import pytest
import torch
from tiny import VOCAB, make_task

from pretrain.diagnostics.attention_weights import attention_weights, look_inside
from pretrain.diagnostics.position_similarity import position_cosines, weight_by_distance
from pretrain.diagnostics.views import EntropyView
from pretrain.model.masks import AttentionMask
from pretrain.model.positions import alibi_slopes

N = 9


def mask_of(causal, window=None, slopes=None, n=N):
    return AttentionMask(n, n, causal, None, torch.device("cpu"), window, slopes)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("options", [{}, {"window": 3}, {"slopes": alibi_slopes(2)}, {"n": 100}])
def test_weights_are_those_of_a_reference_in_float64(causal, options):
    generator = torch.manual_seed(0)
    n = options.get("n", N)
    query, key = torch.randn(2, 1, 2, n, 8, generator=generator, dtype=torch.float64)
    mask = mask_of(causal, **options)
    scores = query @ key.transpose(-1, -2) * 0.3
    distance = (torch.arange(n)[:, None] - torch.arange(n)).abs()
    if "slopes" in options:
        scores = scores - options["slopes"][:, None, None].double() * distance
    hidden = torch.zeros(n, n, dtype=torch.bool)
    if causal:
        hidden |= torch.ones(n, n, dtype=torch.bool).triu(1)
    if "window" in options:
        hidden |= distance >= options["window"]
    expected = scores.masked_fill(hidden, -math.inf).softmax(-1)
    weights = attention_weights(query.float(), key.float(), mask, 0.3)
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights.double(), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, n), atol=1e-5, rtol=0)
    assert (weights[..., hidden] == 0).all()


@pytest.mark.parametrize("kind", ["clm", "mlm"])
def test_looking_inside_changes_nothing_and_gives_what_the_network_computes(kind):
    task = make_task(kind, network={"dropout": 0.3})
    task.train()
    ids = torch.randint(1, VOCAB, (1, N), generator=torch.manual_seed(1))
    before = torch.random.get_rng_state()
    inside = look_inside(task, {"input_ids": ids})
    assert torch.equal(torch.random.get_rng_state(), before)
    assert task.training
    assert inside.weights.shape == (2, 2, N, N)
    assert inside.entropy.shape == (2, 2)
    assert inside.active.shape == (2, 64)
    assert (inside.active <= N).all()
    assert bool((inside.weights.triu(1) == 0).all()) == (kind == "clm")
    expected = task.eval().transformer(ids)[0]
    torch.testing.assert_close(inside.states, expected)
    assert not task.transformer.blocks[0].attention.core._forward_pre_hooks


def test_entropy_is_the_forward_probe_s():
    task, ids = make_task("clm").eval(), torch.randint(1, VOCAB, (1, N))
    probe = EntropyView(task.config, torch.device("cpu"))
    real = torch.ones_like(ids, dtype=torch.bool)
    for layer, core in probe.seams(task.transformer):
        core.register_forward_pre_hook(
            lambda seam, inputs, layer=layer: probe.observe(layer, seam, inputs, real)
        )
    entropy, figures = look_inside(task, {"input_ids": ids}).entropy, probe.metrics()
    for layer in range(2):
        for head in range(2):
            expected = figures[f"attention/entropy/layer_{layer}/head_{head}"]
            assert entropy[layer, head].item() == pytest.approx(expected, abs=1e-6)


def test_a_single_token_has_no_entropy():
    inside = look_inside(make_task("clm"), {"input_ids": torch.tensor([[3]])})
    assert inside.entropy.isnan().all()
    assert (inside.weights == 1).all()


def test_a_mixture_of_experts_has_no_units_of_its_own():
    task = make_task("clm", network={"n_experts": 2})
    assert look_inside(task, {"input_ids": torch.tensor([[1, 2, 3]])}).active is None


@pytest.mark.parametrize("position", ["learned", "sinusoidal"])
def test_added_positions_are_like_themselves(position):
    task = make_task("mlm", network={"position": position, "max_len": 100})
    places, cosines = position_cosines(task.transformer.embeddings, 100, n_most=30)
    assert places == list(range(0, 100, 4))
    assert cosines.shape == (25, 25)
    torch.testing.assert_close(cosines.diagonal(), torch.ones(25))
    torch.testing.assert_close(cosines, cosines.T)


def test_the_weight_of_a_distance_begins_at_one_and_follows_the_formulas():
    by_distance = {
        name: weight_by_distance(make_task("clm", network={"position": name}).transformer, 20)
        for name in ("rotary", "xpos", "alibi", "none", "learned")
    }
    assert by_distance["none"] == by_distance["learned"] == {}
    rotary = by_distance["rotary"]["rotary"]
    thetas = [10_000 ** (-2 * i / 8) for i in range(4)]
    expected = [sum(math.cos(d * theta) for theta in thetas) / 4 for d in range(20)]
    assert rotary == pytest.approx(expected, abs=1e-5)
    fading = by_distance["xpos"]["xpos"]
    assert fading[0] == 1
    assert fading[1] < rotary[1]
    assert list(by_distance["alibi"]) == ["head 0", "head 1"]
    assert by_distance["alibi"]["head 1"][3] == pytest.approx(math.exp(-3 * 2**-8), abs=1e-6)
