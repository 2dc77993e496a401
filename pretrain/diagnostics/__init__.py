"""Observers: they watch a network train and report to the loggers; the network knows nothing."""

from pretrain.diagnostics import views
from pretrain.diagnostics.alerts import Alert, Alerts
from pretrain.diagnostics.attention_entropy import AttentionEntropy, attention_entropy
from pretrain.diagnostics.dead_units import DeadUnits, count_active
from pretrain.diagnostics.forward_probe import ForwardProbe
from pretrain.diagnostics.loss_level import LossLevel
from pretrain.diagnostics.step_observer import StepObserver
from pretrain.diagnostics.throughput import Throughput

SYMPTOMS = (
    *LossLevel.symptoms,
    *StepObserver.symptoms,
    *views.EntropyView.symptoms,
    *views.AttentionLogitsView.symptoms,
    *views.DeadUnitsView.symptoms,
    *views.NormInputsView.symptoms,
    *views.HeadSimilarityView.symptoms,
    *views.EmbeddingsView.symptoms,
)

__all__ = [
    "SYMPTOMS",
    "Alert",
    "Alerts",
    "AttentionEntropy",
    "DeadUnits",
    "ForwardProbe",
    "LossLevel",
    "StepObserver",
    "Throughput",
    "attention_entropy",
    "count_active",
]
