"""Another process holds nearly all of the card, so that the first use of it fails in the driver: not even a context."""

import torch

CAUSE = {"cause": "other-process", "record": False, "neighbours": [["hold", "23.3GiB"]], "frees_gib": 23.71}

x = torch.empty(1, device="cuda")
