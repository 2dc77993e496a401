"""Cross entropy between hidden states and target tokens, as sums over the targets."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

IGNORE = -100
# Rows whose logits exist at one time: 1,024 x a vocabulary of 50,257 in bf16 are 100 MB.
CHUNK = 1024


class LossSums(NamedTuple):
    """Sums over the target tokens of one micro-batch, each a scalar tensor.

    Attributes:
        objective: What is minimised, in nats; with label smoothing not the plain likelihood.
        nll: Negative log-likelihood in nats, in float32, without smoothing.
        n_targets: Number of target tokens.
    """

    objective: Tensor
    nll: Tensor
    n_targets: Tensor


class ScoreSums(NamedTuple):
    """What evaluation needs of one micro-batch, each but the last a scalar tensor.

    Attributes:
        nll: Summed negative log-likelihood in nats.
        n_correct: Targets that are the likeliest token.
        n_targets: Number of target tokens.
        log_z: Sum over the targets of log Z, the logarithm of the softmax's denominator.
        hits: ``(n,)`` bool, which targets those were; None where they were not counted.
    """

    nll: Tensor
    n_correct: Tensor
    n_targets: Tensor
    log_z: Tensor
    hits: Tensor | None = None


def training_loss(
    hidden: Tensor, decoder: nn.Linear, labels: Tensor, smoothing: float = 0.0
) -> LossSums:
    """Summed cross entropy, without ever holding the logits of all tokens where torch can.

    Args:
        hidden: ``(n, d_model)``.
        decoder: The output matrix ``(vocab_size, d_model)`` and perhaps a bias.
        labels: ``(n,)`` token ids, ``IGNORE`` where there is no target.
        smoothing: Label smoothing (Szegedy et al. 2016), mass given to the uniform distribution.
    """
    n_targets = (labels != IGNORE).sum()
    # Logits narrower than the hidden states are cheaper to hold than to compute in chunks.
    wide = decoder.out_features > decoder.in_features
    if smoothing == 0 and wide and hasattr(F, "linear_cross_entropy"):
        nll = _chunked_nll(hidden, decoder, labels)
        return LossSums(nll, nll.detach(), n_targets)
    logits = decoder(hidden).float()
    nll = F.cross_entropy(logits, labels, ignore_index=IGNORE, reduction="sum")
    if smoothing == 0:
        return LossSums(nll, nll.detach(), n_targets)
    smooth = F.cross_entropy(
        logits, labels, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing
    )
    return LossSums(smooth, nll.detach(), n_targets)


def _chunked_nll(hidden: Tensor, decoder: nn.Linear, labels: Tensor) -> Tensor:
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        hidden = hidden.to(dtype)
        weight = decoder.weight.to(dtype)
        bias = None if decoder.bias is None else decoder.bias.to(dtype)
    else:
        weight, bias = decoder.weight, decoder.bias
    # An explicit chunk, since torch's default choice measured 20 times slower; unreduced, since
    # a bf16 sum is too coarse to be reported.
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=CHUNK, acc_policy="accurate")
    losses = F.linear_cross_entropy(
        hidden,
        weight,
        labels,
        linear_bias=bias,
        ignore_index=IGNORE,
        reduction="none",
        options=options,
    )
    return losses.float().sum()


@torch.no_grad()
def evaluate_targets(
    hidden: Tensor, decoder: nn.Linear, labels: Tensor, count_hits: bool = True
) -> ScoreSums:
    """Likelihood and hits in float32 whatever the training precision is.

    Args:
        hidden: ``(n, d_model)``.
        decoder: The output matrix ``(vocab_size, d_model)`` and perhaps a bias.
        labels: ``(n,)`` token ids, ``IGNORE`` where there is no target.
        count_hits: Whether to find the likeliest tokens; else ``n_correct`` is 0.
    """
    nll, log_z = torch.zeros((2,), device=hidden.device)
    hits: list[Tensor] = []
    weight = decoder.weight.float()
    bias = None if decoder.bias is None else decoder.bias.float()
    with torch.autocast(hidden.device.type, enabled=False):
        for rows, targets in zip(hidden.split(CHUNK), labels.split(CHUNK), strict=True):
            logits = F.linear(rows.float(), weight, bias)
            losses = F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="none")
            nll = nll + losses.sum()
            # -ln p = ln Z - logit, so Z comes without another pass over the logits.
            of_targets = logits.gather(1, targets.clamp(min=0)[:, None])[:, 0]
            log_z = log_z + torch.where(targets != IGNORE, losses + of_targets, 0.0).sum()
            if count_hits:
                hits.append(logits.argmax(-1) == targets)
    found = torch.cat(hits) if hits else None
    n_correct = labels.new_zeros(()) if found is None else found.sum()
    return ScoreSums(nll, n_correct, (labels != IGNORE).sum(), log_z, found)
