"""A CUDA graph is captured for every batch size; each keeps a pool of its own."""

import torch
from models import LanguageModel, batch_of

CAUSE = {"cause": "graph-capture", "owner": "graphs"}

torch.set_default_dtype(torch.float16)
with torch.device("cuda"):
    model = LanguageModel(width=2048, layers=8)
graphs = {}
with torch.no_grad():
    model(batch_of(1, 512))
    for size in range(1, 65):
        ids = batch_of(size, 512)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = model(ids)
        graphs[size] = (graph, ids, output)
