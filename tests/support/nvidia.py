"""Stand-ins for NVIDIA's parts, on scratch paths: nvidia-smi, and libcuda as C."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

#: One GPU as `nvidia-smi -q -x` describes it; a few of its some two hundred elements.
XML = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>580.65.06</driver_version>
  <attached_gpus>1</attached_gpus>
  <gpu id="00000000:3B:00.0">
    <product_name>NVIDIA H200</product_name>
    <persistence_mode>{persistence}</persistence_mode>
    <mig_mode><current_mig>{mig}</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
    <mig_devices>{instances}</mig_devices>
    <uuid>GPU-8932f937</uuid>
    <pci>
      <pci_gpu_link_info>
        <link_widths>
          <max_link_width>16x</max_link_width>
          <current_link_width>{width}</current_link_width>
        </link_widths>
      </pci_gpu_link_info>
    </pci>
    <vgpu_software_licensed_product>
      <license_status>{licence}</license_status>
    </vgpu_software_licensed_product>
    <clocks_event_reasons>
      <clocks_event_reason_hw_thermal_slowdown>{thermal}</clocks_event_reason_hw_thermal_slowdown>
    </clocks_event_reasons>
    <compute_mode>{mode}</compute_mode>
    <ecc_errors>
      <volatile>
        <sram_correctable>9</sram_correctable>
        <sram_uncorrectable>{sram}</sram_uncorrectable>
        <dram_uncorrectable>{dram}</dram_uncorrectable>
      </volatile>
      <aggregate><dram_uncorrectable>9</dram_uncorrectable></aggregate>
    </ecc_errors>
    <remapped_rows>
      <remapped_row_pending>{pending}</remapped_row_pending>
      <remapped_row_failure>{failure}</remapped_row_failure>
    </remapped_rows>
    <processes>{processes}</processes>
    <fabric><state>{fabric}</state></fabric>
  </gpu>
</nvidia_smi_log>
"""
HEALTHY = {
    "persistence": "Enabled", "mig": "Disabled", "instances": "None", "width": "16x",
    "licence": "N/A", "thermal": "Not Active", "mode": "Default", "sram": "0", "dram": "0",
    "pending": "No", "failure": "No", "processes": "", "fabric": "N/A",
}  # fmt: skip
CSV = "GPU-8932f937, NVIDIA H200, 143771, 143180, Disabled, 9.0"
_C = """\
int cuInit(unsigned flags) {{ (void)flags; {init} }}
int cuDriverGetVersion(int *version) {{ *version = 13000; return 0; }}
int cuDeviceGetCount(int *count) {{ *count = {devices}; return 0; }}
"""


def described(**changes: str) -> str:
    """The document of one GPU, healthy but for the changes."""
    return XML.format(**HEALTHY | changes)


def smi(folder: Path, csv: str = CSV, xml: str = "", topology: str = "", status: int = 0) -> Path:
    """A program in the place of nvidia-smi."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("csv", csv), ("xml", xml or described()), ("topo", topology)):
        (folder / name).write_text(text)
    tool = folder / "nvidia-smi"
    tool.write_text(
        f"#!/bin/sh\ncase $1 in -q) cat '{folder}/xml' ;; topo) cat '{folder}/topo' ;;\n"
        f"*) cat '{folder}/csv' ;; esac\nexit {status}\n"
    )
    tool.chmod(0o755)
    return tool


def _compiler() -> list[str]:
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    if subprocess.run([sys.executable, "-c", "import ziglang"], capture_output=True).returncode:
        pytest.skip("no C compiler here")
    return [sys.executable, "-m", "ziglang", "cc"]


def libcuda(path: Path, init: str = "return 0;", devices: int = 1) -> Path:
    """A library in the place of libcuda.so.RELEASE, and its link libcuda.so.1 beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text(_C.format(init=init, devices=devices))
    flags = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(path), str(source)]
    subprocess.run([*_compiler(), *flags], check=True)
    link = path.with_name("libcuda.so.1")
    link.unlink(missing_ok=True)
    link.symlink_to(path.name)
    return path
