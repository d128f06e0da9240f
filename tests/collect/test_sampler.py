import time

from oomdoctor.collect import sampler
from oomdoctor.collect.sampler import Sampler, Thinner


def test_the_first_looks_follow_each_other_closely():
    looks = []
    watcher = Sampler(lambda: looks.append(time.monotonic()), interval=0.4, delay=0.0, name="test")
    begun = time.monotonic()
    watcher.start()
    time.sleep(1.0)
    assert watcher.stop(1.0)
    pauses = [later - earlier for earlier, later in zip([begun, *looks], looks, strict=False)]
    # Compared with each other, not with the clock: the machine may be busy.
    assert pauses[0] < 0.4
    assert 3 <= len(looks) <= 6
    assert pauses[1] < pauses[-1]


def busy(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_a_slow_look_makes_the_pauses_longer():
    looks = []
    watcher = Sampler(lambda: looks.append(busy(0.05)), interval=0.01, delay=0.0, name="test")
    watcher.start()
    time.sleep(0.9)
    watcher.stop(1.0)
    assert len(looks) <= 3


def test_a_stop_does_not_wait_for_a_look_that_hangs():
    watcher = Sampler(lambda: time.sleep(3), interval=0.1, delay=0.0, name="test")
    watcher.start()
    time.sleep(0.05)
    begun = time.monotonic()
    assert not watcher.stop(0.1)
    assert time.monotonic() - begun < 1


def test_a_failure_is_kept_in_words():
    watcher = Sampler(lambda: 1 // 0, interval=0.1, delay=0.0, name="test")
    watcher.start()
    assert watcher.stop(1.0)
    assert watcher.failure.startswith("ZeroDivisionError")


def test_a_sampler_stopped_before_its_first_look_does_not_look():
    looks = []
    watcher = Sampler(lambda: looks.append(1), interval=0.1, delay=5.0, name="test")
    watcher.start()
    assert watcher.stop(1.0)
    assert looks == []


def test_a_long_run_keeps_what_moves_and_a_sample_now_and_then(monkeypatch):
    now = 0.0
    monkeypatch.setattr(sampler.time, "monotonic", lambda: now)
    thinner = Thinner()
    kept = []
    for step in range(4000):
        now = step * 0.5
        value = 50 if step != 3000 else 60
        if thinner.keeps((value,), 100):
            kept.append(now)
    early = [when for when in kept if when <= 600]
    assert len(early) == 1201
    assert 1500.0 in kept
    assert 1501.0 in kept  # a third of a thousandth of the time later
    assert len(kept) < 2600


def test_a_day_in_which_every_sample_moves_leaves_megabytes_and_the_highest(monkeypatch):
    now, kept = 0.0, []
    monkeypatch.setattr(sampler.time, "monotonic", lambda: now)
    thinner = Thinner()
    for step in range(2 * 86_400):
        now = step * 0.5
        value = 90 if step == 120_001 else 10 if step == 120_002 else 40 + 10 * (step % 3)
        if thinner.keeps((value,), 100):
            kept.append((now, value))
    assert 10_000 < len(kept) < 18_000
    assert (60_000.5, 90) in kept
    assert (60_001.0, 10) in kept
