"""A worker started by multiprocessing's spawn runs inference with a batch that is too large for the card."""

import multiprocessing
import sys

import torch
from models import LanguageModel, batch_of

CAUSE = {"cause": "activation-peak"}


def work(size: int) -> None:
    """One batch."""
    torch.set_default_dtype(torch.float16)
    with torch.device("cuda"):
        model = LanguageModel(width=2048, layers=4)
    with torch.no_grad():
        model(batch_of(size, 2048))


if __name__ == "__main__":
    worker = multiprocessing.get_context("spawn").Process(target=work, args=(512,))
    worker.start()
    worker.join()
    sys.exit(worker.exitcode)
