"""A decoder as transformers writes Llama, and the loops whose peak is compared with what was estimated.

Its text runs on the emulated device: `settings` (a dict) stands before it.
"""

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

settings: dict[str, int] = globals()["settings"]
WIDTH, LAYERS, HEADS = settings["hidden_size"], settings["num_hidden_layers"], settings["num_attention_heads"]
KV_HEADS, MIDDLE, WORDS = settings["num_key_value_heads"], settings["intermediate_size"], settings["vocab_size"]
HEAD = WIDTH // HEADS
Past = tuple[Tensor, Tensor]


class Adapted(nn.Module):
    """A frozen matrix with an adapter in float32 beside it, as PEFT makes one."""

    def __init__(self, frozen: nn.Linear, rank: int) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        wide = {"bias": False, "dtype": torch.float32, "device": frozen.weight.device}
        self.down = nn.Linear(frozen.in_features, rank, **wide)
        self.up = nn.Linear(rank, frozen.out_features, **wide)

    def forward(self, x: Tensor) -> Tensor:
        answer = self.frozen(x)
        return answer + self.up(self.down(x.to(torch.float32))).to(answer.dtype)


class Norm(nn.Module):
    """Root mean square in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        kind = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * x.to(kind)


class Layer(nn.Module):
    """Attention with grouped heads and a gated MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([Norm(), Norm()])
        self.q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.v = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate = nn.Linear(WIDTH, MIDDLE, bias=False)
        self.up = nn.Linear(WIDTH, MIDDLE, bias=False)
        self.down = nn.Linear(MIDDLE, WIDTH, bias=False)

    def attend(self, x: Tensor, cache: "list[Past | None] | None", place: int) -> Tensor:
        rows = [each(x).view(*x.shape[:2], -1, HEAD).transpose(1, 2) for each in (self.q, self.k, self.v)]
        if cache is not None:
            past = cache[place]
            if past is not None:
                rows[1:] = [torch.cat(pair, dim=-2) for pair in zip(past, rows[1:], strict=True)]
            cache[place] = (rows[1], rows[2])
        # Causal for a prompt; one query sees all there is.
        answer = functional.scaled_dot_product_attention(*rows, is_causal=x.shape[1] > 1, enable_gqa=True)
        return self.o(answer.transpose(1, 2).reshape(x.shape))

    def forward(self, x: Tensor, cache: "list[Past | None] | None" = None, place: int = 0) -> Tensor:
        x = x + self.attend(self.norms[0](x), cache, place)
        y = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    """Embedding, layers, norm, output."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = Norm()
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words: Tensor, cache: "list[Past | None] | None" = None, checkpointing: bool = False) -> Tensor:
        x = self.embedding(words)
        for place, layer in enumerate(self.layers):
            x = checkpoint(layer, x, use_reentrant=False) if checkpointing else layer(x, cache, place)
        return self.head(self.norm(x[:, -1:] if cache is not None else x))


def decode(batch: int, prompt: int, tokens: int) -> None:
    """A prompt and so many tokens, as generate() does it."""
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Model().eval()
    cache: list[Past | None] = [None] * LAYERS
    with torch.no_grad():
        words = torch.zeros(batch, prompt, dtype=torch.long, device="cuda")
        for _ in range(tokens + 1):
            model(words, cache)[:, -1].float().softmax(-1)
            words = torch.zeros(batch, 1, dtype=torch.long, device="cuda")


def adapt(model: Model, rank: int, targets: list[str]) -> None:
    """Freeze all, and put adapters beside the matrices of these names."""
    model.requires_grad_(False)
    for layer in model.layers:
        for name in targets:
            setattr(layer, name, Adapted(getattr(layer, name), rank))


def replicated(model: nn.Module) -> nn.Module:
    """One of several ranks that all have the model; the others only seem to be there."""
    from torch.nn.parallel import DistributedDataParallel
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=settings["ranks"])
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=bool(settings.get("bucket_view")))

    def reduced(_state: None, bucket: torch.distributed.GradBucket) -> "torch.futures.Future[Tensor]":
        done: torch.futures.Future[Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    reduced.__annotations__.clear()  # as text they are not what it checks for
    wrapped.register_comm_hook(None, reduced)
    return wrapped


def train(batch: int, length: int, precision: str, checkpointing: bool) -> None:
    """Three steps with AdamW."""
    torch.set_default_dtype(torch.bfloat16 if precision == "bf16-pure" else torch.float32)
    with torch.device("cuda"):
        model = Model()
    if settings.get("rank"):
        adapt(model, settings["rank"], str(settings["targets"]).split(","))
    if settings.get("ranks"):
        model = replicated(model)
    optimizer = getattr(torch.optim, settings.get("optimizer", "AdamW"))(
        [each for each in model.parameters() if each.requires_grad], lr=1e-3
    )
    words = torch.zeros(batch, length, dtype=torch.long, device="cuda")
    for _ in range(3):
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16-mixed"):
            logits = model(words, checkpointing=checkpointing)
        scores = logits.float()
        loss = functional.cross_entropy(scores.view(-1, WORDS), words.view(-1))
        del scores
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if settings["train"]:
    train(settings["batch"], settings["length"], str(settings["precision"]), bool(settings["checkpointing"]))
else:
    decode(settings["batch"], settings["length"], settings["tokens"])
print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
