"""The connected side: everything that `bundle` does."""
