# ruff: noqa: E501  (log lines are as long as they are)
"""GIVEN one failure that a framework tells several times WHEN it is diagnosed THEN it is one incident, and no retry."""

from __future__ import annotations

import pytest

from .asked import ask, sentences

WARNED = "2025-01-05 09:48:28.754214: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory trying to allocate 18.63GiB (rounded to 20000000000)requested by op \n"
RAISED = """Traceback (most recent call last):
  File "/w/train.py", line 12, in <module>
    y = step(x)
  File "/v/jax/_src/traceback_util.py", line 179, in reraise_with_filtered_traceback
    return fun(*args, **kwargs)
jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 20000000000 bytes.
"""
WITHOUT_INNER_FRAMES = """
The stack trace below excludes JAX-internal frames.
The preceding is the original exception that occurred, unmodified.

--------------------

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/w/train.py", line 12, in <module>
    y = step(x)
jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 20000000000 bytes.
"""
TENSORFLOW = """W tensorflow/core/common_runtime/bfc_allocator.cc:479] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.59GiB (rounded to 2781872128)requested by op Conv2D
W tensorflow/core/framework/op_kernel.cc:1768] OP_REQUIRES failed at conv_ops.cc:1202 : RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[64,64,412,412] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc
tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:
OOM when allocating tensor with shape[64,64,412,412] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc
"""
NUMPY = """Traceback (most recent call last):
  File "load.py", line 10, in read
    a = np.zeros((176351, 176460), dtype=np.uint16)
numpy.core._exceptions._ArrayMemoryError: Unable to allocate 58.0 GiB for an array with shape (176351, 176460) and data type uint16

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "load.py", line 15, in main
    raise RuntimeError("could not load the table") from error
RuntimeError: Unable to allocate 58.0 GiB for an array with shape (176351, 176460) and data type uint16
"""
TORCH = sentences("6.00 GiB", "5.11 GiB", "17.71 GiB", "7.47 MiB", own="18.31 GiB")
STEP = f'Traceback (most recent call last):\n  File "t.py", line 9, in train\n    loss = model(x)\n{TORCH}\n'
HANDLED = "\nDuring handling of the above exception, another exception occurred:\n\n"
ELASTIC = f"[rank0]: {TORCH}\n============\ntrain.py FAILED\n  exitcode  : 1 (pid: 204)\n  traceback : Traceback (most recent call last):\n  {TORCH}\n"
ENGINE = f"(EngineCore_0 pid=301) ERROR 08-01 10:00:00 [core.py:700] {TORCH}\n(EngineCore_0 pid=301) Process EngineCore_0:\n(EngineCore_0 pid=301) {TORCH}\n(APIServer pid=200) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}\n"


@pytest.mark.parametrize(
    ("log", "where", "requested"),
    [
        (WARNED + RAISED + WITHOUT_INNER_FRAMES, "cuda:0", 20_000_000_000),
        (RAISED + WITHOUT_INNER_FRAMES, "the program", 20_000_000_000),
        (TENSORFLOW, "cuda:0", 2_781_872_128),
        (NUMPY, "the program", 176351 * 176460 * 2),
        (ELASTIC, "cuda:0", 6 << 30),
        (ENGINE, "cuda:0", 6 << 30),
    ],
    ids=["jax", "jax without the allocator", "tensorflow", "numpy", "torch elastic", "vllm"],
)
def test_it_is_one_failure(log: str, where: str, requested: int) -> None:
    found = ask(log)
    (incident,) = found.incidents
    assert incident.where == where
    assert incident.requested_bytes == pytest.approx(requested, rel=0.001)
    assert all(finding.rule != "RET002" for finding in found.findings)


def test_two_requests_of_xla_are_two_failures() -> None:
    other = RAISED.replace("20000000000", "30000000000")
    assert len(ask(WARNED + RAISED + other).incidents) == 2


def test_the_allocator_of_jax_is_not_tensorflows() -> None:
    assert ask(WARNED).facts.value("oom.backend", "cuda:0") == "jax"


def test_a_retry_in_the_handler_is_one_and_what_the_handler_raises_is_none() -> None:
    again = f'Traceback (most recent call last):\n  File "t.py", line 12, in train\n    loss = model(x[:4])\n{TORCH}\n'
    wrapped = again.replace("loss = model(x[:4])", 'raise RuntimeError("CUDA out of memory, use less") from None')
    assert ask(STEP + HANDLED + again).findings[0].rule == "RET002"
    assert all(finding.rule != "RET002" for finding in ask(STEP + HANDLED + wrapped).findings)
