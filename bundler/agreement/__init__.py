"""Whether the server's own environment agrees with a model: its registry, its tokenizer library.

Asked before the environment is built, of the very wheels that go into it: a model that the server
can't load is found here and not on the isolated host. Nothing of the model's own code is run.
"""

from bundler.agreement.gate import check

__all__ = ["check"]
