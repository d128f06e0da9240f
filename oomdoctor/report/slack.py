"""The summary in Slack's mrkdwn."""

from __future__ import annotations

from ..model.diagnosis import Diagnosis
from .dialects import SLACK
from .markdown import render_as


def render(diagnosis: Diagnosis) -> str:
    """The summary, to paste into a message."""
    return render_as(SLACK, diagnosis)
