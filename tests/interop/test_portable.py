import peers
import pytest
import torch
from portables import portable_of
from tiny import make_task

from pretrain.errors import UserError
from pretrain.interop.portable import HEAD


@pytest.fixture
def model():
    return portable_of(make_task("mlm", network=peers.BERT))


def test_the_state_of_a_task_is_what_its_configuration_asks_for(model):
    model.check("x.ckpt")


@pytest.mark.parametrize("compiled", ["_orig_mod.", "transformer._orig_mod."])
def test_keys_of_a_compiled_wrapper_are_left_over(model, compiled):
    name = "transformer.final"
    model.state[f"{compiled}{name}"] = torch.zeros(2)
    with pytest.raises(UserError, match=rf"x\.ckpt .* left over {compiled}{name}"):
        model.check("x.ckpt")


def test_missing_tensors_are_named(model):
    del model.state["transformer.blocks.1.attention.qkv.bias"]
    with pytest.raises(UserError, match=r"missing transformer\.blocks\.1\.attention\.qkv\.bias"):
        model.check("x.ckpt")


def test_another_shape_is_named_with_both(model):
    model.state["head.transform.0.bias"] = torch.zeros(31)
    with pytest.raises(UserError, match=r"head\.transform\.0\.bias has the shape \(31,\).*\(32,\)"):
        model.check("x.ckpt")


def test_a_tied_head_that_is_not_the_embedding_is_refused(model):
    model.state[HEAD] = model.state[HEAD] + 1
    with pytest.raises(UserError, match="tie_embeddings is true"):
        model.check("x.ckpt")
