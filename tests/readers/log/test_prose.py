"""Words about memory that no program printed: nothing is read from them. What programs print is read."""

from __future__ import annotations

import io

import pytest

from oomdoctor.model.events import EventKind as K
from oomdoctor.readers.log.engine import read_log

MENTIONED = """\
If you see java.lang.OutOfMemoryError: Java heap space, raise -Xmx.
// throws java.lang.OutOfMemoryError: Java heap space
    } catch (java.lang.OutOfMemoryError e) {
raise OutOfMemoryError("no memory")
except torch.cuda.OutOfMemoryError:
    except torch.OutOfMemoryError as error:
import java.lang.OutOfMemoryError;
The build dies with FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory
Go prints fatal error: runtime: out of memory when it cannot grow its heap.
catch (const std::bad_alloc& e) {
throw std::bad_alloc();
A std::bad_alloc is thrown when operator new fails.
# malloc: Cannot allocate memory
Note: Cannot allocate memory
If fork: Cannot allocate memory appears, lower the number of workers.
perror("malloc: Cannot allocate memory");
warning: failed to mlock 4096-byte buffer (after previously locking 0 bytes): Cannot allocate memory
In Rust you get: memory allocation of 10 bytes failed, and then an abort.
Avoid BrokenProcessPool by using fewer workers.
if process.exitcode == -9:
exitcode -9 means that the kernel killed the worker
CUDA out of memory (handled: batch skipped)
We ran into CUDA out of memory. Then we lowered the batch size.
If you get a CUDA out of memory error, reduce the batch size.
- CUDA out of memory: reduce the batch size
How to fix "CUDA out of memory" in PyTorch
How to fix "CUDA out of memory"
# CUDA out of memory.
    if "CUDA out of memory" in str(error):
    if "CUDA out of memory." in str(e):
    raise RuntimeError("CUDA out of memory")
See the FAQ on CUDA out of memory.
The message says Tried to allocate followed by the size.
You may see MPS backend out of memory on small Macs.
if "out of memory" in str(e) and "CUDA error: out of memory" in str(e):
Sometimes CUDA error: out of memory is shown although memory is free.
case cudaErrorMemoryAllocation: return "oom";
Killed processes leave memory behind.
Troubleshooting CUDA out of memory errors.
To avoid OOM: see "HIP out of memory" below.
assert "CUDA out of memory." in caplog.text
logger.warning("CUDA out of memory, retrying")
* torch.cuda.OutOfMemoryError: CUDA out of memory. happens when the batch is too big
It may fail with torch.cuda.OutOfMemoryError: CUDA out of memory.
MemoryError is raised when numpy cannot allocate.
Container killed by YARN for exceeding memory limits is explained below.
CUBLAS_STATUS_ALLOC_FAILED usually means that memory ran out.
The node had OOMKilled pods last week.
kubectl get pod trainer -o json | grep OOMKilled
tail -n 100 train.log | sudo /usr/bin/egrep -i "CUDA error: out of memory"
grep -c "CUDA out of memory." train.log
Exited with code 137 means killed."""


@pytest.mark.parametrize("text", MENTIONED.splitlines())
def test_what_is_only_mentioned_is_no_event(text: str) -> None:
    assert read_log(io.BytesIO(f"epoch 1\n{text}\nepoch 2\n".encode()), "a.log").events == ()


PRINTED = [
    ("torch.OutOfMemoryError: CUDA out of memory.", K.DEVICE_OOM),
    ("RuntimeError: CUDA out of memory", K.DEVICE_OOM),
    ("CUDA out of memory. Try a smaller batch.", K.DEVICE_OOM),
    ("Error: CUDA out of memory", K.DEVICE_OOM),
    ("2025-11-29 10:00:00,123 ERROR CUDA out of memory", K.DEVICE_OOM),
    ('{"level": "error", "error": "CUDA out of memory."}', K.DEVICE_OOM),
    ("Worker failed with torch.cuda.OutOfMemoryError: CUDA out of memory.", K.DEVICE_OOM),
    ("# torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", K.DEVICE_OOM),
    ("- **Exception Message:** Allocation on device", K.DEVICE_OOM),
    ("RuntimeError: MPS backend out of memory", K.DEVICE_OOM),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(h)`", K.ACCELERATOR_ERROR),
    ("CUDA error: out of memory", K.ACCELERATOR_ERROR),
    ("    Reason:       OOMKilled", K.PROCESS_KILLED),
    ("web-0   0/1   OOMKilled   3 (2m ago)   5m", K.PROCESS_KILLED),
]


@pytest.mark.parametrize(("text", "kind"), PRINTED)
def test_what_a_program_printed_is_an_event(text: str, kind: K) -> None:
    events = read_log(io.BytesIO(f"epoch 1\n{text}\n".encode()), "a.log").events
    assert kind in {event.kind for event in events}
