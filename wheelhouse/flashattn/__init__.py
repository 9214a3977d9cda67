"""FlashAttention for a described GPU, built from its published source or brought by the user."""
