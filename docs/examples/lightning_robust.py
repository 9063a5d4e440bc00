"""RobustLoss in a LightningModule: the mean loss and a robust risk of the same network, on data with a small, different group.

    pip install "leeward[torch]" lightning && python docs/examples/lightning_robust.py

Cells begin with ``# %%`` and run one by one in an editor that knows them.
"""

# %% Data: of 4000 samples one in forty follows a rule of its own.
import lightning.pytorch as pl
import torch

import leeward as lw
from leeward.torch import RobustLoss

pl.seed_everything(0, verbose=False)
x = torch.randn(4000, 6)
rare = torch.arange(4000) % 40 == 0
x[rare, 5] += 4.0  # what tells them apart
rule = torch.where(rare, x[:, 1] - x[:, 0], x[:, 0] + 0.3 * x[:, 1])
y = (rule + 0.05 * torch.randn(4000) > 0).long()
rows = torch.utils.data.TensorDataset(x, y)


# %% The model: losses one by one, and a risk where their mean was.
class Classifier(pl.LightningModule):
    def __init__(self, risk: lw.Risk) -> None:
        super().__init__()
        self.risk = risk
        self.robust = RobustLoss(risk)
        self.net = torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))

    def setup(self, stage: str) -> None:
        if self.trainer.world_size > 1:  # the weights of the whole batch, not of each process's share of it
            self.robust = RobustLoss(self.risk, process_group=True)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        features, labels = batch
        losses = torch.nn.functional.cross_entropy(self.net(features), labels, reduction="none")
        loss = self.robust(losses)
        shown = {"risk": loss, "mean": losses.mean(), "largest weight": self.robust.weights.max()}
        self.log_dict(shown, on_epoch=True, on_step=False)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.net.parameters(), lr=1e-2)


# %% Training: batches of some hundreds, since the risk of a small batch is biased low.
def trained(risk: lw.Risk) -> Classifier:
    pl.seed_everything(1, verbose=False)
    model = Classifier(risk)
    trainer = pl.Trainer(
        max_epochs=10,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, torch.utils.data.DataLoader(rows, batch_size=400, shuffle=True))
    shown = {name: round(value.item(), 3) for name, value in trainer.callback_metrics.items()}
    with torch.no_grad():
        right = (model.net(x).argmax(1) == y).double()
    print(f"{risk!r}: common {right[~rare].mean():.3f}, rare {right[rare].mean():.3f}, last epoch {shown}")
    return model


# %% The mean and the risk: what the rare group gains, and what that costs the others.
for risk in (lw.Mean(), lw.ChiSquare(radius=0.3)):
    trained(risk)
