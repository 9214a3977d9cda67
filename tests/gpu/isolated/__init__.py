"""Everything that a GPU host without a network is asked to show, in one go (see README.md)."""
