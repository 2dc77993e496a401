"""The peer's side of the benches of the training step: transformers in a plain loop.

Labels are what its examples run_mlm and run_clm pass. What it could do without is left out: no
attention mask, as no token is filler, and no cache of keys and values.
"""

from __future__ import annotations

from typing import Any

import torch
from step_workers import Job, Turns, train_in_a_loop
from step_workloads import Batch, Workload, batches, loader
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

from pretrain.hardware import device_of

IGNORED = -100  # label of a token that is no target


def train(job: Job, turns: Turns, *, attention: str, is_compiled: bool = False) -> None:
    """Train as the job says, with AdamW in one kernel as on our side."""
    logging.set_verbosity_error()
    model = build(job.workload, attention).to(device_of()).train()
    if is_compiled:
        model.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    given = [as_passed(batch) for batch in batches(job.workload)]
    n_micro_batches = job.total_steps * job.workload.accumulate
    train_in_a_loop(
        job, turns, lambda batch: model(**batch).loss, optimizer, loader(given, n_micro_batches)
    )


def build(workload: Workload, attention: str) -> Any:
    """The model of this shape without dropout, with random weights."""
    d_model = workload.d_model
    kernel: dict[str, Any] = {"attn_implementation": attention}
    if workload.kind == "bert":
        bert = BertConfig(
            vocab_size=workload.vocab_size, hidden_size=d_model, intermediate_size=4 * d_model,
            num_hidden_layers=workload.n_layers, num_attention_heads=workload.n_heads,
            max_position_embeddings=workload.seq_len, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0, **kernel,
        )  # fmt: skip
        return BertForMaskedLM(bert)
    gpt = GPT2Config(
        vocab_size=workload.vocab_size, n_embd=d_model, n_layer=workload.n_layers,
        n_head=workload.n_heads, n_positions=workload.seq_len, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=None, eos_token_id=None, use_cache=False,
        **kernel,
    )  # fmt: skip
    return GPT2LMHeadModel(gpt)


def as_passed(batch: Batch) -> Batch:
    """Our micro-batch as the peer takes it.

    A label for every token: of a masked model ``IGNORED`` where nothing was hidden; of a causal one
    the inputs themselves, which the peer shifts, so that the last token of a row has no target.
    """
    input_ids = batch["input_ids"]
    if "masked_positions" not in batch:
        return {"input_ids": input_ids, "labels": input_ids}
    is_target = batch["labels"] != IGNORED
    labels = torch.full_like(input_ids, IGNORED)
    labels.view(-1)[batch["masked_positions"][is_target]] = batch["labels"][is_target]
    return {"input_ids": input_ids, "labels": labels}
