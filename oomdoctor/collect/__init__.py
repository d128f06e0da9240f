"""Observers outside the watched process: NVML, the host, its limits and counters."""
