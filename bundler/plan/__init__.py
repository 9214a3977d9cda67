"""What would be made, said before it is made: `bundle plan` and `bundle create --dry-run`."""

from bundler.plan.gather import plan
from bundler.plan.known import from_lock, without_download
from bundler.plan.model import Plan
from bundler.plan.text import render
from bundler.plan.webpage import page

__all__ = ["Plan", "from_lock", "page", "plan", "render", "without_download"]
