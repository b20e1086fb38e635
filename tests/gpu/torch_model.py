"""A model folder in `transformers`: logits, and times of decoding and of a prompt with each way to compute experts.

Whatever fails is an exception with one line of text, so that the caller can go on with the next way. A decode step ends when
the most probable tokens are in the host's memory, as a server has it.
"""
import gc
import statistics
import time

from peer_tokens import WARM_UP_STEPS  # in tests/bench

LONG_ROUND_SECONDS = 3.0  # a second one adds little
MOST_COPIED_BYTES = 16 << 30


class Unavailable(Exception):
    """This way does not exist here, or makes no sense."""


class TorchModel:
    def __init__(self, folder, dtype, device):
        import torch
        import transformers

        self.torch, self.transformers, self.device = torch, transformers, device
        how = {"dtype": getattr(torch, dtype), "attn_implementation": "sdpa"}
        load = transformers.AutoModelForCausalLM.from_pretrained
        try:
            self.model = load(folder, device_map={"": device}, **how)
        except (ImportError, ValueError):  # without accelerate
            self.model = load(folder, **how).to(device)
        self.model.eval()
        self.caches = {}  # kind -> (batch, context, cache)

    def close(self):
        self.model, self.caches = None, {}
        gc.collect()  # modules are in reference cycles
        if self.device != "cpu":
            self.torch.cuda.empty_cache()

    def use(self, experts):
        choose = getattr(self.model, "set_experts_implementation", None)
        if choose is None:
            if experts != "eager":
                raise Unavailable(f"transformers {self.transformers.__version__} has no set_experts_implementation")
            return
        choose(experts)
        chosen = getattr(self.model.config, "_experts_implementation", experts)
        if chosen != experts:
            raise Unavailable(f"transformers chose {chosen}")

    def refuse_copies(self, experts, config, rows):
        """batched_mm copies the matrices of each row's experts."""
        copied = rows * config["num_experts_per_tok"] * 3 * config["hidden_size"] * config["intermediate_size"] * 2
        if experts == "batched_mm" and copied > MOST_COPIED_BYTES:
            raise Unavailable(f"it would copy {copied / 1e9:.0f} GB of weights in each layer")

    def ids(self, tokens):
        return self.torch.tensor(tokens, device=self.device)

    def last_logits(self, tokens):
        out = self.model(input_ids=self.ids([tokens]), use_cache=False, logits_to_keep=1)
        return out.logits[0, -1].float().cpu()

    def loads(self, tokens, top_k):
        """-> how often each expert of each layer is chosen"""
        out = self.model(input_ids=self.ids([tokens]), use_cache=False, logits_to_keep=1, output_router_logits=True)
        return [self.torch.bincount(logits.float().topk(top_k).indices.flatten(), minlength=logits.shape[-1]).tolist()
                for logits in out.router_logits]

    def prefill_rates(self, experts, tokens, rounds, is_over):
        """-> tokens/s of each round; the first is warm-up"""
        self.use(experts)
        ids, rates = self.ids([tokens]), []
        for number in range(rounds + 1):
            begin = time.perf_counter()
            self.model(input_ids=ids, use_cache=True, logits_to_keep=1).logits[:, -1].argmax(-1).cpu()
            seconds = time.perf_counter() - begin
            if number:
                rates.append(len(tokens) / seconds)
            if is_over() or (rates and seconds > LONG_ROUND_SECONDS):
                break
        return rates

    def filled(self, kind, prompts, steps):
        """A cache with these prompts, each of the same length; rewound to their end where it is there already."""
        batch, context = len(prompts), len(prompts[0])
        if self.caches.get(kind, (0, 0))[:2] == (batch, context):
            cache = self.caches[kind][2]
            rewind(cache, kind, context)
            return cache
        self.caches.clear()
        cache = None
        if kind == "static":
            length = (context + steps + WARM_UP_STEPS + 1 + 15) // 16 * 16
            cache = self.transformers.StaticCache(config=self.model.config, max_cache_len=length)
        cache = self.model(input_ids=self.ids(prompts), past_key_values=cache, use_cache=True, logits_to_keep=1).past_key_values
        self.caches[kind] = (batch, context, cache)
        return cache

    def decode_rates(self, way, prompts, following, rounds, is_over, filler="eager"):
        """@param way        (how experts are computed, kind of cache, whether steps are one CUDA graph)
        @param following  the tokens of each step, one a sequence
        @param filler     how experts are computed where the cache is filled
        -> tokens/s of each round, the tokens chosen in the last step"""
        experts, kind, is_graph = way
        if is_graph and self.device == "cpu":
            raise Unavailable("graphs need a GPU")
        context, timed_steps = len(prompts[0]), len(following) - WARM_UP_STEPS
        self.use(filler)
        cache = self.filled(kind, prompts, timed_steps)
        self.use(experts)
        given = [self.ids(tokens).unsqueeze(1) for tokens in following]
        current = given[0].clone()

        def step():
            out = self.model(input_ids=current, past_key_values=cache, use_cache=True, logits_to_keep=1)
            return out.logits[:, -1].argmax(-1)

        run = self.recorded(step) if is_graph else step
        rates = []
        for _ in range(rounds):
            rewind(cache, kind, context)
            for number, tokens in enumerate(given):
                if number == WARM_UP_STEPS:
                    begin = time.perf_counter()
                current.copy_(tokens)
                chosen = run().cpu()
            seconds = time.perf_counter() - begin
            rates.append(len(prompts) * timed_steps / seconds)
            if is_over() or seconds > LONG_ROUND_SECONDS:
                break
        return rates, chosen.tolist()

    def recorded(self, step):
        """The step as a CUDA graph; it has to take its position from the cache's own counter on the device."""
        torch = self.torch
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            step()
        side.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            chosen = step()

        def replay():
            graph.replay()
            return chosen

        return replay


def rewind(cache, kind, length):
    """Forgets what lies behind the first `length` tokens."""
    if kind == "dynamic":
        extra = cache.get_seq_length() - length
        if extra > 0:
            cache.crop(-extra)
        return
    for layer in cache.layers:
        count = getattr(layer, "cumulative_length", None)
        if count is None:  # versions that count nonzero elements
            layer.keys[:, :, length:].zero_()
        elif isinstance(count, int):
            layer.cumulative_length = length
        else:
            count.fill_(length)


def median(rates):
    return statistics.median(rates)
