"""A Trainer of Lightning whose module keeps tensors."""

import lightning
import torch
from limit import leave_little


class Model(lightning.LightningModule):
    """One layer."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(32, 32)
        self.kept = []

    def training_step(self, batch, number):
        """Keep 16 MiB."""
        if number == 2:
            leave_little()
        self.kept.append(torch.ones(4 << 20))
        return self.layer(batch).sum()

    def configure_optimizers(self):
        """Plain descent."""
        return torch.optim.SGD(self.parameters(), 0.1)


trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False)
trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(400, 32), batch_size=2))
