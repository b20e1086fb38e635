#!/usr/bin/env python3
"""Writes the seeds of the configuration, frame, handshake, HTTP, history, text, template, tokenizer and packed-file fuzzers into tests/fuzz/corpus: well-formed inputs to start from.

The message contents are the agreed layouts of tests/unit/actors/message_layouts.txt, and records have the protocol version of
actors/transport/wire/protocol_version.cpp, so run this again when one of them changes.
"""
import json
import pathlib
import re
import struct
import sys
import zlib

HERE = pathlib.Path(__file__).resolve().parent
LAYOUTS = HERE.parent / "unit" / "actors" / "message_layouts.txt"
VERSIONS = HERE.parent.parent / "actors" / "transport" / "wire" / "protocol_version.cpp"
PROTOCOL_VERSION = int(re.search(r"#else\s+return \{\d+, (\d+)\}", VERSIONS.read_text())[1])
# The payload in the layouts' samples; in a frame it is in the data part.
PAYLOAD = bytes(value * 7 % 256 for value in range(24))


def write(fuzzer, name, content):
    folder = HERE / "corpus" / fuzzer
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def frame(kind, metadata=b"", data_bytes=0, flags=0, metadata_bytes=None):
    """The length of the data part, and the header part of a frame (actors/transport/wire/frame.hpp)."""
    length = len(metadata) if metadata_bytes is None else metadata_bytes
    header = struct.pack("<IBBHII7Q", 0x46505254, 1, kind, flags, length, 0, 1, 2, 3, 4, 5, 6, 7)
    return struct.pack("<Q", data_bytes) + header + metadata


def caf_message(types_and_values):
    """No stages, and a message as CAF 0.17 writes one: its type as text, then its values."""
    name = b"@<>" + b"".join(b"+" + name.encode() for name, _ in types_and_values)
    return b"\0" + b"\0\0" + bytes([len(name)]) + name + b"".join(value for _, value in types_and_values)


def layout(text):
    """The bytes of a layout, in which parentheses stand for the length of what is between them, in 4 bytes."""
    open_structures = [b""]
    for part in re.findall(r"[()]|[0-9a-f]+", text):
        if part == "(":
            open_structures.append(b"")
        elif part == ")":
            inner = open_structures.pop()
            open_structures[-1] += struct.pack(">I", len(inner)) + inner
        else:
            open_structures[-1] += bytes.fromhex(part)
    return open_structures[0]


def frames():
    for line in LAYOUTS.read_text().splitlines():  # the newest version of a kind is last
        name, _, text = line.split()
        inline = PAYLOAD.hex() in text
        content = caf_message([(name, layout(text.replace(PAYLOAD.hex(), "")))])
        write("frame_fuzz", name.removeprefix("troupe::"), frame(1, content, len(PAYLOAD) if inline else 0))
    write("frame_fuzz", "two_values", frame(1, caf_message([("@str", b"\5hello"), ("@u32", struct.pack(">I", 7))])))
    # A vector of messages claims a number of elements, and nothing follows.
    content = caf_message([("std::vector<@message>", b"\xfe\xdc\xba\x98\x06")])
    write("frame_fuzz", "messages_without_end", frame(1, content))
    write("frame_fuzz", "resolve", frame(2, b"directory"))
    write("frame_fuzz", "acknowledge", frame(8))
    write("frame_fuzz", "metadata_in_data", frame(1, b"", 128, 1, 100))


def record(kind, body, version=PROTOCOL_VERSION):
    """A record of the rendezvous socket (actors/transport/wire/record.hpp)."""
    return struct.pack("<IHBBI", 0x48505254, version, kind, 0, len(body)) + body


def text(value):
    return struct.pack("<H", len(value)) + value


def handshakes():
    nonce = bytes(range(32))
    introduction = (text(b"there") + text(b"model") + text(b"there:1") + struct.pack("<3Q", 18, 1000, 10)
                    + text(b"address") + text(b"memory") + struct.pack("<3H", PROTOCOL_VERSION, PROTOCOL_VERSION + 1, 1)
                    + text(b"troupe::worker_hello") + struct.pack("<2H", 1, 2))
    other_model = introduction.replace(b"model", b"other")
    write("handshake_fuzz", "to_server", b"\0\7" + record(1, nonce) + record(3, nonce + introduction))
    write("handshake_fuzz", "to_client", b"\1\377" + record(2, nonce) + record(3, nonce + introduction))
    write("handshake_fuzz", "client", b"\2\0" + introduction)
    write("handshake_fuzz", "client_other_model", b"\2\5" + other_model)
    write("handshake_fuzz", "server", b"\3\0" + introduction)
    write("handshake_fuzz", "server_other_model", b"\3\0" + other_model)
    write("handshake_fuzz", "refusal", b"\4\3" + b"\1" + text(b"there") + text(b"models differ"))
    write("handshake_fuzz", "records", b"\5\4" + record(5, struct.pack("<2Q", 3, 4)) + record(1, nonce) + record(4, b""))
    write("handshake_fuzz", "other_version", b"\5\0" + record(1, nonce, PROTOCOL_VERSION + 1))


def requests():
    def post(path, body, headers=b""):
        return (b"POST " + path + b" HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" + headers
                + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def seed(name, content, step=255):
        write("http_fuzz", name, bytes([step]) + content)

    completion = b'{"model":"tiny","prompt":"ab","max_tokens":2}'
    stream = b'{"prompt":[97],"max_tokens":1,"stream":true,"stream_options":{"include_usage":true}}'
    chat = b'{"model":"tiny","messages":[{"role":"user","content":"hi"}],"n":2}'
    chunks = b"POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    seed("completion", post(b"/v1/completions", completion))
    seed("stream", post(b"/v1/completions", stream))
    seed("chat_in_pieces", post(b"/v1/chat/completions", chat), 9)
    seed("chunked", chunks + b'6;x=y\r\n{"prom\r\na\r\npt":"word"}\r\n0\r\nTrailer: 1\r\n\r\n')
    seed("continue", post(b"/tokenize", b'{"prompt":"a"}', b"Expect: 100-continue\r\n"))
    seed("pipelined", b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /v1/models/tiny HTTP/1.1\r\nHost: a\r\n\r\n"
         + post(b"/detokenize", b'{"tokens":[97,98]}') + b"GET /ready HTTP/1.0\r\n\r\n")
    seed("preflight", b"OPTIONS /v1/completions HTTP/1.1\r\nHost: a\r\nOrigin: http://b\r\n"
         b"Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n\r\n")
    seed("head", b"HEAD /metrics?x=%41 HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\nConnection: close\r\n\r\n")
    seed("placement", b"GET /cluster/placement HTTP/1.1\r\nHost: a\r\n\r\n"
         + post(b"/cluster/placement", b'{"action":"move","layer":1,"expert":2,"from":"a","to":"b","dry_run":true}')
         + post(b"/cluster/placement", b'{"action":"assign","experts":[{"layer":1,"expert":2,"hosts":["a","b"]}]}'))
    seed("history", b"GET /cluster/history?windows=3&x HTTP/1.1\r\nHost: a\r\n\r\n")
    seed("not_found", b"GET /v1/%6Done HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer k\r\n\r\n")
    # Compressed bodies in every accepted frame, and one whose end is missing.
    def packed(content, frame):
        deflate = zlib.compressobj(9, zlib.DEFLATED, frame)
        return deflate.compress(content) + deflate.flush()

    gzip, gzip_header, deflate_header = zlib.MAX_WBITS + 16, b"Content-Encoding: gzip\r\n", b"Content-Encoding: deflate\r\n"
    whole = packed(completion, gzip)
    seed("gzip", post(b"/v1/completions", whole, gzip_header))
    seed("gzip_cut", post(b"/v1/completions", whole[:-5], gzip_header))
    members = packed(completion[:20], gzip) + packed(completion[20:], gzip)
    seed("gzip_two_members", post(b"/v1/completions", members, gzip_header), 40)
    seed("deflate", post(b"/tokenize", packed(b'{"prompt":"ab"}', zlib.MAX_WBITS), deflate_header))
    seed("deflate_without_frame", post(b"/tokenize", packed(b'{"prompt":"ab"}', -zlib.MAX_WBITS), deflate_header))
    seed("unknown_encoding", b"POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n")


def histories():
    """Windows of layers of 3, 0 and 8 experts (actors/protocol/activation_window.hpp), in each form of a history."""
    dense, sparse = bytes([1, 5, 0, 200, 1]), bytes([0, 1, 6, 9])
    window = bytes([136, 39, 3, 2]) + dense + sparse
    write("history_fuzz", "window", b"\0" + window)

    def number(value):
        return struct.pack("<Q", value)

    def named(value):
        return number(len(value)) + value

    stored = (b"troupe-history 2\n" + named(b"model") + number(3) + number(3) + number(0) + number(8)
              + b"".join(number(value) for value in (600000, 5000, 3, 214)) + struct.pack("<11d", *range(11))
              + number(1) + number(7) + number(1) + number(5000) + named(window) + number(1) + number(7) + number(1))
    write("history_fuzz", "stored", b"\1" + stored)
    page = {"format": "troupe-history 1", "fingerprint": "model", "layer_experts": [3, 0, 8], "half_life_ms": 600000,
            "age_ms": 5000, "tokens": 3, "rows": 214, "decayed": [[5, 0.5, 1e-310], [], [0] * 8],
            "windows": [{"worker": "0000000000000007", "sequence": 1, "at_ms": 5000, "duration_ms": 5000, "tokens": 3,
                         "micro_batches": 2, "rows": [[0, 5, 2, 200], [], [6, 9]]}]}
    write("history_fuzz", "json", b"\2" + json.dumps(page).encode())


def texts():
    """Texts and templates that have stopped a gateway, and plain ones (review of what one client can do to others)."""
    hostile = {"model": {"type": "BPE", "vocab": {"a": 0, "c": 1}, "merges": []},
               "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(?:a|aa)+c|."}, "behavior": "Isolated", "invert": False}}
    long_text = b"a" * 11_600
    write("tokenizer_fuzz", "hostile_pattern", long_text + b"\0" + json.dumps(hostile).encode())
    marks = ("a" + "\u0301" * 2000 + "\u0316" * 2000).encode()
    write("tokenizer_fuzz", "marks", marks)
    ids = HERE.parent / "golden" / "tokenizers" / "ids"
    write("tokenizer_fuzz", "sentencepiece", b"\1" + (ids / "plain.sentencepiece").read_bytes())
    write("tokenizer_fuzz", "tiktoken", b"\2" + (ids / "small.tiktoken").read_bytes())
    for number, name in enumerate(("demo", "small", "hostile", "whole")):
        write("text_fuzz", name, bytes([number]) + "Hello, w\u00f6rld \u4f60\u597d <s> 'ab'\n\n  1234".encode())
        write("text_fuzz", name + "_long", bytes([number]) + long_text)
        write("text_fuzz", name + "_marks", bytes([number]) + marks)
    for name, source in (("power", "{{ 9**(9**9) }}"), ("memory", "{{ 'a'*(7*10**9) }}"), ("plain", "{{ messages[0].content }}"),
                         ("raise", "{{ raise_exception('no') }}"), ("broken", "{% for %}"),
                         ("loop", "{% for i in range(10**9) %}{{ i }}{% endfor %}"), ("tojson", "{{ messages | tojson }}")):
        write("template_fuzz", name, b"\1" + source.encode() + b"\0" + json.dumps([{"role": "user", "content": "hi"}]).encode())
    write("template_fuzz", "answer", b"\0" + struct.pack("<3I", 2, 6, 2) + b"prompthi")
    write("template_fuzz", "answer_too_long", b"\0" + struct.pack("<3I", 2, 6, 2**32 - 1) + b"prompt")


def packed_files():
    """Indices of packed files (docs/packed-weights.md) of packed_fuzz's model: hidden and FFN 32, 2 experts."""
    layer = "model.layers.0."
    vectors = {"model.norm.weight": 32, layer + "input_layernorm.weight": 32, layer + "post_attention_layernorm.weight": 32}
    attention = [layer + f"self_attn.{name}_proj.weight" for name in "qkvo"]
    matrices = {"+".join(attention[:3]): 64, attention[3]: 32, "lm_head.weight": 16}
    # For a panel of K 32: K is padded to 64 for quantized weights.
    panels = {"bf16-pair": 1024, "bf16-coded": 896, "int8-channel": 1088, "int4-channel": 576, "int4-group32": 640, "int4-group64": 640}

    def index(experts, expert_format, dense):
        dense_format = {"none": expert_format if experts == "none" else "bf16-pair", "int8": "int8-channel"}.get(dense, dense)
        extents = []

        def add(name, kind, form, shape, size):
            offset = 4096
            if extents:
                offset = (extents[-1]["offset"] + extents[-1]["bytes"] + 4095) // 4096 * 4096
            extents.append({"name": name, "kind": kind, "format": form, "shape": shape, "offset": offset, "bytes": size,
                            "checksum": "ok"})

        stride, row = (32, 64) if dense == "none" else (64, 68)
        add("embeddings", "embeddings", "bf16" if dense == "none" else "int8", [16, 32, stride], 16 * row)
        for name, size in vectors.items():
            add(name, "vector", "f32", [size], 4 * size)
        for name, size in matrices.items():
            add(name, "matrix", dense_format, [size, 32], size // 16 * panels[dense_format])
        add(layer + "block_sparse_moe.gate.weight", "matrix", "bf16-pair", [2, 32], panels["bf16-pair"])
        for expert in range(2):
            add(f"layers.0.experts.{expert}", "mlp", expert_format, [32, 32], 6 * panels[expert_format])
        text = json.dumps({"fingerprint": "f", "config_checksum": "ok", "dtype": "bf16", "experts": experts,
                           "dense": dense, "extents": extents}, separators=(",", ":"))
        end = extents[-1]["offset"] + extents[-1]["bytes"]
        return bytes([(end + 4095) // 4096]), text.encode()

    for name, form, dense in (("none", "bf16-pair", "none"), ("int8", "int8-channel", "int8"),
                              ("int4-group32", "int4-group32", "none"), ("int4-group64", "int4-group64", "int8"),
                              ("int4-channel", "int4-channel", "int4-group32")):
        pages, text = index(name, form, dense)
        write("packed_fuzz", name, pages + bytes(3) + text)
    pages, text = index("none", "bf16-coded", "none")
    write("packed_fuzz", "coded", pages + bytes([132, 0, 0]) + text)  # 132: all else is valid
    write("packed_fuzz", "coded_without_end", pages + bytes(3) + text)
    pages, text = index("int8", "int8-channel", "int8")
    for name, damage in (("cut_short", (1, 255, 0)), ("header_byte", (2, 20, 1)), ("other_version", (3, 8, 2)),
                         ("index_beyond_the_file", (3, 20, 255)), ("extent_byte", (4, 8, 1)), ("index_byte", (5, 99, 0))):
        write("packed_fuzz", name, pages + bytes(damage) + text)
    write("packed_fuzz", "overlapping", pages + bytes(3) + text.replace(b'"offset":8192', b'"offset":4096'))
    write("packed_fuzz", "negative", pages + bytes(3) + text.replace(b'"bytes":128', b'"bytes":-128'))
    write("packed_fuzz", "fraction", pages + bytes(3) + text.replace(b'"offset":8192', b'"offset":8192.5'))
    write("packed_fuzz", "huge", pages + bytes(3) + text.replace(b'"shape":[32]', b'"shape":[1e300]'))


def configs():
    """A config.json of each small model of the tests but the four of earlier days, which are there as files."""
    sys.path.insert(0, str(HERE.parent / "reference"))
    import variants

    for variant in variants.VARIANTS:
        fields = variants.config_of(variant)
        if fields["model_type"] not in ("mixtral", "olmoe", "qwen2_moe", "qwen3_moe"):
            write("config_fuzz", f"{variant}.json", json.dumps(fields).encode())


if __name__ == "__main__":
    configs()
    frames()
    handshakes()
    requests()
    histories()
    texts()
    packed_files()
