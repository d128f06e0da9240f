r"""The records that the probe writes: `<bundle>/probe/<pid>.records`, one framed line each.

A line is `<crc32 of the JSON text, 8 hex digits> <JSON object>\n`, appended by a single write and never changed.
The JSON is ASCII. Every record has "kind" and "time" (Unix seconds); sizes are integers in bytes; null: not known.

process       pid, ppid, argv, executable, python, rank, forked
              One at the start of each process, and in each child made by fork. `argv` is masked and shortened.
              A second one in the same file: the process replaced itself (exec), or its number was used again.
torch         version, cuda, hip
              Once torch has been imported.
devices       pid, visible, order, devices
              Once CUDA is initialised. `devices` is [{index, uuid, total_bytes}, …], as the process numbers them;
              `visible` and `order` are its CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.
exception     id, pid, exception_type, message, frames, is_memory_error, is_device_oom, is_library_oom, fatal, thread,
              rank, chain, large_objects
              One about host memory that was seen as it was raised has `fatal` false; if nothing catches it, a later
              record replaces it.
              `frames` is [[file, line, function, code], …], outermost first. `thread` is null for the main thread.
              `chain` is [{exception_type, message, frames, is_memory_error, is_device_oom, is_library_oom}, …]:
              what the exception was raised from or during, nearest first. `large_objects` is [{type, holder, file,
              line, function, own_bytes, deep_bytes, length, complete, also_held_by, adds}, …], largest first. `adds`:
              `line` is where the code adds to the object; otherwise it is where the stack stood in the code that
              speaks of it.
device-oom    id, pid, count, device, requested_bytes, device_total_bytes, device_free_bytes, state, frames, thread,
              frames_of, snapshot_path, rank, autograd_on, visible_devices
              `state` is null or {device, allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes,
              peak_allocated_bytes, peak_reserved_bytes, requested_bytes, retries, ooms, free_bytes, total_bytes}.
              `frames_of` is "main" when the failing thread has no Python frames (autograd's) and the main thread's
              are given instead, else "current". `autograd_on`: the failing thread recorded gradients. Where nobody
              listens (cudaMallocAsync, torch before 2.1) there is no request, a device only where there is no other or
              the error names it, and of a caught error neither snapshot nor census. `snapshot_path` is relative to the
              bundle; of many snapshots only the first, the last and the largest stay, so the file may be gone.
library-oom   the fields of device-oom
              An uncaught error says that the driver or a library found no device memory left, or may have: of the
              request nothing is known, nor which device it was. `count` counts these alone.
census        id, pid, device, rank, complete, stopped, seconds, seconds_walking, seconds_in_graphs, objects, tensors,
              nodes, hooked, joined, training, devices, groups
              Who holds device memory, under the `id` of the device-oom or library-oom record it belongs to.
              `groups` is [{device, category, owner, file, line, function, bytes, saved_bytes, count, length,
              earlier_length, earlier_seconds, adds, of_a_step, by_name, by_error, parts, largest_shape, largest_dtype,
              sample_addresses}, …], largest first, the smallest summed up; `category` is parameters, buffers,
              gradients, optimizer, kv, logits, batch (of a data loader), saved-for-backward, activations or other.
              `bytes` are those of the allocator's blocks (`joined`), without a snapshot those of storages;
              `saved_bytes` of these autograd saved. `length` is that of a
              collection; `earlier_length` what it was when the first census saw it, `earlier_seconds` before, null
              where none did; `adds` as above; `of_a_step`: the source makes the collection anew in each step and goes
              backward once it is full; `by_name`: a dict whose keys are all strings; `by_error`: a variable of a
              call that has failed, kept by its exception; `parts` [[path, bytes], …] of a module. `largest_shape` and
              `largest_dtype` are those of its largest tensor; `sample_addresses` up to 256 of its blocks, evenly
              spread in the order of the collection, the first and the last among them. `devices` is [{device,
              allocated_bytes, held_bytes, unheld_bytes, unheld_count, unheld_addresses, vocabulary, outside_bytes},
              …]: what no Python object leads to is unheld; its addresses are those of the snapshot. `vocabulary`: how
              many tokens the models know; logits are as wide. `stopped` says what was cut short. `hooked`: saved
              tensors that were not looked at because a hook would have run.
              `training`: some model is in training mode; null: there is none with parameters.
allocator     pid, rank, and the fields of `state` above (free_bytes is always null)
              At most once a second for each device in use, and only when a figure has changed.
probe-error   what, error
              Something that the probe could not do. The command has not noticed it.
end           clean, after_exception, device_ooms, rss_peak_bytes
              Python shut down in order (`clean` is true), not killed; `after_exception`: an uncaught one ended it.

`exception`, `device-oom` and `library-oom` are written at once and again when more is known (large objects, a
snapshot): a later record with the same `id` replaces the earlier one. Both have the time of the failure.
"""

from __future__ import annotations

import os
from binascii import crc32
from time import time

try:
    # The `json` package would cost every Python process several milliseconds for a line or two.
    from _json import encode_basestring_ascii as _quote
except ImportError:
    from json.encoder import py_encode_basestring_ascii as _quote

_MOST_ERRORS = 50


class _Place:
    """Where this process writes."""

    bundle = ""
    torn = False
    """The last line was cut short (a full disk): the next one must not be glued to it."""
    errors = 0


def open_bundle(bundle: str) -> None:
    """Write to this incident folder from now on."""
    _Place.bundle = bundle


def bundle_path(*parts: str) -> str:
    """Path of something in the incident folder."""
    return os.path.join(_Place.bundle, *parts)


def write(kind: str, **fields: object) -> bool:
    """Append one record, and say whether all of it was written. Raises nothing that the system refuses."""
    text = encode({"kind": kind, "time": time(), **fields}).encode("ascii")
    line = b"%08x %s\n" % (crc32(text), text)
    if _Place.torn:
        line = b"\n" + line
    try:
        # Opened anew each time: a program that closes all descriptors to become a daemon would hand ours to a file
        # of its own.
        descriptor = _open_append(bundle_path("probe", "%d.records" % os.getpid()))
        try:
            written = os.write(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError:
        return False
    _Place.torn = written < len(line)
    return not _Place.torn


def write_error(what: str, error: object) -> None:
    """Record what the probe could not do; the first few dozen are enough."""
    _Place.errors += 1
    if _Place.errors <= _MOST_ERRORS:
        write("probe-error", what=what, error=("%s: %s" % (type(error).__name__, error))[:2000])


def _open_append(path: str) -> int:
    """Open for appending, making the folder (but never the bundle itself) where it is missing."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        os.mkdir(os.path.dirname(path), 0o700)
        return os.open(path, flags, 0o600)


def encode(value: object) -> str:
    """JSON of plain values; anything else becomes the name of its type."""
    if value is None:
        return "null"
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return str(value)
    if kind is float:
        text = repr(value)
        return "null" if text in ("nan", "inf", "-inf") else text
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, (list, tuple)):
        return "[%s]" % ",".join([encode(item) for item in value])
    if isinstance(value, dict):
        return "{%s}" % ",".join(["%s:%s" % (_quote(str(key)), encode(item)) for key, item in value.items()])
    return _quote("<%s>" % kind.__name__)
