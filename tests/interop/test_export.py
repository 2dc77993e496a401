import json
import stat

import peers
import pytest
import torch
import transformers
from disks import full_disk
from portables import exported, largest_difference, portable_of, shaken
from safetensors import safe_open
from tiny import make_task

from pretrain.data.tokenizer_training import TokenizerRule, train_tokenizer
from pretrain.errors import UserError
from pretrain.interop import export as export_module
from pretrain.interop import export_folder
from pretrain.tasks import Encoder


@pytest.fixture
def bert():
    return portable_of(make_task("mlm", network=peers.BERT))


def test_the_folder_is_complete_and_readable_by_others(bert, tmp_path):
    assert export_folder(bert, tmp_path / "new" / "x", {}) == "BertForMaskedLM"
    folder = tmp_path / "new" / "x"
    assert {p.name for p in folder.iterdir()} == {"config.json", "model.safetensors", "README.md"}
    with safe_open(folder / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
    readable = stat.S_IMODE((folder / "config.json").stat().st_mode)
    assert stat.S_IMODE((folder / "model.safetensors").stat().st_mode) == readable
    (tmp_path / "usual").mkdir()
    assert folder.stat().st_mode == (tmp_path / "usual").stat().st_mode
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["BertForMaskedLM"]
    assert config["dtype"] == "float32"


def test_a_folder_with_something_in_it_is_left_alone(bert, tmp_path):
    folder = tmp_path / "x"
    folder.mkdir()
    export_folder(bert, folder, {})  # an empty one is as good as none
    before = (folder / "config.json").read_bytes()
    with pytest.raises(UserError, match="is there already"):
        export_folder(bert, folder, {})
    assert (folder / "config.json").read_bytes() == before
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is there already"):
        export_folder(bert, tmp_path / "file", {})


def test_nothing_half_written_is_left_behind(bert, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export_module, "write_weights", full)
    with pytest.raises(UserError, match=r"can't be written .No space left"):
        export_folder(bert, tmp_path / "x", {})
    assert list(tmp_path.iterdir()) == []


def test_wrong_keys_are_an_error_before_anything_is_written(bert, tmp_path):
    bert.state["transformer.extra"] = torch.zeros(1)
    with pytest.raises(UserError, match=r"left over transformer\.extra"):
        export_folder(bert, tmp_path / "x", {})
    assert list(tmp_path.iterdir()) == []


def test_a_tensor_that_the_class_has_no_place_for_is_an_error(tmp_path):
    network = {"vocab_size": 97, "norm_gain": True, "embedding_norm": False, "qk_norm": False,
               "activation": "swiglu"}  # fmt: skip
    task = Encoder(make_task("mlm", network=network).config, pooler=True)
    task.configure_model()
    with pytest.raises(UserError, match=r"EuroBertModel has no place .* pooler\.dense\.bias"):
        exported(task, tmp_path / "x")


@pytest.mark.parametrize("pooler", [True, False])
def test_an_encoder_becomes_the_bare_class_with_its_pooler(pooler, tmp_path):
    torch.manual_seed(0)
    task = Encoder(peers.bert_config(), pooler=pooler)
    task.configure_model()
    assert exported(shaken(task), tmp_path / "x") == "BertModel"
    peer, info = transformers.AutoModel.from_pretrained(
        tmp_path / "x", output_loading_info=True, add_pooling_layer=pooler
    )
    assert not any(info.values())
    ids = torch.randint(0, peers.VOCAB, (2, 9))
    segments = torch.tensor([[0] * 5 + [1] * 4] * 2)
    with torch.no_grad():
        theirs = peer.eval()(ids, token_type_ids=segments)
        hidden = task(ids, segment_ids=segments)
        assert largest_difference(hidden, theirs.last_hidden_state) < 1e-5
        if pooler:
            assert largest_difference(task.pooler(hidden), theirs.pooler_output) < 1e-5


def test_a_gpt_with_berts_tokenizer_ends_where_its_documents_did(tmp_path):
    tokenizer = train_tokenizer(["the cat sat"], TokenizerRule("wordpiece"))
    task = make_task("clm", network={"vocab_size": tokenizer.vocab_size})
    task.tokenizer_json = tokenizer.to_json()
    exported(task, tmp_path / "x")
    for name in ("config.json", "generation_config.json"):
        assert json.loads((tmp_path / "x" / name).read_text())["eos_token_id"] == tokenizer.sep_id


def test_weights_in_half_precision_become_float32(bert, tmp_path):
    for name, tensor in bert.state.items():
        bert.state[name] = tensor.bfloat16()
    export_folder(bert, tmp_path / "x", {})
    with safe_open(tmp_path / "x" / "model.safetensors", "pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.float32}  # noqa: SIM118


def test_a_full_disk_is_told_in_one_sentence_and_leaves_nothing(bert, tmp_path):
    with full_disk(), pytest.raises(UserError, match="model can't be written"):
        export_folder(bert, tmp_path / "model", {})
    assert not list(tmp_path.iterdir())
