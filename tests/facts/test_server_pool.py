"""GIVEN a fixed buffer that was too small WHEN facts are derived THEN they say whose it is, how large, what for."""

from __future__ import annotations

from given import event, facts_of, mib

from oomdoctor.model.events import EventKind


def full(pool: str, device: int | None = None, **fields):
    return event(EventKind.SERVER_POOL_FULL, device, engine="triton", pool=pool, **fields)


def made(pool: str, size: int, device: int | None = None):
    return event(EventKind.SERVER_POOL, device, engine="triton", pool=pool, pool_bytes=size)


def test_the_pool_of_the_device_that_refused():
    facts = facts_of(
        made("pinned", mib(256)),
        made("device", mib(64), 0),
        made("device", mib(128), 1),
        full("device", 1, requested_bytes=mib(150), recovered=True),
        full("pinned", recovered=True),
    )
    assert facts.value("engine.server_pool") == "device"
    assert facts.value("engine.server_pool_bytes") == mib(128)
    assert facts.value("engine.server_pool_request_bytes") == mib(150)
    assert facts.value("engine.server_pool_device") == 1
    assert facts.value("engine.server_pool_fell_back") is True
    assert facts.value("lookalike.workspace_too_small") is None


def test_the_pool_of_pinned_memory_serves_all_devices():
    facts = facts_of(made("device", mib(64), 0), made("pinned", mib(256)), full("pinned"))
    assert (facts.value("engine.server_pool"), facts.value("engine.server_pool_bytes")) == ("pinned", mib(256))
    assert facts.value("engine.server_pool_device") is None


def test_the_workspace_of_a_library_is_named():
    facts = facts_of(event(EventKind.WORKSPACE_TOO_SMALL, library="flashinfer", requested_bytes=mib(320)))
    assert facts.value("lookalike.workspace_library") == "flashinfer"
    assert facts.value("lookalike.workspace_request_bytes") == mib(320)
    assert facts.value("engine.server_pool") is None
