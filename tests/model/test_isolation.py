"""Documents that share a row and don't see each other."""

import pytest
import torch

from pretrain.model import Transformer, TransformerConfig, initialize

VOCAB, LENGTHS = 31, (4, 1, 7, 3)
IDS = torch.randint(0, VOCAB, (1, sum(LENGTHS)), generator=torch.Generator().manual_seed(1))
DOCUMENTS = torch.repeat_interleave(torch.arange(len(LENGTHS)), torch.tensor(LENGTHS))[None]
SPANS = [(sum(LENGTHS[:i]), sum(LENGTHS[: i + 1])) for i in range(len(LENGTHS))]
POSITIONS = ["rotary", "learned", "sinusoidal", "alibi", "none"]


def build(causal, **changes):
    torch.manual_seed(0)
    options = {"vocab_size": VOCAB, "d_model": 16, "n_layers": 2, "n_heads": 2, "max_len": 16}
    transformer = Transformer(TransformerConfig(**{**options, "init": "normal", **changes}), causal)
    initialize(transformer)
    for parameter in transformer.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return transformer.double().eval()


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 3])
def test_a_document_in_a_row_is_what_it_is_alone(position, causal, window):
    model = build(causal, position=position, sliding_window=window)
    packed = model(IDS, document_ids=DOCUMENTS)
    for first, last in SPANS:
        torch.testing.assert_close(packed[:, first:last], model(IDS[:, first:last]))


@pytest.mark.parametrize("causal", [True, False])
def test_neither_values_nor_gradients_pass_from_one_to_another(causal):
    model = build(causal)
    packed = model(IDS, document_ids=DOCUMENTS)
    changed = IDS.clone()
    changed[0, 6] = (changed[0, 6] + 1) % VOCAB  # in document 2
    again = model(changed, document_ids=DOCUMENTS)
    others = DOCUMENTS[0] != 2
    assert torch.equal(packed[:, others], again[:, others])
    assert not torch.equal(packed[:, ~others], again[:, ~others])
    kept = {}

    def keep(_, inputs, output):
        output.retain_grad()
        kept["x"] = output

    handle = model.embeddings.register_forward_hook(keep)
    model(IDS, document_ids=DOCUMENTS)[:, 5:12].square().sum().backward()
    handle.remove()
    assert (kept["x"].grad[:, others] == 0).all()
    assert (kept["x"].grad[:, ~others] != 0).any(-1).all()


def test_with_padding_documents_count_their_own_real_tokens():
    model = build(False, position="learned")
    padding = torch.ones_like(IDS, dtype=torch.bool)
    padding[0, 12:] = False
    packed = model(IDS, attention_mask=padding, document_ids=DOCUMENTS)
    torch.testing.assert_close(packed[:, 5:12], model(IDS[:, 5:12]))
    assert packed.isfinite().all()


def test_one_document_a_row_is_no_isolation_at_all():
    for causal in (True, False):
        model = build(causal, position="learned")
        alone = torch.zeros_like(DOCUMENTS)
        torch.testing.assert_close(model(IDS, document_ids=alone), model(IDS))


def test_compiled_it_is_the_same():
    model = build(True)
    expected = model(IDS, document_ids=DOCUMENTS)
    model.compile(backend="eager", fullgraph=True)
    torch.testing.assert_close(model(IDS, document_ids=DOCUMENTS), expected)
