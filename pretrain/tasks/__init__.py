"""Objectives as LightningModules: what is learned, and by which recipe.

Reading order: base, language_model, masked_lm, causal_lm, encoder,
classification, losses, gradients, optimizer, parameter_groups, schedule, metrics.
"""

from pretrain.tasks.base import TransformerTask
from pretrain.tasks.causal_lm import CausalLM
from pretrain.tasks.classification import Classification
from pretrain.tasks.encoder import Encoder
from pretrain.tasks.finetuning import FinetuningConfig
from pretrain.tasks.language_model import LanguageModel
from pretrain.tasks.loading import load_task, save_task
from pretrain.tasks.loss_spikes import LossSpikes
from pretrain.tasks.masked_lm import MaskedLM
from pretrain.tasks.optimizer import MuonAdamW, OptimizerConfig
from pretrain.tasks.schedule import ScheduleConfig

__all__ = [
    "CausalLM",
    "Classification",
    "Encoder",
    "FinetuningConfig",
    "LanguageModel",
    "LossSpikes",
    "MaskedLM",
    "MuonAdamW",
    "OptimizerConfig",
    "ScheduleConfig",
    "TransformerTask",
    "load_task",
    "save_task",
]
