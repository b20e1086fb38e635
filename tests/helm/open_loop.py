"""Clients that arrive at a rate, independent of earlier ones, each with a stream whose every byte is known."""
import collections
import contextlib
import http.client
import json
import threading
import time

QUESTIONS = 8
PATIENCE = 150  # seconds that a client waits for its whole answer: longer than the server lets requests wait
OK, TOLD, REFUSED, CUT, WRONG, LATE = "ok", "told", "refused", "cut", "wrong", "late"

# kind: OK, complete and right; TOLD, refused in words (503 or 429 with Retry-After, an error event in the stream); REFUSED, no
# connection; CUT, a stream that ended early; WRONG, another answer than the first time; LATE, no end within PATIENCE.
Outcome = collections.namedtuple("Outcome", "kind begun ended detail")


class Told(Exception):
    """The server said that it cannot."""


class OpenLoop:
    """New requests at a rate."""

    def __init__(self, endpoints, rate, tokens, key=None):
        """endpoints: gives the addresses that the Service leads to"""
        self.endpoints, self.rate, self.tokens = endpoints, rate, tokens
        self.headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        self.stopping, self.lock, self.outcomes, self.waiting = threading.Event(), threading.Lock(), [], []
        self.expected = [None] * QUESTIONS
        self.thread = threading.Thread(target=self.generate, daemon=True)

    def learn(self):
        """Asks each question once, and remembers the answer."""
        self.expected = [self.ask(self.endpoints()[0], number) for number in range(QUESTIONS)]

    def start(self):
        self.thread.start()

    def stop(self):
        """Ends the arrivals and waits for all answers. @returns their outcomes"""
        self.stopping.set()
        self.thread.join()
        for thread in self.waiting:
            thread.join()
        return self.outcomes

    def generate(self):
        number, next_one = 0, time.monotonic()
        while not self.stopping.wait(max(0, next_one - time.monotonic())):
            thread = threading.Thread(target=self.client, args=(number,), daemon=True)
            thread.start()
            self.waiting.append(thread)
            number, next_one = number + 1, next_one + 1 / self.rate

    def client(self, number):
        begun = time.monotonic()
        kind, detail = self.outcome_of(number)
        with self.lock:
            self.outcomes.append(Outcome(kind, begun, time.monotonic(), detail))

    def outcome_of(self, number):
        addresses = self.endpoints()
        if not addresses:
            return REFUSED, "the Service leads to no gateway"
        try:
            answer = self.ask(addresses[number % len(addresses)], number % QUESTIONS)
        except Told as error:
            return TOLD, str(error)
        except ConnectionRefusedError as error:
            return REFUSED, str(error)
        except TimeoutError as error:
            return LATE, str(error)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return CUT, f"{type(error).__name__}: {error}"
        return (OK, "") if answer == self.expected[number % QUESTIONS] else (WRONG, str(answer))

    def ask(self, address, number):
        """@returns what the stream says: text, tokens, and their probabilities"""
        prompt = [3 + (number * 37 + i * 11) % 240 for i in range(8 + 3 * number)]
        body = {"prompt": prompt, "max_tokens": self.tokens, "temperature": 0.8, "seed": number, "ignore_eos": True, "logprobs": 1,
                "return_token_ids": True, "stream": True}
        connection, deadline = http.client.HTTPConnection(address, 8000, timeout=PATIENCE), time.monotonic() + PATIENCE
        with contextlib.closing(connection):
            connection.request("POST", "/v1/completions", json.dumps(body), self.headers)
            response = connection.getresponse()
            if response.status in (429, 503) and response.headers["Retry-After"]:
                raise Told(f"{response.status} {response.read(300)}")
            if response.status != 200:
                raise ValueError(f"{response.status} {response.read(300)}")
            return self.stream(response, deadline)

    def stream(self, response, deadline):
        text, tokens, logprobs = "", [], []
        for line in response:
            if time.monotonic() > deadline:  # comments keep an idle stream alive
                raise TimeoutError(f"{len(tokens)} of {self.tokens} tokens after {PATIENCE} s")
            if line.strip() == b"data: [DONE]":
                return text, tokens, logprobs
            if line.startswith(b"data: "):
                chunk = json.loads(line[6:])
                if "error" in chunk:
                    raise Told(json.dumps(chunk["error"]))
                for choice in chunk["choices"]:
                    text += choice["text"]
                    tokens += choice["token_ids"]
                    logprobs += choice["logprobs"]["token_logprobs"]
        raise ValueError(f"the stream ended after {len(tokens)} of {self.tokens} tokens")
