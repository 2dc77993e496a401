"""Models of both sides of an exchange of weights, and a batch for both."""

import peers
import torch

from pretrain.commands.export import classifier_of
from pretrain.commands.import_ import task_of as untrained
from pretrain.interop import Portable, export_folder

SCALED = {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}
# Everything that is exchanged, as its class in `transformers` with weights that all matter.
PEERS = {
    "bert": peers.peer_bert,
    "bert untied": lambda: peers.peer_bert(tie_word_embeddings=False),
    "gpt2": peers.peer_gpt2,
    "gpt2 untied": lambda: peers.peer_gpt2(tie_word_embeddings=False),
    "llama": peers.peer_llama,
    "llama tied, grouped": lambda: peers.peer_llama(
        num_key_value_heads=2, tie_word_embeddings=True
    ),
    "llama scaled": lambda: peers.peer_llama(rope_parameters=SCALED),
    "llama biases": lambda: peers.peer_llama(attention_bias=True, mlp_bias=True),
    "nanochat": peers.peer_nanochat,
    "nanochat tied, grouped": lambda: peers.peer_nanochat(
        num_key_value_heads=2, tie_word_embeddings=True
    ),
    "eurobert": lambda: peers.peer_eurobert(num_key_value_heads=2),
    "eurobert tied": lambda: peers.peer_eurobert(tie_word_embeddings=True),
    "eurobert biases": lambda: peers.peer_eurobert(attention_bias=True, mlp_bias=True),
}


def shaken(network):
    """The network in evaluation mode, with no weight left at 0 or 1."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    return network.eval()


def task_of(model):
    """A Portable's network as the task that it is for."""
    return untrained(model).eval()


def portable_of(task):
    """The inverse."""
    state = {name: tensor.clone() for name, tensor in task.state_dict().items()}
    return Portable(
        task.config,
        task.objective,
        state,
        task.tokenizer_json,
        task.trained_len,
        classifier_of(task.objective, task.hparams),
    )


def exported(task, folder):
    """The task's network in ``folder``; returns the name of the class."""
    return export_folder(portable_of(task), folder, {})


def padded_batch(vocab_size=peers.VOCAB):
    """Token ids ``(3, 20)`` and their mask: one row has filler on the right."""
    ids = torch.randint(0, vocab_size, (3, 20), generator=torch.Generator().manual_seed(5))
    mask = torch.ones(3, 20, dtype=torch.bool)
    mask[1, 13:] = False
    return ids, mask


def largest_difference(here, there):
    return float((here - there).abs().max())
