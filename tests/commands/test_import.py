import peers
import pytest
import torch
import transformers
from portables import padded_batch, shaken
from safetensors.torch import load_file

from pretrain.commands.export import run as export
from pretrain.commands.import_ import run
from pretrain.errors import UserError
from pretrain.tasks import load_task


def folder_of(peer, path):
    shaken(peer).save_pretrained(path)
    return str(path)


def peer_classifier():
    return transformers.BertForSequenceClassification(peers.peer_bert().config)


@pytest.mark.parametrize(
    ("make", "objective", "command"),
    [
        (peers.peer_bert, "mlm", "pretrain fill-mask"),
        (peers.peer_gpt2, "clm", "pretrain generate"),
        (lambda: peers.peer_bert().bert, "encoder", "--init_from"),
        (peer_classifier, "classification", "pretrain classify"),
    ],
)
def test_a_checkpoint_is_made_that_every_command_reads(make, objective, command, tmp_path, capsys):
    peer = make()
    run([folder_of(peer, tmp_path / "x"), str(tmp_path / "x.ckpt")])
    said = capsys.readouterr().out
    assert f"x.ckpt: {objective}, 2 layers" in said
    assert command in said
    task = load_task(str(tmp_path / "x.ckpt"))
    assert (task.objective, task.trained_len) == (objective, peers.MAX_LEN)
    ids, mask = padded_batch()
    with torch.no_grad():
        theirs = peer(ids, attention_mask=mask.long())[0]
        difference = task(ids, mask) - theirs
    if objective != "classification":
        difference = difference[mask]
    assert float(difference.abs().max()) < 1e-5


def test_exported_again_every_bit_is_the_same(tmp_path):
    folder = folder_of(peers.peer_llama(num_key_value_heads=2), tmp_path / "x")
    run([folder, str(tmp_path / "x.ckpt")])
    export([str(tmp_path / "x.ckpt"), str(tmp_path / "again")])
    here, there = (load_file(tmp_path / name / "model.safetensors") for name in ("again", "x"))
    assert here.keys() == there.keys()
    assert all(torch.equal(here[name], there[name]) for name in here)
    assert "Nothing is known" in (tmp_path / "again" / "README.md").read_text()


def test_what_was_dropped_is_said(tmp_path, capsys):
    peer = transformers.BertForPreTraining(peers.peer_bert().config)
    run([folder_of(peer, tmp_path / "x"), str(tmp_path / "x.ckpt")])
    assert "Dropped heads: bert.pooler.dense, cls.seq_relationship." in capsys.readouterr().out


def test_a_file_that_is_there_is_left_alone(tmp_path):
    (tmp_path / "x.ckpt").write_text("mine")
    with pytest.raises(UserError, match="is there already"):
        run([folder_of(peers.peer_gpt2(), tmp_path / "x"), str(tmp_path / "x.ckpt")])
    assert (tmp_path / "x.ckpt").read_text() == "mine"


def test_nothing_is_written_for_a_folder_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match="is no folder"):
        run([str(tmp_path / "nowhere"), str(tmp_path / "x.ckpt")])
    assert list(tmp_path.iterdir()) == []
