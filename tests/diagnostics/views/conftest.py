import pytest
import torch

from pretrain.model import Transformer, TransformerConfig

SHAPE = {"vocab_size": 17, "d_model": 16, "n_layers": 2, "n_heads": 4, "d_ff": 32, "init": "normal"}


@pytest.fixture
def network():
    """Makes a stack with large random weights, so that nothing is near uniform."""

    def make(causal=True, **config):
        torch.manual_seed(0)
        transformer = Transformer(TransformerConfig(**{**SHAPE, **config}), causal)
        for parameter in transformer.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        return transformer.eval()

    return make


@pytest.fixture
def look():
    """Lets a view see one batch, ``(batch, seq)`` bool of real tokens included."""

    @torch.no_grad()
    def look(view, transformer, input_ids, real=None):
        real = torch.ones_like(input_ids, dtype=torch.bool) if real is None else real
        hooks = [
            seam.register_forward_pre_hook(
                lambda part, inputs, key=key: view.observe(key, part, inputs, real)
            )
            for key, seam in view.seams(transformer)
        ]
        transformer(input_ids, None if real.all() else real)
        for hook in hooks:
            hook.remove()
        return view.metrics()

    return look


@pytest.fixture
def ids():
    return torch.randint(0, 17, (3, 9), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def real():
    """Rows of 9, 6 and 3 real tokens, padded on the right."""
    return torch.arange(9)[None] < torch.tensor([9, 6, 3])[:, None]
