"""From inputs to a finished diagnosis: the one pipeline that `analyze` and `run` share."""

from .pipeline import diagnose, diagnose_evidence

__all__ = ["diagnose", "diagnose_evidence"]
