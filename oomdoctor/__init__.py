"""oomdoctor: what ran out of memory, who held it, and the smallest change that fixes it."""

__version__ = "0.1.0"
