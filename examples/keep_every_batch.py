"""A training loop with a mistake: it keeps every batch, so memory grows until a limit stops it.

On a machine with a CUDA device the batches live on the device, elsewhere in host memory under a limit of the
process's own (RLIMIT_AS), so that the crash is real and the machine is unharmed.
"""

import os
import resource
import sys
import time

BATCH_BYTES = 8 << 20
ROOM_BYTES = 512 << 20
SECONDS_A_STEP = 0.04


def limit_address_space(room_bytes):
    """Allow this process `room_bytes` more than it uses now."""
    with open("/proc/self/statm") as statm:
        used_bytes = int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used_bytes + room_bytes, resource.RLIM_INFINITY))


def host_batch(step):
    """One batch in host memory, with every page written."""
    batch = bytearray(BATCH_BYTES)
    batch[:: 1 << 12] = b"x" * (BATCH_BYTES >> 12)
    return batch


def device_batch(step):
    """One batch on the first CUDA device."""
    import torch

    return torch.full((64, BATCH_BYTES >> 8), float(step), device="cuda")


def cuda_is_there():
    """Whether the driver's device file is there, and torch is installed and sees a device."""
    if not os.path.exists("/dev/nvidiactl"):
        return False
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def train(load_batch):
    """Sum the first value of each batch, for ever."""
    seen = []
    total = 0.0
    for step in range(1_000_000):
        batch = load_batch(step)
        total += 1.0
        seen.append(batch)  # the mistake
        if step % 10 == 0:
            print(f"step {step}: {len(seen)} batches seen", flush=True)
        time.sleep(SECONDS_A_STEP)
    return total


if __name__ == "__main__":
    if cuda_is_there():
        SECONDS_A_STEP = 0.0
        train(device_batch)
    else:
        limit_address_space(ROOM_BYTES)
        print(f"python {sys.version.split()[0]}, {ROOM_BYTES >> 20} MiB of room", flush=True)
        train(host_batch)
