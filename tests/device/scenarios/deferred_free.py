"""While a graph is captured, every buffer is used on a second stream, and none comes back before the capture ends.

The allocator returns a block that another stream used once that stream has passed it, and it cannot ask for that as
long as a capture is under way. Nothing is live when memory runs out.
"""

import torch

CAUSE = {"cause": "stream-deferred-free", "frees_gib": 23.5}

side = torch.cuda.Stream()
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    for _ in range(100):
        buffer = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        buffer.record_stream(side)
        torch.cuda.current_stream().wait_stream(side)
        del buffer
