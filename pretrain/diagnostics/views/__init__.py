"""What the forward probe looks at: one file for each concern."""

from pretrain.diagnostics.views.attention_logits import AttentionLogitsView
from pretrain.diagnostics.views.dead_units import DeadUnitsView
from pretrain.diagnostics.views.embeddings import EmbeddingsView
from pretrain.diagnostics.views.entropy import EntropyView
from pretrain.diagnostics.views.head_similarity import HeadSimilarityView
from pretrain.diagnostics.views.norm_inputs import NormInputsView
from pretrain.diagnostics.views.residual_stream import ResidualStreamView
from pretrain.diagnostics.views.view import ProbeView

__all__ = [
    "AttentionLogitsView",
    "DeadUnitsView",
    "EmbeddingsView",
    "EntropyView",
    "HeadSimilarityView",
    "NormInputsView",
    "ProbeView",
    "ResidualStreamView",
]
