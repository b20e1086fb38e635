"""Reads and writes safetensors files with numpy alone.

The layout: 8 bytes of header length (little-endian), the header (JSON: name -> dtype, shape, data_offsets), the data.
bfloat16, which numpy does not have, is carried as uint16 bits.
"""

import json
import struct

import numpy as np

ELEMENT_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


def to_bfloat16_bits(values):
    """float32 values to bfloat16 bits, rounding to nearest even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16_bits(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def encode(values, dtype):
    """float32 values as the bytes of a tensor of that dtype."""
    if dtype == "BF16":
        return to_bfloat16_bits(values).tobytes()
    return values.astype({"F32": np.float32, "F16": np.float16}[dtype]).tobytes()


def write(path, tensors, values_of):
    """Writes tensors one by one, so that only one is in memory.

    tensors: list of (name, shape, dtype); values_of(name, shape) gives float32 values.
    """
    header, offset = {}, 0
    for name, shape, dtype in tensors:
        size = int(np.prod(shape, dtype=np.int64)) * ELEMENT_BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # aligns the start of the data, like the usual writer
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)))
        out.write(text)
        for name, shape, dtype in tensors:
            out.write(encode(values_of(name, shape), dtype))


def read(path):
    """All tensors of a file as float64 arrays."""
    data = np.memmap(path, dtype=np.uint8, mode="r")
    (length,) = struct.unpack("<Q", data[:8].tobytes())
    header = json.loads(data[8 : 8 + length].tobytes())
    result = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        raw = data[begin:end].tobytes()
        if entry["dtype"] == "BF16":
            values = from_bfloat16_bits(np.frombuffer(raw, np.uint16))
        else:
            values = np.frombuffer(raw, {"F32": np.float32, "F16": np.float16}[entry["dtype"]])
        result[name] = values.reshape(entry["shape"]).astype(np.float64)
    return result
