"""Fifty steps of training beside ``transformers``: same weights, same batches, same losses."""

import peers
import pytest
import torch
from tiny import fit

from pretrain.tasks import CausalLM, MaskedLM, OptimizerConfig, ScheduleConfig

STEPS, ROWS, SEQ = 50, 4, 16
LR, BETAS, EPS, DECAY = 2e-3, (0.9, 0.98), 1e-6, 0.01


class RecordLosses:
    """Wraps a task's loss so that each step's mean is kept."""

    def __init__(self, task):
        self.values = []
        original = task.losses

        def recording(batch):
            sums = original(batch)
            self.values.append(float(sums.nll) / int(sums.n_targets))
            return sums

        task.losses = recording


def our_losses(task, weights, batches):
    task.configure_model()
    task.load_state_dict(weights, strict=True)
    recorder = RecordLosses(task)
    fit(task, batches, precision="32-true")
    return recorder.values


def their_losses(peer, batches, labels_of):
    decay = [p for p in peer.parameters() if p.ndim >= 2]
    plain = [p for p in peer.parameters() if p.ndim < 2]
    groups = [{"params": decay, "weight_decay": DECAY}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    values = []
    for batch in batches:
        loss = peer(batch["input_ids"], labels=labels_of(batch)).loss
        values.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return values


def recipe(config):
    return {
        "network": config,
        "lr": LR,
        "optimizer": OptimizerConfig("adamw", 1.0, 1.0, BETAS, EPS, weight_decay=DECAY),
        "schedule": ScheduleConfig(stable_share=1.0),
    }


def texts():
    """Random walks over the vocabulary: something that can be learned in fifty steps."""
    generator = torch.Generator().manual_seed(11)
    for _ in range(STEPS):
        start = torch.randint(0, peers.VOCAB, (ROWS, 1), generator=generator)
        steps = torch.randint(1, 3, (ROWS, SEQ), generator=generator)
        yield (start + steps.cumsum(1)) % peers.VOCAB


def masked(ids):
    """Every fourth token hidden behind id 0."""
    positions = (torch.arange(ROWS)[:, None] * SEQ + torch.arange(0, SEQ, 4)[None]).flatten()
    labels = ids.flatten()[positions]
    hidden = ids.flatten().index_fill(0, positions, 0).view(ROWS, SEQ)
    return {"input_ids": hidden, "masked_positions": positions, "labels": labels}


def masked_labels(batch):
    full = torch.full((ROWS * SEQ,), -100)
    full[batch["masked_positions"]] = batch["labels"]
    return full.view(ROWS, SEQ)


def test_bert_learns_as_its_peer_does():
    peer = peers.peer_bert()
    weights = {k: v.clone() for k, v in peers.weights_of_bert(peer).items()}
    batches = [masked(ids) for ids in texts()]
    ours = our_losses(MaskedLM(**recipe(peers.bert_config())), weights, batches)
    theirs = their_losses(peer.train(), batches, masked_labels)
    assert ours == pytest.approx(theirs, abs=1e-3)
    assert ours[-1] < ours[0] - 0.2


def test_gpt_learns_as_its_peer_does():
    peer = peers.peer_gpt2()
    weights = {k: v.clone() for k, v in peers.weights_of_gpt2(peer).items()}
    batches = []
    for ids in texts():
        labels = ids.roll(-1, dims=1)
        labels[:, -1] = -100
        batches.append({"input_ids": ids, "labels": labels})
    ours = our_losses(CausalLM(**recipe(peers.gpt2_config())), weights, batches)
    # The peer shifts the labels itself.
    theirs = their_losses(peer.train(), batches, lambda batch: batch["input_ids"])
    assert ours == pytest.approx(theirs, abs=1e-3)
    assert ours[-1] < ours[0] - 0.5
