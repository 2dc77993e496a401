"""Observers: they watch a network train and report to the loggers; the network knows nothing."""

from pretrain.diagnostics.attention_entropy import AttentionEntropy, attention_entropy
from pretrain.diagnostics.dead_units import DeadUnits, count_active
from pretrain.diagnostics.forward_probe import ForwardProbe
from pretrain.diagnostics.step_observer import StepObserver
from pretrain.diagnostics.throughput import Throughput

__all__ = [
    "AttentionEntropy",
    "DeadUnits",
    "ForwardProbe",
    "StepObserver",
    "Throughput",
    "attention_entropy",
    "count_active",
]
