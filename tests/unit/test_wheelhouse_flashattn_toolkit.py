"""Which nvcc is taken, and which is refused (Dao-AILab/flash-attention#1759 and its like)."""

import subprocess

import pytest

from manifests.errors import IntegrityError, SourceError, UsageError
from wheelhouse.flashattn import toolkit
from wheelhouse.flashattn.tables import tables

NOWHERE = "/nowhere/cuda-{release}"


def nvcc(home, release, body=""):
    """A stand-in that says which release it is of."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin/nvcc"
    program.write_text(
        f"#!/bin/sh\n{body}\n"
        f'[ "$1" = --version ] && echo "Cuda compilation tools, release {release}, V{release}.93"\n'
        f'[ "$1" = --dryrun ] && echo "#$ TOP={home}/bin/.." >&2\nexit 0\n'
    )
    program.chmod(0o755)
    return home


def on_path(home):
    return {"PATH": f"{home / 'bin'}:/usr/bin:/bin"}


def test_the_right_one_on_path_is_taken(tmp_path):
    home = nvcc(tmp_path / "cuda", "12.8")
    found, said = toolkit.on_machine("12.8", on_path(home), NOWHERE)
    assert found.home == home
    assert said == f"nvcc 12.8 at {home}/bin/nvcc"


def test_a_script_on_path_stands_for_the_toolkit_that_it_starts(tmp_path):
    home = nvcc(tmp_path / "cuda", "13.0")
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin/nvcc"
    script.write_text(f'#!/bin/sh\nexec {home}/bin/nvcc "$@"\n')
    script.chmod(0o755)
    found, _ = toolkit.on_machine("13.0", on_path(tmp_path), NOWHERE)
    assert found.home == home


def test_another_release_on_path_is_passed_over_and_named(tmp_path):
    home = nvcc(tmp_path / "cuda", "12.1")
    found, said = toolkit.on_machine("12.8", on_path(home), NOWHERE)
    assert found is None
    assert said == f"passed over: nvcc 12.1 at {home}/bin/nvcc"
    error = toolkit.missing("12.8", said)
    assert isinstance(error, SourceError)
    assert "12.8" in error.what
    assert str(home) in error.what
    assert "PyPI has no wheel with nvcc 12.8" in error.why


def test_the_usual_place_of_the_right_release_is_looked_at(tmp_path):
    wrong = nvcc(tmp_path / "wrong", "13.0")
    right = nvcc(tmp_path / "cuda-12.8", "12.8")
    found, _ = toolkit.on_machine("12.8", on_path(wrong), str(tmp_path / "cuda-{release}"))
    assert found.home == right


def test_none_at_all_is_said(tmp_path):
    assert toolkit.on_machine("12.8", {"PATH": str(tmp_path)}, NOWHERE) == (
        None,
        "no nvcc on this machine",
    )


def test_one_that_crashes_is_no_toolkit(tmp_path):
    home = nvcc(tmp_path / "cuda", "12.8", body="kill -SEGV $$")
    assert toolkit.on_machine("12.8", on_path(home), NOWHERE)[0] is None
    with pytest.raises(UsageError, match="does not run"):
        toolkit.on_machine("12.8", {"CUDA_HOME": str(home)}, NOWHERE)


def test_cuda_home_is_a_wish_that_has_to_fit(tmp_path):
    home = nvcc(tmp_path / "cuda", "12.1")
    with pytest.raises(UsageError, match=r"is of CUDA 12\.1.*12\.8") as caught:
        toolkit.on_machine("12.8", {"CUDA_HOME": str(home)}, NOWHERE)
    assert str(home) in caught.value.what
    with pytest.raises(UsageError, match="no bin/nvcc"):
        toolkit.on_machine("12.8", {"CUDA_HOME": str(tmp_path)}, NOWHERE)


def test_wheels_hold_the_compilers_in_one_folder(tmp_path):
    nvcc(tmp_path / "nvidia/cu13", "13.0")
    assert toolkit.of_wheels(tmp_path, "13.0").release == "13.0"
    with pytest.raises(IntegrityError, match=r"nvcc 13\.0, torch wants 13\.2"):
        toolkit.of_wheels(tmp_path, "13.2")
    with pytest.raises(UsageError, match="do not run"):
        toolkit.of_wheels(tmp_path / "empty", "13.0")


def test_cuda_home_is_assembled_from_compilers_and_torchs_libraries(tmp_path):
    home = nvcc(tmp_path / "cuda", "12.8")
    (home / "include").mkdir()
    (home / "include/cuda_runtime.h").write_text("of the toolkit")
    nvidia = tmp_path / "site/nvidia"
    for path, text in {
        "cuda_runtime/include/cuda_runtime.h": "of the wheel",
        "cuda_runtime/lib/libcudart.so.12": "library",
        "cublas/include/cublas_v2.h": "header",
        "cublas/lib/libcublas.so.12": "not linked with",
    }.items():
        (nvidia / path).parent.mkdir(parents=True, exist_ok=True)
        (nvidia / path).write_text(text)
    compiler = toolkit.ask(home)
    made = toolkit.lay_out(tmp_path / "made", compiler, tmp_path / "site")
    assert (made / "include/cuda_runtime.h").read_text() == "of the toolkit"
    assert (made / "include/cublas_v2.h").read_text() == "header"
    assert (made / "lib64/libcudart.so").resolve() == nvidia / "cuda_runtime/lib/libcudart.so.12"
    assert sorted(path.name for path in (made / "lib64").iterdir()) == [
        "libcudart.so",
        "libcudart.so.12",
    ]
    said = subprocess.run([made / "bin/nvcc", "--version"], capture_output=True, text=True)
    assert "release 12.8" in said.stdout


def test_the_host_compiler_has_to_be_one_that_nvcc_knows(tmp_path):
    program = tmp_path / "c++"
    program.write_text("#!/bin/sh\necho 16.1.0\n")
    program.chmod(0o755)
    with pytest.raises(UsageError, match=r"version 16\.1\.0, nvcc 12\.8 accepts at most 14"):
        toolkit.check_host_compiler(tables().toolkit("12.8"), str(tmp_path))
    assert toolkit.check_host_compiler(tables().toolkit("99.9"), str(tmp_path)) == "16.1.0"
    program.unlink()
    with pytest.raises(UsageError, match="no C\\+\\+ compiler"):
        toolkit.check_host_compiler(tables().toolkit("12.8"), str(tmp_path))
