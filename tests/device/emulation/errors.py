"""Why it cannot be done."""


class CannotEmulate(Exception):
    """The emulated device does not work here; the message says why, in a sentence."""
