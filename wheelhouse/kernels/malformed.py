"""What the readers of this package raise; `wheelhouse.kernels.scan` adds the file's name."""


class Malformed(ValueError):
    """Bytes that are not what their format says."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(f"at offset {offset:#x}: {what}")
        self.offset = offset
