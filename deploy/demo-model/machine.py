"""What this machine multiplies fast. Import it before PyTorch: the libraries read the environment as they
load.

OpenBLAS 0.3.21 takes processors that it does not know for ones of 2004 and multiplies at a quarter of the
speed; PyTorch 1.13 leaves AVX-512 unused unless told.
"""

import os
import pathlib


def _flags():
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    lines = [line for line in text.splitlines() if line.startswith("flags")]
    return set(lines[0].split()) if lines else set()


FLAGS = _flags()
if "avx512f" in FLAGS:
    os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
    os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx512")

import torch


def device():
    """Returns the GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def product_type():
    """Returns bfloat16 where products of it are much faster than float32's: on GPUs and with AMX."""
    return torch.bfloat16 if torch.cuda.is_available() or "amx_bf16" in FLAGS else torch.float32
