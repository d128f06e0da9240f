"""The summary in Jira's wiki notation."""

from __future__ import annotations

from ..model.diagnosis import Diagnosis
from .dialects import JIRA
from .markdown import render_as


def render(diagnosis: Diagnosis) -> str:
    """The summary, to paste into a ticket in its text mode."""
    return render_as(JIRA, diagnosis)
