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


class Unpacked(torch.autograd.Function):
    """A product with a matrix that is unpacked for it, forwards and backwards, and kept packed (bitsandbytes)."""

    @staticmethod
    def forward(ctx: "torch.autograd.function.FunctionCtx", x: Tensor, packed: "Packed") -> Tensor:
        ctx.packed = packed
        return functional.linear(x, packed.unpacked(x.dtype))

    @staticmethod
    def backward(ctx: "torch.autograd.function.FunctionCtx", gradient: Tensor) -> tuple[Tensor, None]:
        return gradient @ ctx.packed.unpacked(gradient.dtype), None


class Packed(nn.Module):
    """A frozen matrix of four bits with a scale for 64 values. What the values are is of no matter here."""

    def __init__(self, frozen: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = frozen.in_features, frozen.out_features
        count, where = frozen.weight.numel(), frozen.weight.device
        self.register_buffer("values", torch.zeros(count // 2, dtype=torch.uint8, device=where))
        self.register_buffer("scales", torch.zeros(count // 64, dtype=torch.float32, device=where))

    def unpacked(self, kind: torch.dtype) -> Tensor:
        return torch.ones(self.out_features, self.in_features, dtype=kind, device=self.values.device)

    def forward(self, x: Tensor) -> Tensor:
        return Unpacked.apply(x.to(torch.bfloat16), self).to(x.dtype)


class Adapted(nn.Module):
    """A frozen matrix with an adapter in float32 beside it, as PEFT makes one; with `dora` the magnitudes too."""

    def __init__(self, frozen: "nn.Linear | Packed", rank: int, dora: bool) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        where = next(iter((*frozen.parameters(), *frozen.buffers()))).device
        wide = {"bias": False, "dtype": torch.float32, "device": where}
        self.down = nn.Linear(frozen.in_features, rank, **wide)
        self.up = nn.Linear(rank, frozen.out_features, **wide)
        self.magnitude = nn.Parameter(torch.ones(frozen.out_features, device=where)) if dora else None

    def forward(self, x: Tensor) -> Tensor:
        answer, wide = self.frozen(x), x.to(torch.float32)
        if self.magnitude is None:
            return answer + self.up(self.down(wide)).to(answer.dtype)
        identity = torch.eye(wide.shape[-1], dtype=torch.float32, device=wide.device)
        product = self.up(self.down(identity)).T.to(wide.dtype)
        packed = isinstance(self.frozen, Packed)
        weight = (self.frozen.unpacked(torch.bfloat16) if packed else self.frozen.weight).to(wide.dtype)
        norm = torch.linalg.norm(weight + 2.0 * product.detach(), dim=1).detach()
        scale = (self.magnitude / norm).view(1, -1)
        result = self.up(self.down(wide))
        return answer + ((scale - 1) * answer + scale * result * 2.0).to(answer.dtype)


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
            setattr(layer, name, Adapted(getattr(layer, name), rank, bool(settings.get("dora"))))


def pack(model: Model) -> None:
    """All matrices of layers in four bits."""
    for layer in model.layers:
        for name, matrix in list(layer.named_children()):
            if isinstance(matrix, nn.Linear):
                setattr(layer, name, Packed(matrix))


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
    if settings.get("packed"):
        pack(model)
    if settings.get("rank"):
        adapt(model, settings["rank"], str(settings["targets"]).split(","))
    if settings.get("ranks"):
        model = replicated(model)
    optimizer = getattr(torch.optim, settings.get("optimizer", "AdamW"))(
        [each for each in model.parameters() if each.requires_grad], lr=1e-3
    )
    words = torch.zeros(batch, length, dtype=torch.long, device="cuda")
    torch.cuda.reset_peak_memory_stats()
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
