"""Which driver compiles which PTX: two tables of NVIDIA's as data."""

#: PTX ISA → the CUDA release that brought it. PTX ISA documentation, "PTX Release History"
#: (https://docs.nvidia.com/cuda/parallel-thread-execution/#release-notes-ptx-release-history).
CUDA_OF_PTX = {
    "6.0": "9.0",
    "6.1": "9.1",
    "6.2": "9.2",
    "6.3": "10.0",
    "6.4": "10.1",
    "6.5": "10.2",
    "7.0": "11.0",
    "7.1": "11.1",
    "7.2": "11.2",
    "7.3": "11.3",
    "7.4": "11.4",
    "7.5": "11.5",
    "7.6": "11.6",
    "7.7": "11.7",
    "7.8": "11.8",
    "8.0": "12.0",
    "8.1": "12.1",
    "8.2": "12.2",
    "8.3": "12.3",
    "8.4": "12.4",
    "8.5": "12.5",
    "8.6": "12.7",
    "8.7": "12.8",
    "8.8": "12.9",
    "9.0": "13.0",
    "9.1": "13.1",
    "9.2": "13.2",
    "9.3": "13.3",
    "9.4": "13.4",
    "9.5": "13.5",
}
#: CUDA release → the lowest Linux driver that brings its compiler. CUDA Toolkit release notes,
#: "CUDA Toolkit and Corresponding Driver Versions" (the GA row of each release;
#: https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/). There was no CUDA 12.7 toolkit: its
#: driver is the first of branch 565. From CUDA 13.4 on, the table names no driver.
DRIVER_OF_CUDA = {
    "9.0": "384.81",
    "9.1": "390.46",
    "9.2": "396.26",
    "10.0": "410.48",
    "10.1": "418.39",
    "10.2": "440.33",
    "11.0": "450.51.05",
    "11.1": "455.23",
    "11.2": "460.27.03",
    "11.3": "465.19.01",
    "11.4": "470.42.01",
    "11.5": "495.29.05",
    "11.6": "510.39.01",
    "11.7": "515.43.04",
    "11.8": "520.61.05",
    "12.0": "525.60.13",
    "12.1": "530.30.02",
    "12.2": "535.54.03",
    "12.3": "545.23.06",
    "12.4": "550.54.14",
    "12.5": "555.42.02",
    "12.6": "560.28.03",
    "12.7": "565.57.01",
    "12.8": "570.26",
    "12.9": "575.51.03",
    "13.0": "580.65.06",
    "13.1": "590.44.01",
    "13.2": "595.45.04",
    "13.3": "610.43.02",
}


def driver_for(isa: str) -> str:
    """The lowest driver that compiles PTX of an ISA version; empty where the tables end."""
    return DRIVER_OF_CUDA.get(CUDA_OF_PTX.get(isa, ""), "")


def older(driver: str, needed: str) -> bool:
    """Whether a driver's release is below another; both as nvidia-smi prints them."""
    return _numbers(driver) < _numbers(needed)


def compiles(driver: str, isa: str) -> bool:
    """Whether a driver compiles PTX of an ISA version.

    PTX that is newer than the tables needs a driver that is newer than the tables.
    """
    needed = driver_for(isa) or max(DRIVER_OF_CUDA.values(), key=_numbers)
    if _numbers(isa) < _numbers(min(CUDA_OF_PTX, key=_numbers)):
        return True  # older than anything that is still installed
    return not older(driver, needed)


def _numbers(text: str) -> tuple[int, ...]:
    """A version as numbers; what is no number counts as 0."""
    return tuple(int(part) if part.isdecimal() else 0 for part in text.split("."))
