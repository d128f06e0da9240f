"""A pool takes all of the card that is left; then the first matrix product makes cuBLAS ask the driver for a handle."""

import torch

CAUSE = {"cause": "non-torch-device", "record": False, "owner": "pool"}

MIB = 1 << 20

a = torch.empty(1024, 1024, device="cuda")
free_bytes, _ = torch.cuda.mem_get_info()
pool = torch.empty(free_bytes // (2 * MIB) * 2 * MIB - 6 * MIB, dtype=torch.uint8, device="cuda")
b = a @ a
