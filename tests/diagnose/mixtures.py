# ruff: noqa: E501  (log lines are as long as they are)
"""Logs that hold several failures, and what a reader who takes his time says of each: what ended it, what came before."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mixture:
    """A log (or several, by name) with the right answer."""

    log: str
    ended: str
    """A part of what the first incident says failed."""
    cause: str | None
    """Of the first finding; None: any, or none, but `never` holds."""
    before: tuple[str, ...]
    """A part of what each other incident says failed, latest first."""
    causes_before: tuple[str | None, ...] = ()
    """The cause that each other incident is told with; None: none that is sure."""
    never: tuple[str, ...] = ()
    """Figures and words of other failures: not in the headline, the cause or the change to make."""
    where: str | None = None
    """The place of the first incident, where it has to be one."""


def trace(file: str, function: str, code: str) -> str:
    return f'Traceback (most recent call last):\n  File "/srv/app/{file}", line 88, in {function}\n    {code}\n'


def torch(
    size: str, free: str, allocated: str, idle: str = "310.25 MiB", device: int = 0, total: str = "39.39 GiB"
) -> str:
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size}. GPU {device} has a total capacity of {total} "
        f"of which {free} is free. Including non-PyTorch memory, this process has 38.90 GiB memory in use. Of the allocated "
        f"memory {allocated} is allocated by PyTorch, and {idle} is reserved by PyTorch but unallocated.\n"
    )


TRAINING = trace("train.py", "training_step", "loss.backward()") + torch("1.75 GiB", "503.00 MiB", "37.60 GiB")
ATTENTION = trace("model/attn.py", "forward", "scores = q @ k.transpose(-1, -2)") + torch(
    "16.00 GiB", "9.30 GiB", "29.10 GiB"
)
FRAGMENTED = trace("serve.py", "generate", "out = self.model(ids)") + torch(
    "2.50 GiB", "410.00 MiB", "21.00 GiB", "16.90 GiB"
)
SMALL_CARD = trace("sample.py", "decode", "image = vae.decode(z)") + torch(
    "5.06 GiB", "1.20 GiB", "8.90 GiB", total="11.76 GiB"
).replace("38.90", "10.40")

NUMPY = trace("prepare.py", "load", "table = np.zeros((400000, 60000))") + (
    "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 179. GiB for an array with shape (400000, 60000) and data "
    "type float64\n"
)
MEMORY_ERROR = trace("index.py", "build", "rows.append(parse(line))") + "MemoryError\n"
SHM = (
    "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n"
    + trace("train.py", "epoch", "for batch in loader:")
    + "RuntimeError: DataLoader worker (pid 4117) is killed by signal: Bus error. It is possible that dataloader's workers are "
    "out of shared memory. Please try to raise your shared memory limit.\n"
)
MEMCG = """\
[81234.550101] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[81234.550230] memory: usage 33554432kB, limit 33554432kB, failcnt 9120
[81234.550231] swap: usage 0kB, limit 0kB, failcnt 0
[81234.550300] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job7,mems_allowed=0,oom_memcg=/jobs/job7,task_memcg=/jobs/job7,task=python,pid=5150,uid=1001
[81234.550333] Memory cgroup out of memory: Killed process 5150 (python) total-vm:61230112kB, anon-rss:33012344kB, file-rss:88112kB, shmem-rss:0kB, UID:1001 pgtables:66120kB oom_score_adj:0
"""
GLOBAL = (
    "Nov 12 04:10:00 box kernel: Out of memory: Killed process 2270 (java) total-vm:90112000kB, anon-rss:61203456kB, "
    "file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:130000kB oom_score_adj:0\n"
)
SLURM = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=88123.batch. Some of the step tasks have been OOM Killed.\n"
)
KUBERNETES = """\
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
    Limits:
      memory:  16Gi
"""
JAVA = 'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n\tat com.acme.Job.run(Job.java:41)\n'
NODE = (
    "<--- Last few GCs --->\n\n[77:0x5d0]   412345 ms: Mark-sweep 4047.1 (4130.9) -> 4046.8 (4131.2) MB, 4123.4 / 0.0 ms  "
    "allocation failure; scavenge might not succeed\n\n"
    "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n"
)
NO_POOL = (
    "INFO 11-12 09:00:01 [model_runner.py:1094] Model loading took 37.2041 GiB\n"
    + trace("vllm/engine.py", "__init__", "self._initialize_kv_caches()")
    + "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the "
    "engine.\n"
)
SMALL_POOL = (
    "ValueError: To serve at least one request with the models's max seq len (65536), (8.00 GiB KV cache is needed, which is "
    "larger than the available KV cache memory (3.25 GiB). Based on the available memory, the estimated maximum model length "
    "is 26624.\n"
)
LLAMA = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 6144.00 MiB on device 0: cudaMalloc failed: out of memory\n"
    "llama_kv_cache_init: failed to allocate buffer for kv cache\n"
    "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache\n"
)
TENSORFLOW = (
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:\n"
    "OOM when allocating tensor with shape[64,512,112,112] and type float on "
    "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Conv2D]\n"
)
TRITON = (
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376. Reducing "
    "block sizes or `num_stages` may help.\n"
)
ASSERT = (
    "../aten/src/ATen/native/cuda/Indexing.cu:1290: indexSelectLargeIndex: block: [12,0,0], thread: [0,0,0] Assertion "
    "`srcIndex < srcSelectDimSize` failed.\n"
    + trace("train.py", "step", "x = self.embed(ids)")
    + "RuntimeError: CUDA error: device-side assert triggered\n"
)
STEPS = "".join(f"step {n} loss {3 - n / 1000:.3f}\n" for n in range(40, 48))
LATER_STEPS = "".join(f"step {n} loss {3 - n / 1000:.3f}\n" for n in range(48, 60))
CAUGHT = (
    trace("train.py", "step", "loss.backward()")
    + torch("900.00 MiB", "120.00 MiB", "37.90 GiB")
    + ("WARNING: out of memory at step 47, skipping this batch\n")
)


def stamped(text: str, clock: str) -> str:
    return "".join(f"2026-11-12 {clock} {line}\n" for line in text.splitlines())


def ranked(text: str, rank: int) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


MIXTURES: dict[str, Mixture] = {
    # (a) times out of order
    "the later of two stands first": Mixture(
        stamped(TRAINING, "11:30:00") + stamped(NUMPY, "09:00:00"),
        "device out of memory", None, ("host allocation failed",), ("host-ram",), ("179", "float64"), "cuda:0",
    ),
    "three parts pasted in the wrong order": Mixture(
        stamped(SHM, "10:00:00") + stamped(MEMCG, "12:00:00") + stamped(TRAINING, "08:00:00"),
        "killed by the kernel", "cgroup-limit", ("shared memory ran out", "device out of memory"), (), ("1.75 GiB",),
    ),
    # (b) host first, device last
    "an array too large, then the card": Mixture(
        NUMPY + STEPS + TRAINING, "device out of memory", None, ("host allocation failed",), ("host-ram",),
        ("179", "float64", "host memory"), "cuda:0",
    ),
    "a bare MemoryError, then attention": Mixture(
        MEMORY_ERROR + "$ python run.py --attn eager\n" + ATTENTION, "device out of memory", "attention-quadratic",
        ("host allocation failed",), (), ("MemoryError",), "cuda:0",
    ),
    "shared memory, then the card": Mixture(
        SHM + "restarting with num_workers=0\n" + STEPS + TRAINING, "device out of memory", None, ("shared memory ran out",),
        ("shm-limit",), ("shm", "shared memory", "workers"), "cuda:0",
    ),
    "a worker's bus error, then tensorflow": Mixture(
        SHM + "$ python tf_train.py\n" + TENSORFLOW, "device out of memory", None, ("shared memory ran out",), ("shm-limit",),
        ("shared memory",),
    ),
    "java's heap, then the card": Mixture(
        JAVA + "$ python train.py\n" + TRAINING, "device out of memory", None, ("the JVM's heap is full",), (), ("heap", "Xmx"),
        "cuda:0",
    ),
    # (c) caught, then killed
    "caught, then the kernel kills in a container": Mixture(
        STEPS + CAUGHT + LATER_STEPS + MEMCG, "killed by the kernel", "cgroup-limit", ("device out of memory",), (),
        ("900", "cuda"),
    ),
    "caught, then Killed": Mixture(
        STEPS + CAUGHT + LATER_STEPS + "Killed\n", "process killed", None, ("device out of memory",), (), ("900 MiB", "cuda:0")
    ),
    "caught, then Slurm": Mixture(
        STEPS + CAUGHT + LATER_STEPS + SLURM, "memory limit", None, ("device out of memory",), (), ("900.00 MiB",)
    ),
    "not caught, then the kernel kills what was started next": Mixture(
        TRAINING + "$ python prepare.py\n" + MEMCG, "killed by the kernel", "cgroup-limit", ("device out of memory",), (),
        ("1.75 GiB", "cuda"),
    ),
    "a card's failure told by a pod that is killed": Mixture(
        TRAINING + KUBERNETES, "killed for want of memory", "cgroup-limit", ("device out of memory",), (), ("1.75 GiB",)
    ),
    # (d) two ranks
    "two ranks, of which one is fragmented": Mixture(
        ranked(TRAINING, 0) + ranked(FRAGMENTED.replace("GPU 0", "GPU 1"), 1), "device out of memory", "fragmentation",
        ("device out of memory",), (), ("1.75 GiB",), "cuda:1",
    ),
    "two ranks, of which one holds scores": Mixture(
        ranked(ATTENTION.replace("GPU 0", "GPU 1"), 1) + ranked(TRAINING, 0), "device out of memory", "attention-quadratic",
        ("device out of memory",), (), ("1.75 GiB",), "cuda:1",
    ),
    "a rank's card, another rank's host memory": Mixture(
        ranked(TRAINING, 0) + ranked(NUMPY, 1), "host allocation failed", "host-ram", ("device out of memory",), (),
        ("1.75 GiB", "cuda:0"),
    ),
    # (e) two on one line
    "two on one line": Mixture(
        "ERROR job 7 failed: numpy.core._exceptions._ArrayMemoryError: Unable to allocate 179. GiB for an array with shape "
        "(400000, 60000) and data type float64; retry failed: " + torch("1.75 GiB", "503.00 MiB", "37.60 GiB"),
        "device out of memory", None, ("host allocation failed",), (), ("179",), "cuda:0",
    ),
    "a card and a kernel's kill on one line": Mixture(
        torch("1.75 GiB", "503.00 MiB", "37.60 GiB").strip()
        + " | Memory cgroup out of memory: Killed process 5150 (python) total-vm:61230112kB, anon-rss:33012344kB, "
        "file-rss:88112kB, shmem-rss:0kB\n",
        "killed by the kernel", "cgroup-limit", ("device out of memory",), (), ("1.75 GiB",),
    ),
    # (f) recovered, then not
    "skipped one batch, then another failure ends it": Mixture(
        STEPS + CAUGHT + LATER_STEPS + FRAGMENTED, "device out of memory", "fragmentation", ("device out of memory",), (),
        ("900.00 MiB",), "cuda:0",
    ),
    "skipped one batch, then shared memory": Mixture(
        STEPS + CAUGHT + LATER_STEPS + SHM, "shared memory ran out", "shm-limit", ("device out of memory",), (), ("900.00 MiB",),
    ),
    # (g) hours apart
    "two hours apart, the same card": Mixture(
        stamped(FRAGMENTED, "08:00:00") + stamped(STEPS, "09:30:00") + stamped(ATTENTION, "12:45:00"), "device out of memory",
        "attention-quadratic", ("device out of memory",), ("fragmentation",), ("2.50 GiB", "16.90"), "cuda:0",
    ),
    "two pods killed hours apart": Mixture(
        stamped(GLOBAL.split("box ")[1], "04:10:00") + stamped(MEMCG, "18:00:00"), "killed by the kernel", "cgroup-limit",
        ("killed by the kernel",), ("host-ram",), ("java", "61"),
    ),
    "the same, without a word of time but with another start": Mixture(
        FRAGMENTED + "$ python serve.py --eager\n" + ATTENTION, "device out of memory", "attention-quadratic",
        ("device out of memory",), ("fragmentation",), ("2.50 GiB", "16.90"), "cuda:0",
    ),
    # (h) two machines, two engines
    "vLLM's pool, then llama.cpp": Mixture(
        "### host gpu-a\n" + NO_POOL + "\n### host gpu-b\n" + LLAMA, "buffer", None, ("nothing left for the KV pool",),
        ("kv-pool-zero",), ("gpu_memory_utilization", "gpu-memory-utilization"),
    ),
    "llama.cpp, then vLLM": Mixture(
        LLAMA + "\n--- other server ---\n" + SMALL_POOL, "too small for one request", "kv-below-max-length", ("buffer",), (),
        ("6.00 GiB", "6144"), "vllm",
    ),
    "two cards of different machines": Mixture(
        "== box a ==\n" + ATTENTION + "\n== box b ==\n" + SMALL_CARD, "device out of memory", None, ("device out of memory",),
        ("attention-quadratic",), ("39.39", "16.00 GiB"),
    ),
    "node, then java, on two machines": Mixture(
        "web-1:\n" + NODE + "\nbatch-3:\n" + JAVA, "the JVM's heap is full", None, ("V8's heap is full",), (), ("old-space", "heapsize"),
    ),
    "jax, then torch, with no word of another start": Mixture(
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.\n"
        + "$ python train.py\n" + TRAINING, "device out of memory", None, ("device out of memory",), (), ("8.00 GiB", "8589934592"), "cuda:0",
    ),
    "a database, then a script's own limit": Mixture(
        "ERROR 1041 (HY000): Out of memory; check if mysqld or some other process uses all available memory\n"
        "PHP Fatal error:  Allowed memory size of 134217728 bytes exhausted (tried to allocate 20480 bytes) in /srv/a.php on line 3\n",
        "PHP reached its own memory limit", "cgroup-limit", ("host allocation failed",), ("host-ram",),
    ),
    # of memory, and not
    "an assertion ends what had run out before": Mixture(
        STEPS + CAUGHT + LATER_STEPS + ASSERT, "device-side assertion", "not-oom-device-assert", ("device out of memory",), (), ("900.00 MiB",)
    ),
    "a kernel that does not fit, then the card": Mixture(
        TRITON + "falling back to the eager kernel\n" + STEPS + TRAINING, "device out of memory", None,
        ("on-chip",), ("not-oom-kernel-resource",), ("147456", "101376"), "cuda:0",
    ),
    "the card, then a kernel that does not fit": Mixture(
        TRAINING + "$ python bench.py\n" + TRITON, "on-chip", "not-oom-kernel-resource", ("device out of memory",), (), ("1.75 GiB",),
    ),
}  # fmt: skip
