"""Classification and regression of texts: what a pretrained network is fine-tuned on."""

from dataclasses import asdict
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from pretrain.data.labels import Labels
from pretrain.errors import UserError
from pretrain.model import Pooler, TransformerConfig, initialize
from pretrain.model.initialization import STD
from pretrain.model.pooling import Pooling, pool
from pretrain.tasks.base import Batch, TransformerTask, as_config
from pretrain.tasks.classification_score import ClassificationScore
from pretrain.tasks.finetuning import PUBLISHED_LR, PUBLISHED_OPTIMIZER, FinetuningConfig
from pretrain.tasks.label_losses import label_loss
from pretrain.tasks.losses import LossSums
from pretrain.tasks.optimizer import OptimizerConfig
from pretrain.tasks.parameter_groups import parameter_groups
from pretrain.tasks.schedule import ScheduleConfig


class Classification(TransformerTask):
    """A block stack, one vector for the text, and a linear layer over the labels.

    The labels come from the DataModule and are kept in the checkpoint.

    Args:
        network, lr, optimizer, schedule, compile, activation_checkpointing: See
            ``TransformerTask``.
        causal: Whether the block stack reads from left to right; with ``--init_from`` that of the
            checkpoint.
        pooling: ``cls`` (first token, through BERT's pooler), ``mean`` or ``last``; None is
            ``last`` for a causal block stack, which alone has seen all, else ``cls``.
        finetuning: Layer-wise rates, freezing, class weights and the like.
        labels: Kind and names; None until the DataModule is known.
        reads_pairs: Whether two texts are compared; None until the DataModule is known, and
            for weights that were trained elsewhere.

    Raises:
        ValueError: One sentence, for a configuration that cannot work.
    """

    objective: ClassVar[str] = "classification"

    def __init__(
        self,
        network: TransformerConfig = TransformerConfig(),  # noqa: B008  frozen
        lr: float = PUBLISHED_LR,
        optimizer: OptimizerConfig = PUBLISHED_OPTIMIZER,
        schedule: ScheduleConfig = ScheduleConfig(kind="linear", warmup=0.1),  # noqa: B008
        causal: bool = False,
        pooling: Pooling | None = None,
        finetuning: FinetuningConfig = FinetuningConfig(),  # noqa: B008
        labels: dict[str, Any] | None = None,
        reads_pairs: bool | None = None,
        compile: bool = False,
        activation_checkpointing: bool = False,
    ) -> None:
        self.causal = causal
        super().__init__(network, lr, optimizer, schedule, compile, activation_checkpointing)
        self.pooling: Pooling = pooling or ("last" if causal else "cls")
        self.finetuning = as_config(FinetuningConfig, finetuning)
        if self.finetuning.n_frozen > self.config.n_layers:
            raise ValueError(
                f"n_frozen ({self.finetuning.n_frozen}) is more than the {self.config.n_layers} "
                "blocks of this network."
            )
        self.labels: Labels | None = None if labels is None else Labels.from_dict(labels)
        self.reads_pairs = reads_pairs
        self.class_weights: Tensor | None = None
        self.pooler: Pooler | None = None
        self.classifier: nn.Linear = None  # type: ignore[assignment]  # see build_heads
        self.score: ClassificationScore = None  # type: ignore[assignment]
        self.confusion: list[list[int]] | None = None  # of the latest validation
        self.save_hyperparameters(
            {
                "causal": causal,
                "pooling": self.pooling,
                "finetuning": asdict(self.finetuning),
                "labels": labels,
                "reads_pairs": reads_pairs,
            }
        )

    # Building ----------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        """Take labels as well as tokenizer and vocabulary from the DataModule."""
        super().setup(stage)
        data = getattr(self.trainer, "datamodule", None)
        if data is None or not hasattr(data, "labels"):
            return
        if self.labels is None:
            self.labels = data.labels
            self.hparams["labels"] = data.labels.to_dict()
        elif self.labels != data.labels:
            raise UserError(
                f"The model's labels are {_shown(self.labels)}, the data's {_shown(data.labels)}: "
                "use the data that it was trained on."
            )
        self.reads_pairs = data.framing.pairs
        self.hparams["reads_pairs"] = self.reads_pairs
        if stage == "fit":
            weights = self.finetuning.weights_of(self.labels.kind, data.class_counts)
            self.class_weights = None if weights is None else torch.tensor(weights)

    def build_heads(self) -> None:
        """Pooler, classifier and score, in the size of the labels."""
        if self.labels is None:
            raise UserError("The labels are not known: train with a ClassificationDataModule.")
        n_outputs = self.labels.n_outputs
        self.pooler = Pooler(self.config) if self.pooling == "cls" else None
        self.dropout = nn.Dropout(self.finetuning.head_dropout)
        # Without a bias behind a causal network, as the classes of transformers have it.
        self.classifier = nn.Linear(self.config.d_model, n_outputs, bias=not self.causal)
        self.score = ClassificationScore(self.labels.kind, n_outputs)
        initialize(self.transformer)
        for part in (self.classifier, *([] if self.pooler is None else [self.pooler.dense])):
            nn.init.normal_(part.weight, std=STD)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        self._freeze()

    def _freeze(self) -> None:
        if self.finetuning.n_frozen:
            blocks = self.transformer.blocks[: self.finetuning.n_frozen]
            self.transformer.embeddings.requires_grad_(False)
            blocks.requires_grad_(False)

    # The network on a batch --------------------------------------------------------------------

    def logits(self, batch: Batch) -> Tensor:
        """``(rows, n_labels)``; of a regression ``(rows, 1)``."""
        state = pool(self.hidden_states(batch), batch["attention_mask"], self.pooling)
        if self.pooler is not None:
            state = self.pooler(state[:, None])
        return self.classifier(self.dropout(state))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor | None = None
    ) -> Tensor:
        """Logits ``(rows, n_labels)``, for use and inspection."""
        batch = {"input_ids": input_ids, "attention_mask": attention_mask}
        return self.logits(batch if segment_ids is None else {**batch, "segment_ids": segment_ids})

    def losses(self, batch: Batch) -> LossSums:
        """Sums over the labelled rows of ``batch``."""
        assert self.labels is not None
        logits = self.logits(batch)
        weights = None if self.class_weights is None else self.class_weights.to(logits.device)
        return label_loss(
            self.labels.kind, logits, batch["labels"], weights, self.finetuning.label_smoothing
        )

    # Training ----------------------------------------------------------------------------------

    @property
    def has_dropout(self) -> bool:
        """Whether anything is dropped in training, in front of the classifier too."""
        return super().has_dropout or self.finetuning.head_dropout > 0

    def nominal_targets(self, batch: Batch) -> int:
        """One: the number of rows may differ from batch to batch."""
        return 1

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Groups by depth, whose rates fall from the head down to the embeddings."""
        decay = self.finetuning.layer_decay
        return parameter_groups(self, self.optimizer_config, self.lr, layer_decay=decay)

    def group_factor(self, group: dict[str, Any], step: int) -> float:
        """During the first steps, if so asked, only the head moves."""
        below_the_head = group["depth"] is not None
        return 0.0 if below_the_head and step <= self.finetuning.head_only_steps else 1.0

    # Evaluation --------------------------------------------------------------------------------

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Add one batch to the figures of the split."""
        self.score.update(self.logits(batch), batch["labels"])

    test_step = validation_step

    def predict_step(self, batch: Batch, batch_idx: int) -> list[dict[str, Any]]:
        """For every row its ``index`` in the split and what :meth:`predictions` says of it."""
        rows = self.predictions(self.logits(batch))
        return [
            {"index": int(index), **row}
            for index, row in zip(batch["index"].tolist(), rows, strict=True)
            if index >= 0  # filler
        ]

    def predictions(self, logits: Tensor) -> list[dict[str, Any]]:
        """What each row of logits says: ``label`` and ``probabilities`` by name.

        Of several labels a text those of at least a half are in ``labels``; a regression gives
        its ``value``.
        """
        assert self.labels is not None
        kind, names, logits = self.labels.kind, self.labels.names, logits.float().cpu()
        if kind == "regression":
            return [{"value": value} for value in logits[:, 0].tolist()]
        shares = logits.softmax(1) if kind == "single" else logits.sigmoid()
        rows = []
        for row in shares.tolist():
            by_name = dict(zip(names, row, strict=True))
            if kind == "single":
                label: dict[str, Any] = {"label": max(by_name, key=by_name.__getitem__)}
            else:
                label = {"labels": [name for name in names if by_name[name] >= 0.5]}
            rows.append({**label, "probabilities": by_name})
        return rows

    def on_validation_epoch_end(self) -> None:
        """Report the split's figures, as ``val/...``."""
        self._report("val")

    def on_test_epoch_end(self) -> None:
        """Report the split's figures, as ``test/...``."""
        self._report("test")

    def _report(self, split: str) -> None:
        figures = {f"{split}/{name}": value for name, value in self.score.compute().items()}
        self.confusion = self.score.confusion_matrix()
        self.score.reset()
        self.log_dict({**figures, "step": float(self.trainer.global_step)})


def _shown(labels: Labels) -> str:
    names = ", ".join(labels.names[:5])
    return f"{labels.kind} ({names}{', ...' if len(labels.names) > 5 else ''})"
