"""A Trainer of transformers on a tiny random model, with a callback that keeps tensors."""

import sys

import torch
from limit import leave_little
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments


class Keep(TrainerCallback):
    """Keeps 16 MiB a step."""

    def __init__(self):
        self.kept = []

    def on_step_end(self, args, state, control, **more):
        """Called by the trainer."""
        if state.global_step == 2:
            leave_little()
        self.kept.append(torch.ones(4 << 20))


words = torch.ones(16, dtype=torch.long)
arguments = TrainingArguments(
    sys.argv[1], per_device_train_batch_size=2, use_cpu=True, report_to=[], save_strategy="no"
)
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=16, n_layer=2, n_head=2))
data = [{"input_ids": words, "labels": words}] * 400
Trainer(model=model, args=arguments, train_dataset=data, callbacks=[Keep()]).train()
