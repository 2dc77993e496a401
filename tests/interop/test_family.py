import peers
import pytest

from pretrain.errors import UserError
from pretrain.interop import Portable
from pretrain.interop.families import FAMILIES
from pretrain.interop.family import choose
from pretrain.model import TransformerConfig


def refusal(objective, **network):
    recipe = {"bert": peers.BERT, "gpt2": peers.GPT2}.get(network.pop("recipe", None), {})
    config = TransformerConfig(**{"vocab_size": 97, **recipe, **network})
    with pytest.raises(UserError) as error:
        choose(Portable(config, objective, {}), FAMILIES)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("objective", "network", "words"),
    [
        ("clm", {"position": "alibi"}, "NanoChatForCausalLM, the nearest, needs position rotary "
         "(it is alibi)."),
        ("clm", {"position": "xpos"}, "position rotary (it is xpos)"),
        ("clm", {"n_experts": 4}, "n_experts 0 (it is 4)"),
        ("clm", {"sliding_window": 8}, "sliding_window null (it is 8)"),
        ("clm", {"parallel_blocks": True}, "parallel_blocks false (it is true)"),
        ("clm", {"norm_gain": True}, "norm_gain false (it is true)"),
        ("clm", {"recipe": "gpt2", "position": "sinusoidal"}, "learned (it is sinusoidal)"),
        ("clm", {"recipe": "gpt2", "n_kv_heads": 2}, "n_kv_heads null or 4 (it is 2)"),
        ("mlm", {"recipe": "bert", "qk_norm": True}, "BertForMaskedLM, the nearest, needs qk_norm "
         "false (it is true)"),
        ("mlm", {"recipe": "bert", "position_scale": 2.0}, "position_scale null or 1.0"),
        ("mlm", {"recipe": "bert", "head_transform": False}, "head_transform true"),
        # Our default BERT.
        ("mlm", {"head_bias": True}, "EuroBertForMaskedLM, the nearest, needs embedding_norm false "
         "(it is true), qk_norm false (it is true), activation swiglu (it is relu2)"),
        ("encoder", {"recipe": "bert", "norm_position": "pre"}, "BertModel, the nearest, needs "
         "norm_position post"),
    ],
)  # fmt: skip
def test_what_no_class_computes_is_refused_by_name_with_what_would_fit(objective, network, words):
    assert words in refusal(objective, **network)


def test_an_objective_without_any_class_is_told():
    assert "'ranking' has no class" in refusal("ranking")


def test_a_head_that_is_not_there_cannot_be_wrong():
    config = TransformerConfig(**{**peers.BERT, "head_transform": False, "head_bias": False})
    assert choose(Portable(config, "encoder", {}), FAMILIES).model_type == "bert"
