#!/usr/bin/env python3
"""The numbers that evaluation and load tools read from answers equal those that the server computed: the demo model by
`troupe serve`.

usage: stock_clients_test.py BINARIES MODEL_DIR WORK_DIR   (MODEL_DIR is not used: this needs a model that ends its text)

- lm-evaluation-harness (`local-completions`) asks for an echo with one new token, and takes the logprobs between the
  context and that token as `token_logprobs[ctxlen:-1]`. Its sums and its "greedy" are compared with the float64
  reference, also where the new token is the end token.
- `vllm bench serve` counts every chunk that has a choice as a token, and takes the number of tokens from the usage.
- Parsers that know less than the standard of events read every stream: one that ends an event at each blank line and wants JSON in
  it, and one that takes what the network brings, strips it, and tries whether it is JSON.
- A stream, put together, is the answer that does not stream: text, token ids, logprobs, offsets, reasons.
"""
import contextlib
import http.client
import json
import pathlib
import sys

from cluster import Cluster, run_all

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reference"))
import reference  # noqa: E402: found by the line above

MODEL = ROOT / "deploy" / "demo-model" / "model"
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
END_TOKEN = 0
PAIRS = [  # context, continuation
    ("In the beginning God created the heaven", " and the earth."),
    ("In the beginning God created the heaven and", " the sea."),
    ("And the LORD said unto", " Moses"),
    ("And it came to pass", " in those days, that there went out a decree"),
    ("In the beginning God created the heaven and the earth.", "<|endoftext|>"),
]
STREAMS = 200  # at once; more than run at a time, fewer than may wait


def encode(cluster, text):
    return cluster.post("/tokenize", {"prompt": text})["tokens"]


def harness_scores(answer, context_lengths):
    """(sum of logprobs, is greedy) of each continuation, by the rule of lm-evaluation-harness."""
    scores = []
    for choice, context in zip(sorted(answer["choices"], key=lambda one: one["index"]), context_lengths):
        logprobs = choice["logprobs"]["token_logprobs"][context:-1]
        tops = choice["logprobs"]["top_logprobs"][context:-1]
        scores.append((sum(logprobs), all(own == max(top.values()) for own, top in zip(logprobs, tops))))
    return scores


def score_pairs(cluster):
    model = reference.load(MODEL)
    prompts, lengths, expected = [], [], []
    for context, continuation in PAIRS:
        tokens, own = encode(cluster, context + continuation), encode(cluster, context)
        assert tokens[:len(own)] == own, (context, tokens, own)
        logprobs = reference.log_softmax(model.logits(tokens))[len(own) - 1:-1]
        new = tokens[len(own):]
        expected.append((sum(row[token] for row, token in zip(logprobs, new)),
                         all(row.argmax() == token for row, token in zip(logprobs, new))))
        prompts.append(tokens)
        lengths.append(len(own))
    assert prompts[-1][-1] == END_TOKEN, prompts[-1]
    assert {greedy for _, greedy in expected} == {True, False}, expected

    def ask(prompt):
        return cluster.post(COMPLETIONS, {"model": "m", "prompt": prompt, "temperature": 0, "max_tokens": 1,
                                          "logprobs": 1, "seed": 1234, "echo": True})

    texts = [context + continuation for context, continuation in PAIRS]
    ends = 0
    for form in (prompts, texts):
        alone = [ask([prompt] if form is prompts else prompt) for prompt in form]
        scores = [harness_scores(answer, [length])[0] for answer, length in zip(alone, lengths)]
        assert harness_scores(ask(form), lengths) == scores, "a batch scores otherwise than its prompts alone"
        for pair, score, wanted in zip(PAIRS, scores, expected):
            assert abs(score[0] - wanted[0]) < 1e-3 and score[1] == wanted[1], (pair, score, wanted)
        for answer, tokens, text in zip(alone, prompts, texts):
            choice = answer["choices"][0]
            assert len(choice["logprobs"]["tokens"]) == len(tokens) + 1, choice
            assert choice["text"].startswith(text), (choice, text)
            check_places(choice)
            ends += choice["finish_reason"] == "stop"
    assert ends > 0, "no new token was the end token"
    return ends


def check_places(choice):
    """Every token stands at its offset, as far as the text goes, and none before or far behind the one before it."""
    logprobs = choice["logprobs"]
    assert len(logprobs["tokens"]) == len(logprobs["text_offset"]), choice
    least = most = 0
    for token, offset in zip(logprobs["tokens"], logprobs["text_offset"]):
        at = choice["text"][offset:offset + len(token)]
        assert token.startswith(at) or "\ufffd" in token, (token, choice)
        assert least <= offset <= most, (token, offset, choice)
        least, most = offset, offset + len(token)


def joined(chunks):
    """The choice that a stream of one choice adds up to."""
    whole = {"text": "", "token_ids": [], "logprobs": None}
    for chunk in chunks:
        for choice in chunk["choices"]:
            whole["text"] += choice["text"] if "text" in choice else choice["delta"]["content"]
            whole["token_ids"] += choice.get("token_ids") or []
            if choice["logprobs"] is not None:
                lists = {name: values for name, values in choice["logprobs"].items() if values is not None}
                whole["logprobs"] = lists if whole["logprobs"] is None else {
                    name: whole["logprobs"][name] + values for name, values in lists.items()}
            whole.update({name: choice[name] for name in ("finish_reason", "stop_reason") if choice.get(name) is not None})
    return whole


def same_as_stream(cluster):
    prompt = "In the beginning God created the heaven and the"
    shown = {"include_stop_str_in_output": True, "skip_special_tokens": False}
    ends = {"prompt": PAIRS[-1][0]}  # the model's next token is the end token
    cases = [{}, {"max_tokens": 1}, {"max_tokens": 3, "echo": True}, {"stop": ["unto M"]}, {"stop": ["unto M"], **shown},
             {"stop": ["unto N"]}, {"stop_token_ids": [encode(cluster, " LORD")[0]]},
             {"stop_token_ids": [encode(cluster, " LORD")[0]], **shown}, ends, {**ends, **shown}, {**ends, "echo": True}]
    texts = []
    for number, case in enumerate(cases):
        body = {"model": "m", "prompt": prompt, "temperature": 0, "max_tokens": 40, "logprobs": 2,
                "return_token_ids": True, **case}
        answer = cluster.post(COMPLETIONS, body)
        chunks = cluster.stream(COMPLETIONS, {**body, "stream_options": {"include_usage": True}})
        choice, count = answer["choices"][0], answer["usage"]["completion_tokens"]
        stream = joined(chunks)
        for name, value in stream.items():
            assert choice[name] == value, (case, name, choice[name], value)
        assert chunks[-1]["usage"] == answer["usage"], (case, chunks[-1])
        assert len(choice["token_ids"]) == count == len(chunks) - 1, (case, count, choice)
        echoed = answer["usage"]["prompt_tokens"] if "echo" in case else 0
        assert len(choice["logprobs"]["tokens"]) == count + echoed, (case, count, choice)
        check_places(choice)
        texts.append(choice["text"])
        chat = {"model": "m", "messages": [{"role": "user", "content": prompt}], "temperature": 0, "max_tokens": 40,
                "logprobs": True, "return_token_ids": True, **case}
        chat.pop("echo", None)
        chat.pop("prompt", None)
        answer = cluster.post(CHAT, chat)
        chunks = cluster.stream(CHAT, {**chat, "stream_options": {"include_usage": True}})
        choice, stream = answer["choices"][0], joined(chunks)
        assert (choice["message"]["content"], choice["token_ids"], choice["logprobs"]["content"]) == (
            stream["text"], stream["token_ids"], stream["logprobs"]["content"]), (number, choice, stream)
        assert len(choice["token_ids"]) == len(choice["logprobs"]["content"]) == len(chunks) - 2, (number, choice)
    assert texts[3].endswith(" said ") and texts[4] == texts[3] + "unto M", texts
    assert texts[7] == texts[6] + " LORD", texts
    assert (texts[8], texts[9], texts[10]) == ("", "<|endoftext|>", PAIRS[-1][0]), texts
    return len(cases)


def metric(cluster, name):
    page = cluster.request("GET", "/metrics")[2].decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name + "{"))


def count_streams(cluster):
    """@returns the number of tokens that `vllm bench serve` would report, which is what the server has counted"""
    before = metric(cluster, "troupe_generation_tokens_total")

    def stream(number):
        # Some are cut at their length, some end by themselves, some hold back text for a stop string.
        body = {"model": "m", "prompt": f"{number} And the LORD said unto", "repetition_penalty": 1.0,
                "max_tokens": 1 + number % 24, "logprobs": None, "stream_options": {"include_usage": True},
                "seed": number, "ignore_eos": number % 2 == 0}
        if number % 3 == 0:
            body["stop"] = ["the way of the"]
        chunks = cluster.stream(COMPLETIONS, body, timeout=600)
        tokens = sum(1 for chunk in chunks if chunk["choices"])
        usage = next(chunk["usage"] for chunk in chunks if not chunk["choices"])
        assert usage["completion_tokens"] == tokens, (number, tokens, usage)
        assert [chunk for chunk in chunks if chunk["choices"]][-1]["choices"][0]["finish_reason"] in ("stop", "length")
        return tokens

    total = sum(run_all([lambda n=n: stream(n) for n in range(STREAMS)], workers=STREAMS))
    counted = metric(cluster, "troupe_generation_tokens_total") - before
    # A worker may be a token ahead of a stop string's end.
    assert total <= counted <= total + STREAMS, (total, counted)
    return total


def blank_lines(response):
    """The events of a parser for which a blank line ends an event, and every event is JSON: a comment is an error to it."""
    for block in response.read().decode().split("\n\n"):
        if block:
            yield block.removeprefix("data: ")


def network_chunks(response):
    """The events of a parser that strips what each read brings."""
    rest = ""
    while chunk := response.read1(65536):
        rest += chunk.decode().strip()
        *whole, rest = rest.split("\n\n")
        yield from (event.removeprefix("data: ") for event in whole)
        event = rest.removeprefix("data: ")
        try:
            if event and event != "[DONE]":
                json.loads(event)
        except ValueError:
            continue  # more of it is to come
        rest = ""
        if event:
            yield event
    assert not rest, rest


def narrow_parsers(cluster):
    """More streams than run at a time, so that many wait for their first token."""
    def stream(number):
        parse = (blank_lines, network_chunks)[number % 2]
        chat = number % 4 < 2
        body = {"model": "m", "max_tokens": 8, "ignore_eos": True, "stream": True}
        body |= {"messages": [{"role": "user", "content": f"{number}"}]} if chat else {"prompt": f"{number} In the"}
        connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=600)
        with contextlib.closing(connection):
            connection.request("POST", CHAT if chat else COMPLETIONS, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            events = list(parse(response))
        assert events.pop() == "[DONE]", events
        tokens = [choice for event in events for choice in json.loads(event)["choices"] if "role" not in choice.get("delta", {})]
        assert len(tokens) == 8, (parse.__name__, events)

    run_all([lambda n=n: stream(n) for n in range(STREAMS)], workers=STREAMS)
    return STREAMS


def main():
    binaries, work = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[3])
    work.mkdir(parents=True, exist_ok=True)
    assert json.loads((MODEL / "generation_config.json").read_text())["eos_token_id"] == END_TOKEN
    with Cluster(binaries, "serve", MODEL, "--served-model-name", "m", "--dtype", "float32",
                 log=work / "serve.log") as cluster:
        ends = score_pairs(cluster)
        cases = same_as_stream(cluster)
        tokens = count_streams(cluster)
        narrow = narrow_parsers(cluster)
    print(f"{len(PAIRS)} pairs scored as by the float64 reference, {ends} answers with the end token; {cases} streams like "
          f"their answers; {STREAMS} streams of {tokens} tokens with a chunk for each; "
          f"{narrow} streams read by narrow parsers")


if __name__ == "__main__":
    main()
