"""PromQL of vllm_expressions.txt: the expressions of vLLM's dashboards, and which of them have no
series."""
import pathlib

FILE = pathlib.Path(__file__).with_name("vllm_expressions.txt")
# All engines, also those without such a label.
CHOICE = {"model_name": 'model_name=~"m"', "job": 'job=~".+"', "instance": 'instance=~".+"', "engine": 'engine=~".*"'}
EDGES = {"time_to_first_token_seconds": "0.5", "request_time_per_output_token_seconds": "0.05"}  # of vLLM's objectives
AWAKE, DISCARDED = 'sleep_state="awake"', 'sleep_state="discard_all"'


def promql(how, family, by, choice):
    """@param by  labels, with commas; @param choice  matchers in braces, or nothing"""
    grouped = f" by ({by})" if by else ""

    def series(ending="", more="", name=family):
        matchers = ", ".join(part for part in (choice, more) if part)
        prefix = "" if name.startswith("process_") else "vllm:"
        return f"{prefix}{name}{ending}{{{matchers}}}" if matchers else f"{prefix}{name}{ending}"

    def rate(ending="", more="", name=family):
        return f"rate({series(ending, more, name)}[5m])"

    if how in ("ratio", "speed"):
        over, under = family.split(" / ")
        below = rate(name=under) if how == "ratio" else f"avg_over_time({series(name=under)}[5m])"
        return f"sum{grouped} ({rate(name=over)}) / (sum{grouped} ({below}) > 0)"
    if how == "in use":
        over, under = family.split(" / ")
        return f"sum{grouped} ({series(name=over)}) / sum{grouped} ({series(name=under)})"
    return {
        "value": lambda: series(),
        "rate": lambda: rate(),
        "sum rate": lambda: f"sum{grouped} ({rate()})",
        "mean": lambda: f"{rate('_sum')} / {rate('_count')}",
        "all mean": lambda: f"sum{grouped} ({rate('_sum')}) / (sum{grouped} ({rate('_count')}) > 0)",
        "average": lambda: f"sum(increase({series('_sum')}[5m])) / sum(increase({series('_count')}[5m]))",
        "quantile": lambda: f"histogram_quantile(0.9, sum{grouped} ({rate('_bucket')}))",
        "buckets": lambda: f"sum{grouped} ({rate('_bucket')})",
        "part": lambda: f"sum{grouped} ({rate('_bucket')}) / on () group_left () (sum({rate('_count')}) > 0)",
        "within": lambda: f"sum({rate('_bucket', f'le={chr(34)}{EDGES[family]}{chr(34)}')}) / (sum({rate('_count')}) > 0)",
        "share": lambda: f"sum{grouped} ({rate()}) / ignoring ({by}) group_left () (sum({rate()}) > 0)",
        "present": lambda: f"count{grouped} (group by ({by}, instance) (last_over_time({series()}[5m])))",
        "peak": lambda: f"max{grouped} (max_over_time({series()}[5m]))",
        "uptime": lambda: (f"max{grouped} ((time() - process_start_time_seconds) * on (job, instance) group_left (model_name) "
                           f"group by (job, instance, model_name) ({series()}))"),
        "awake": lambda: f"max({series('', AWAKE)}) == 1",
        "asleep": lambda: f"(1 - max{grouped} ({series('', AWAKE)})) * (1 + max{grouped} ({series('', DISCARDED)})) == 0",
        "down": lambda: f"count({family}{{{choice}}} == 0) or vector(0)",
        **{name: lambda name=name: f"{name}{grouped} ({series()})" for name in ("count", "sum", "max", "avg", "min")},
    }[how]()


class Expressions:
    def __init__(self):
        self.asked = []  # (dashboard, PromQL, how often)
        self.missing = []  # (dashboard, series, how often, why)
        dashboard = None
        for line in FILE.read_text(encoding="utf-8").splitlines():
            if line.startswith("["):
                dashboard = line.strip("[]")
            elif line and not line.startswith("#"):
                how, family, by, labels, count, *why = (cell.strip() for cell in line.split("|"))
                if how == "not here":
                    self.missing.append((dashboard, self.missing_series(family), int(count), why[0]))
                else:
                    choice = ", ".join(CHOICE[label.strip()] for label in labels.split(",") if label.strip())
                    self.asked.append((dashboard, promql(how, family, by, choice), int(count)))

    @staticmethod
    def missing_series(family):
        return family.removesuffix(" without a prefix") if family.endswith(" without a prefix") else f"vllm:{family}"

    def counts(self):
        """@returns (expressions that must be answered, expressions that ask for what there is not)"""
        return sum(count for *_, count in self.asked), sum(count for _, _, count, _ in self.missing)
