"""Small programs on the model allocator: each runs out of memory for a cause that is known."""

from __future__ import annotations

from snapshots.make import ADAM, LINEAR, LINEAR_INIT, MIB, MODULE_CALL, NO_GRAD, Device, Stack, frame

FILE = "/home/me/train.py"
MAIN = "<module>"
FREE = 64 * MIB


def at(line: int, function: str = MAIN) -> Stack:
    return [frame(function, FILE, line)]


def inside(line: int, *outer: Stack, operation: Stack | None = None) -> Stack:
    """A line of Net.forward, called from `outer`; with `operation`, a torch module or function called there."""
    called = [*operation, *MODULE_CALL] if operation else []
    return [*called, frame("forward", FILE, line), *MODULE_CALL, *(f for stack in outer for f in stack)]


def nested(line: int, net_line: int, *outer: Stack) -> Stack:
    """A line of Layer.forward, called at `net_line` of Net.forward."""
    return [frame("forward", FILE, line), *MODULE_CALL, *inside(net_line, *outer)]


def load(device: Device, layers: int, size: int) -> None:
    for _ in range(layers):
        device.malloc(size, [LINEAR_INIT, frame("__init__", FILE, 5), *at(60)])


def weights_too_large() -> Device:
    """Building the model never ends."""
    device = Device()
    load(device, 40, 50 * MIB)
    device.fail(50 * MIB, FREE, [LINEAR_INIT, frame("__init__", FILE, 5), *at(60)])
    return device


def training_step(device: Device, keep: bool, state: list[int], fails: bool = False, scale: int = 1) -> None:
    """One step over four layers; with `keep`, what forward saved stays alive."""
    batch = device.malloc(2 * MIB, at(70))
    saved = [device.malloc(4 * MIB * scale, inside(10, at(71)))]
    for _ in range(4):
        for line in (20, 21, 22, 23):
            if fails and line == 22 and len(saved) > 10:
                device.fail(64 * MIB * scale, FREE, nested(line, 11, at(71)))
                return
            saved.append(device.malloc((6 if line == 21 else 4) * MIB * scale, nested(line, 11, at(71))))
    gradients = [device.malloc(6 * MIB, []) for _ in range(4)]
    if not state:
        state += [device.malloc(6 * MIB, [ADAM, *at(73)]) for _ in range(8)]
    for address in [*([] if keep else saved), *gradients, batch]:
        device.free(address)


def leak_of_graphs(steps: int = 12) -> Device:
    """Every step keeps what its forward pass saved."""
    device, state = Device(), []
    load(device, 4, 20 * MIB)
    for _ in range(steps):
        training_step(device, keep=True, state=state)
    training_step(device, keep=True, state=state, fails=True)
    return device


def level_training(steps: int = 12, last_scale: int = 1) -> Device:
    """Nothing is kept; the last batch is `last_scale` times as large and fails."""
    device, state = Device(), []
    load(device, 4, 20 * MIB)
    for _ in range(steps):
        training_step(device, keep=False, state=state)
    training_step(device, keep=False, state=state, fails=True, scale=last_scale)
    return device


def joined_once(steps: int = 12) -> Device:
    """Level steps, then a line that had not run before joins all that the program has. Each step makes five tensors on
    one line, so that the line itself is the only loop.
    """
    device = Device()
    load(device, 4, 20 * MIB)
    for _ in range(steps):
        made = [device.malloc(20 * MIB, [frame("<listcomp>", FILE, 70), *at(70)]) for _ in range(5)]
        for address in made:
            device.free(address)
    device.malloc(600 * MIB, [frame("join", FILE, 30), *at(80)])
    device.fail(500 * MIB, FREE, [frame("join", FILE, 31), *at(80)])
    return device


def one_pass(layers: int = 30) -> Device:
    """The first forward pass does not fit."""
    device = Device()
    load(device, 4, 20 * MIB)
    device.malloc(2 * MIB, at(70))
    device.malloc(30 * MIB, inside(10, at(71)))
    for _ in range(layers):
        for line in (20, 21, 22, 23):
            device.malloc(40 * MIB, nested(line, 11, at(71)))
    device.fail(40 * MIB, FREE, nested(20, 11, at(71)))
    return device


def cache_by_concatenation(tokens: int = 30, layers: int = 8) -> Device:
    """Decoding: each layer's keys and values are replaced by slightly larger ones. No name says so."""
    device = Device()
    load(device, 4, 20 * MIB)
    cache: list[int | None] = [None] * (2 * layers)
    loop = [NO_GRAD, *at(80)]
    for token in range(tokens):
        hidden = device.malloc(MIB, [frame("decode", FILE, 30), *loop])
        for place, old in enumerate(cache):
            stack = inside(13, [frame("decode", FILE, 32), *loop])
            if token == tokens - 1 and place == 5:
                device.fail((token + 1) * 2 * MIB, FREE, stack)
                return device
            cache[place] = device.malloc((token + 1) * 2 * MIB, stack)
            if old is not None:
                device.free(old)
        device.free(hidden)
    raise AssertionError("the program ends in its failure")


def kept_outputs(steps: int = 20) -> Device:
    """Evaluation without gradients that keeps each step's output on the device."""
    device = Device()
    load(device, 4, 20 * MIB)
    loop = [NO_GRAD, *at(90)]
    for _ in range(steps):
        batch = device.malloc(2 * MIB, [frame("evaluate", FILE, 40), *loop])
        middle = device.malloc(30 * MIB, nested(20, 11, [frame("evaluate", FILE, 41), *loop]))
        device.malloc(25 * MIB, inside(12, [frame("evaluate", FILE, 41), *loop], operation=[LINEAR]))
        device.free(middle)
        device.free(batch)
    device.fail(30 * MIB, FREE, nested(20, 11, [frame("evaluate", FILE, 41), *loop]))
    return device


def cut_to_pieces() -> Device:
    """One large segment, cut; every other piece is freed; a request for two pieces fails."""
    device = Device()
    device.free(device.malloc(800 * MIB, at(10)))
    pieces = [device.malloc(40 * MIB, at(12)) for _ in range(20)]
    for address in pieces[::2]:
        device.free(address)
    device.fail(80 * MIB, FREE, at(14))
    return device


def requests(lengths: tuple[int, ...]) -> Device:
    """Serving: each request's attention scores grow with the square of its length; the last one fails."""
    device = Device()
    load(device, 4, 20 * MIB)
    loop = [NO_GRAD, *at(95)]
    for number, length in enumerate(lengths):
        ids = device.malloc(512, [frame("serve", FILE, 50), *loop])
        scores = nested(25, 11, [frame("serve", FILE, 51), *loop])
        if number == len(lengths) - 1:
            device.fail(length * length * 1024, FREE, scores)
            return device
        for _ in range(3):
            device.free(device.malloc(length * length * 1024, scores))
        device.free(ids)
    raise AssertionError("the last request fails")


def kept_graphs_on_one_line(steps: int) -> Device:
    """`kept.append(net(x))` with a net of torch's own modules: no line of the user's changes from step to step."""
    device = Device()
    load(device, 4, 20 * MIB)
    sequential = [frame("forward", "/env/lib/python3.11/site-packages/torch/nn/modules/container.py", 250)]
    for _ in range(steps):
        for name in ("linear", "activation", "normalization", "dropout", "sparse"):
            operation = frame("forward", f"/env/lib/python3.11/site-packages/torch/nn/modules/{name}.py", 7)
            device.malloc(MIB // 2, [operation, *MODULE_CALL, *sequential, *MODULE_CALL, *at(71)])
    device.fail(2 * MIB, FREE, at(71))
    return device


def kept_features(steps: int = 20) -> Device:
    """Features of five places are kept under `with torch.no_grad()`, which leaves no frame; twelve others are freed."""
    device = Device()
    load(device, 4, 20 * MIB)
    for _ in range(steps):
        batch = device.malloc(2 * MIB, at(70))
        passing = [device.malloc(4 * MIB, inside(100 + place, at(71))) for place in range(12)]
        for place in range(5):
            device.malloc(6 * MIB, inside(10 + place, at(71)))
        for address in [*passing, batch]:
            device.free(address)
    device.fail(4 * MIB, FREE, inside(100, at(71)))
    return device


def recomputed_layers() -> Device:
    """One step whose backward runs twelve checkpointed layers again, in autograd's own thread."""
    device = Device()
    device.malloc(2 * MIB, at(70))
    thread = [
        frame("backward", "/env/lib/python3.11/site-packages/torch/utils/checkpoint.py", 300),
        frame("apply", "/env/lib/python3.11/site-packages/torch/autograd/function.py", 307),
    ]
    for _ in range(12):
        for line in (20, 21, 22):
            device.malloc(20 * MIB, [frame("forward", FILE, line), *MODULE_CALL, *thread])
    device.fail(20 * MIB, FREE, [frame("forward", FILE, 20), *MODULE_CALL, *thread])
    return device
