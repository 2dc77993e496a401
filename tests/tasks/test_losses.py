import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pretrain.tasks.losses import IGNORE, evaluate_targets, training_loss

N, D, VOCAB = 50, 8, 30


@pytest.fixture(params=["fused", "fallback"])
def path(request, monkeypatch):
    """With torch's linear_cross_entropy and, as on older versions, without."""
    if request.param == "fallback":
        monkeypatch.delattr(F, "linear_cross_entropy", raising=False)
    return request.param


def problem(bias=True):
    torch.manual_seed(0)
    hidden = torch.randn(N, D, requires_grad=True)
    decoder = nn.Linear(D, VOCAB, bias=bias)
    labels = torch.randint(0, VOCAB, (N,))
    labels[::3] = IGNORE
    return hidden, decoder, labels


def reference(hidden, decoder, labels, smoothing=0.0):
    """Token by token in float64: ((1-s) nll + s mean over the vocabulary, nll, hits, targets)."""
    objective = nll = 0.0
    hits = targets = 0
    for state, label in zip(hidden.detach().double(), labels.tolist(), strict=True):
        if label == IGNORE:
            continue
        logits = decoder.weight.detach().double() @ state
        if decoder.bias is not None:
            logits = logits + decoder.bias.detach().double()
        log_p = logits - torch.log(torch.exp(logits).sum())
        nll -= float(log_p[label])
        objective -= float((1 - smoothing) * log_p[label] + smoothing * log_p.mean())
        hits += int(log_p.argmax()) == label
        targets += 1
    return objective, nll, hits, targets


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_sums_equal_the_loop(path, bias, smoothing):
    hidden, decoder, labels = problem(bias)
    objective, nll, _, targets = reference(hidden, decoder, labels, smoothing)
    sums = training_loss(hidden, decoder, labels, smoothing)
    assert float(sums.objective.detach()) == pytest.approx(objective, rel=1e-5)
    assert float(sums.nll) == pytest.approx(nll, rel=1e-5)
    assert int(sums.n_targets) == targets


def test_gradients_are_those_of_all_logits_at_once(path):
    hidden, decoder, labels = problem()
    training_loss(hidden, decoder, labels).objective.backward()
    found = [hidden.grad.clone(), decoder.weight.grad.clone(), decoder.bias.grad.clone()]
    hidden.grad = None
    decoder.zero_grad()
    F.cross_entropy(decoder(hidden), labels, reduction="sum").backward()
    for gradient, expected in zip(found, [hidden.grad, *decoder.parameters()], strict=True):
        expected = expected.grad if isinstance(expected, nn.Parameter) else expected
        torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-6)


def test_reported_loss_is_float32_under_autocast(path):
    hidden, decoder, labels = problem()
    _, nll, _, targets = reference(hidden, decoder, labels)
    with torch.autocast("cpu", torch.bfloat16):
        sums = training_loss(hidden, decoder, labels)
    assert sums.nll.dtype == torch.float32
    assert float(sums.nll) / targets == pytest.approx(nll / targets, rel=5e-3)


def test_evaluation_is_exact_whatever_the_precision():
    hidden, decoder, labels = problem()
    _, nll, hits, targets = reference(hidden, decoder, labels)
    with torch.autocast("cpu", torch.bfloat16):
        scores = evaluate_targets(hidden, decoder, labels)
    assert float(scores.nll) == pytest.approx(nll, rel=1e-6)
    assert (int(scores.n_correct), int(scores.n_targets)) == (hits, targets)


def test_nothing_to_predict_gives_zero_and_zero_gradients(path):
    hidden, decoder, _ = problem()
    sums = training_loss(hidden, decoder, torch.full((N,), IGNORE))
    assert int(sums.n_targets) == 0
    assert float(sums.objective.detach()) == 0.0
    sums.objective.backward()
    assert (hidden.grad == 0).all()
    assert (decoder.weight.grad == 0).all()
