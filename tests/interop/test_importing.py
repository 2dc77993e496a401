import json

import peers
import pytest
import torch
import transformers
from portables import largest_difference, padded_batch, shaken, task_of
from safetensors.torch import load_file, save_file

from pretrain.errors import UserError
from pretrain.interop import read_folder

NO_TOKENIZER = "There is no tokenizer.json, vocab.json or vocab.txt: no tokenizer."


def saved(peer, folder, **config):
    """The peer's folder, with changes to its config.json."""
    shaken(peer).save_pretrained(folder)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return folder


def change_weights(folder, change):
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def without_prefix(prefix):
    return lambda tensors: {n.removeprefix(prefix): t.clone() for n, t in tensors.items()}


def same_logits(model, peer):
    ids, mask = padded_batch()
    with torch.no_grad():
        theirs = peer(ids, attention_mask=mask.long()).logits
        ours = task_of(model)(ids, mask)
    return largest_difference(ours[mask], theirs[mask]) < 1e-5


@pytest.mark.parametrize(
    ("make", "prefix"),
    [
        (peers.peer_bert, "bert."),
        (peers.peer_gpt2, "transformer."),
        (peers.peer_llama, "model."),
        (peers.peer_nanochat, "model."),
        (peers.peer_eurobert, "model."),
    ],
)
def test_the_prefix_of_the_block_stack_may_be_left_out(make, prefix, tmp_path):
    peer = make()
    change_weights(saved(peer, tmp_path / "x"), without_prefix(prefix))
    model, notes = read_folder(tmp_path / "x")
    assert notes == [NO_TOKENIZER]
    assert same_logits(model, peer)


def test_shards_are_read_together(tmp_path):
    peer = shaken(peers.peer_llama())
    peer.save_pretrained(tmp_path / "x", max_shard_size="20KB")
    assert len(list((tmp_path / "x").glob("*.safetensors"))) > 1
    assert same_logits(read_folder(tmp_path / "x")[0], peer)


def test_heads_for_other_tasks_are_dropped_by_name(tmp_path):
    config = peers.peer_bert().config
    saved(transformers.BertForPreTraining(config), tmp_path / "x")
    model, notes = read_folder(tmp_path / "x")
    assert model.objective == "mlm"
    assert notes == ["Dropped heads: bert.pooler.dense, cls.seq_relationship.", NO_TOKENIZER]


def test_a_head_that_is_no_classifier_leaves_an_encoder_with_its_pooler(tmp_path):
    peer = transformers.BertForMultipleChoice(peers.peer_bert().config)
    saved(peer, tmp_path / "x")
    model, notes = read_folder(tmp_path / "x")
    assert (model.objective, model.has_pooler) == ("encoder", True)
    assert "Dropped heads: classifier." in notes
    assert any("head" in note and "encoder" in note for note in notes)
    ids, mask = padded_batch()
    task = task_of(model)
    with torch.no_grad():
        theirs = peer.bert(ids, attention_mask=mask.long())
        hidden = task(ids, mask)
        assert largest_difference(hidden[mask], theirs.last_hidden_state[mask]) < 1e-5
        assert largest_difference(task.pooler(hidden), theirs.pooler_output) < 1e-5


def test_a_tied_eurobert_without_a_head_is_told_by_its_class(tmp_path):
    peer = peers.peer_eurobert(tie_word_embeddings=True)
    saved(peer.model, tmp_path / "x")
    assert read_folder(tmp_path / "x")[0].objective == "encoder"


def test_a_block_stack_alone_gets_a_new_head_where_it_is_untied(tmp_path):
    saved(peers.peer_llama().model, tmp_path / "x")
    model, notes = read_folder(tmp_path / "x")
    assert any("head is new" in note for note in notes)
    assert 0 < float(model.state["head.decoder.weight"].std()) < 0.03
    saved(peers.peer_gpt2().transformer, tmp_path / "tied")
    assert read_folder(tmp_path / "tied")[1] == [NO_TOKENIZER]


def test_missing_and_unexpected_tensors_are_named(tmp_path):
    def change(tensors):
        del tensors["bert.encoder.layer.1.output.dense.bias"]
        return {**tensors, "bert.adapter.weight": torch.zeros(2)}

    change_weights(saved(peers.peer_bert(), tmp_path / "x"), change)
    with pytest.raises(UserError) as error:
        read_folder(tmp_path / "x")
    assert "missing bert.encoder.layer.1.output.dense.bias" in str(error.value)
    assert "left over bert.adapter.weight" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_head_in_part_is_no_head(tmp_path):
    def change(tensors):
        del tensors["cls.predictions.transform.dense.bias"]
        return tensors

    change_weights(saved(peers.peer_bert(), tmp_path / "x"), change)
    with pytest.raises(UserError, match=r"missing cls\.predictions\.transform\.dense\.bias"):
        read_folder(tmp_path / "x")


@pytest.mark.parametrize("columns", [31, 33])
def test_another_shape_than_the_configuration_says_is_refused(columns, tmp_path):
    def change(tensors):
        name = "model.layers.0.self_attn.k_proj.weight"
        return {**tensors, name: torch.zeros(32, columns)}

    change_weights(saved(peers.peer_llama(), tmp_path / "x"), change)
    with pytest.raises(UserError, match="shape"):
        read_folder(tmp_path / "x")


def test_buffers_of_earlier_versions_are_no_weights(tmp_path):
    def gpt2(tensors):
        mask = torch.ones(1, 1, 24, 24)
        more = {
            "transformer.h.0.attn.bias": mask,
            "transformer.h.1.attn.masked_bias": torch.ones(1),
        }
        return {**tensors, **more}

    peer = peers.peer_gpt2()
    change_weights(saved(peer, tmp_path / "gpt2"), gpt2)
    assert same_logits(read_folder(tmp_path / "gpt2")[0], peer)

    def bert(tensors):
        return {**tensors, "bert.embeddings.position_ids": torch.arange(24)[None]}

    change_weights(saved(peers.peer_bert(), tmp_path / "bert"), bert)
    read_folder(tmp_path / "bert")

    def llama(tensors):
        return {**tensors, "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}

    change_weights(saved(peers.peer_llama(), tmp_path / "llama"), llama)
    read_folder(tmp_path / "llama")


def test_a_tied_head_that_was_saved_has_to_be_the_embedding(tmp_path):
    def same(tensors):
        return {**tensors, "lm_head.weight": tensors["transformer.wte.weight"].clone()}

    def other(tensors):
        return {**tensors, "lm_head.weight": tensors["transformer.wte.weight"] + 1}

    peer = peers.peer_gpt2()
    change_weights(saved(peer, tmp_path / "x"), same)
    assert same_logits(read_folder(tmp_path / "x")[0], peer)
    change_weights(tmp_path / "x", other)
    with pytest.raises(UserError, match=r"tie_word_embeddings is true, but lm_head\.weight"):
        read_folder(tmp_path / "x")


def test_half_precision_becomes_float32_and_is_told(tmp_path):
    saved(peers.peer_llama().bfloat16(), tmp_path / "x")
    model, notes = read_folder(tmp_path / "x")
    assert "Weights in bfloat16 become float32." in notes
    assert {tensor.dtype for tensor in model.state.values()} == {torch.float32}
    peer = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "x", dtype=torch.float32)
    assert same_logits(model, peer.eval())


BERT = {
    "position_embedding_type": "relative_key", "is_decoder": True, "add_cross_attention": True,
    "hidden_act": "mish", "vocab_size": None, "hidden_size": "32", "num_attention_heads": 5,
    "quantization_config": {"bits": 4}, "model_type": "roberta",
}  # fmt: skip
GPT2 = {
    "scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False,
    "add_cross_attention": True, "activation_function": "mish", "embd_pdrop": 0.3,
}  # fmt: skip
LLAMA = {
    "hidden_act": "gelu", "head_dim": 16, "sliding_window": 8, "attention_bias": True,
    "mlp_bias": True, "rope_parameters": {"rope_type": "llama3"}, "rope_scaling": {"type": "yarn"},
    "partial_rotary_factor": 0.5, "num_key_value_heads": 3,
}  # fmt: skip
NANOCHAT = {"final_logit_softcapping": 15.0, "attention_bias": True, "hidden_act": "silu"}


@pytest.mark.parametrize(
    ("make", "field", "value"),
    [
        pytest.param(make, field, value, id=f"{make.__name__}-{field}")
        for make, fields in (
            (peers.peer_bert, BERT),
            (peers.peer_gpt2, GPT2),
            (peers.peer_llama, LLAMA),
            (peers.peer_nanochat, NANOCHAT),
        )
        for field, value in fields.items()
    ],
)
def test_what_would_change_the_computation_is_refused_by_name(make, field, value, tmp_path):
    saved(make(), tmp_path / "x", **{field: value})
    ours = {"num_attention_heads": "n_heads", "num_key_value_heads": "n_kv_heads",
            "mlp_bias": "attention_bias"}  # fmt: skip
    with pytest.raises(UserError, match=ours.get(field, field)) as error:
        read_folder(tmp_path / "x")
    assert "config.json" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("field", ["hidden_size", "type_vocab_size", "vocab_size"])
@pytest.mark.parametrize("value", [10**9, 10**12, 10**30])
def test_a_size_beyond_all_networks_is_refused_at_once(field, value, tmp_path):
    saved(peers.peer_bert(), tmp_path / "x", **{field: value})
    with pytest.raises(UserError, match=str(value)):
        read_folder(tmp_path / "x")


def test_more_layers_than_tensors_are_refused_at_once(tmp_path):
    saved(peers.peer_bert(), tmp_path / "x", num_hidden_layers=10**7)
    with pytest.raises(UserError, match="tensors can't be 10000000 layers"):
        read_folder(tmp_path / "x")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_refused(value, tmp_path):
    saved(peers.peer_bert(), tmp_path / "x", layer_norm_eps=value)
    with pytest.raises(UserError, match="norm_eps is "):
        read_folder(tmp_path / "x")


def test_a_cap_on_the_logits_that_is_left_out_is_the_classs_own(tmp_path):
    folder = saved(peers.peer_nanochat(), tmp_path / "x")
    config = json.loads((folder / "config.json").read_text())
    del config["final_logit_softcapping"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="final_logit_softcapping is 'left out"):
        read_folder(folder)


def test_dropout_is_taken_over(tmp_path):
    peer = peers.peer_bert()
    folder = saved(peer, tmp_path / "x", hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3)
    config = read_folder(folder)[0].config
    assert (config.dropout, config.attention_dropout) == (0.2, 0.3)


@pytest.mark.parametrize(
    ("stated", "length"),
    [(1000000000000000019884624838656, 24), (1e30, 24), (None, 24), (16, 16), (512, 24), (0.5, 1)],
)
def test_no_limit_is_never_taken_for_a_length(stated, length, tmp_path):
    folder = saved(peers.peer_bert(), tmp_path / "x")
    settings = {"model_max_length": stated, "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    model, _ = read_folder(folder)
    assert model.trained_len == length
    assert model.config.max_len == 24


def test_what_is_no_folder_of_weights_is_told(tmp_path):
    with pytest.raises(UserError, match="is no folder"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"holds no config\.json"):
        read_folder(tmp_path)
