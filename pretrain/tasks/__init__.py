"""Objectives as LightningModules: what is learned, and by which recipe.

Reading order: base, masked_lm, causal_lm, losses, gradients, optimizer, parameter_groups,
schedule, metrics.
"""

from pretrain.tasks.base import LanguageModel
from pretrain.tasks.causal_lm import CausalLM
from pretrain.tasks.loading import load_task
from pretrain.tasks.masked_lm import MaskedLM
from pretrain.tasks.optimizer import MuonAdamW, OptimizerConfig
from pretrain.tasks.schedule import ScheduleConfig

__all__ = [
    "CausalLM",
    "LanguageModel",
    "MaskedLM",
    "MuonAdamW",
    "OptimizerConfig",
    "ScheduleConfig",
    "load_task",
]
