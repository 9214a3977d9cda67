"""What is in a bundle, and what differs between two, told without unpacking anything."""

from bundler.inspecting.comparing import Comparison, compare
from bundler.inspecting.inspection import Inspection, inspect
from bundler.inspecting.subject import Subject, find, find_or_lock

__all__ = [
    "Comparison",
    "Inspection",
    "Subject",
    "compare",
    "find",
    "find_or_lock",
    "inspect",
]
