"""Fuzzing of everything that is read from a medium, a model or a wheel.

    python -m tests.fuzz all --seconds 10                # every target in turn, unguided
    pip install 'atheris>=3,<4'                          # wheels for CPython 3.11 to 3.13 on Linux
    python -m tests.fuzz manifest --guided --seconds 60  # one target, guided by coverage
    python -m tests.fuzz manifest crash-…                # repeat what was found

Unguided, a target gets its seeds and mutations of them. What is found is written to `crash-…` in
the working folder; guided runs keep their corpus there too. Whatever was mended goes into `found/`
as `TARGET-WHAT-IT-IS`, and is tried again by every test run.
"""
