#include "load/report.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include <nlohmann/json.hpp>

#include "services/options/option_parser.hpp"

namespace troupe::load {

namespace {

struct samples {
  std::vector<double> ttft;
  std::vector<double> tpot;
  std::vector<double> itl;
  std::vector<double> e2el;
  std::vector<double> queued;
  std::vector<double> e2el_and_queued;
  std::size_t failed = 0;
  std::uint64_t input_tokens = 0;
  std::uint64_t output_tokens = 0;
};

double tpot_of(const request_record& r) {
  return r.output_tokens > 1 ? (r.latency - r.ttft) / (r.output_tokens - 1) : 0.0;
}

/// Milliseconds, sorted.
samples collect(const std::vector<request_record>& records) {
  samples s;
  for (const auto& r : records) {
    if (!r.ok) {
      ++s.failed;
      continue;
    }
    s.input_tokens += r.input_tokens;
    s.output_tokens += r.output_tokens;
    s.ttft.push_back(r.ttft * 1e3);
    s.e2el.push_back(r.latency * 1e3);
    s.queued.push_back(r.queued * 1e3);
    s.e2el_and_queued.push_back((r.latency + r.queued) * 1e3);
    if (r.output_tokens > 1)
      s.tpot.push_back(tpot_of(r) * 1e3);
    for (double gap : r.gaps)
      s.itl.push_back(gap * 1e3);
  }
  for (auto* list : {&s.ttft, &s.tpot, &s.itl, &s.e2el, &s.queued, &s.e2el_and_queued})
    std::sort(list->begin(), list->end());
  return s;
}

void add_statistics(nlohmann::ordered_json& out, const std::string& name, const std::vector<double>& sorted) {
  if (sorted.empty())
    return;
  auto n = static_cast<double>(sorted.size());
  double mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n;
  double squares = 0.0;
  for (double x : sorted)
    squares += (x - mean) * (x - mean);
  out["mean_" + name + "_ms"] = mean;
  out["median_" + name + "_ms"] = percentile(sorted, 50);
  out["std_" + name + "_ms"] = std::sqrt(squares / n);
  for (int p : {25, 75, 90, 95, 99})
    out["p" + std::to_string(p) + "_" + name + "_ms"] = percentile(sorted, p);
}

/// JSON has no infinity; a string, as in vLLM.
nlohmann::ordered_json finite_or_inf(double value) {
  return std::isinf(value) ? nlohmann::ordered_json("inf") : nlohmann::ordered_json(value);
}

std::string model_of(const run_settings& settings, const std::vector<request_record>& records) {
  if (!settings.model.empty())
    return settings.model;
  auto named = std::find_if(records.begin(), records.end(), [](const auto& r) { return !r.model.empty(); });
  return named == records.end() ? "" : named->model;
}

bool is_good(const request_record& r, const std::map<std::string, double>& goals) {
  const std::map<std::string, double> reached{
      {"ttft", r.ttft * 1e3}, {"tpot", tpot_of(r) * 1e3}, {"e2el", r.latency * 1e3}};
  return r.ok && std::all_of(goals.begin(), goals.end(), [&](const auto& goal) {
           return reached.at(goal.first) <= goal.second;
         });
}

/// The most tokens of any second, counted from the first request.
double peak_tokens_per_second(const std::vector<request_record>& records) {
  double begin = std::numeric_limits<double>::infinity();
  for (const auto& r : records)
    begin = r.ok ? std::min(begin, r.start) : begin;
  std::map<std::int64_t, std::size_t> seconds;
  std::size_t most = 0;
  for (const auto& r : records) {
    double now = r.start + r.ttft - begin;
    for (std::size_t i = 0; r.ok && i <= r.gaps.size(); ++i) {
      most = std::max(most, ++seconds[static_cast<std::int64_t>(now)]);
      now += i < r.gaps.size() ? r.gaps[i] : 0.0;
    }
  }
  return static_cast<double>(most);
}

/// The most requests under way at once. A request that ends when another begins does not overlap it.
std::size_t peak_concurrency(const std::vector<request_record>& records) {
  std::vector<std::pair<double, int>> events;
  for (const auto& r : records) {
    if (r.ok) {
      events.emplace_back(r.start, 1);
      events.emplace_back(r.start + r.latency, -1);
    }
  }
  std::sort(events.begin(), events.end());
  int now = 0;
  int most = 0;
  for (const auto& [time, change] : events) {
    now += change;
    most = std::max(most, now);
  }
  return static_cast<std::size_t>(most);
}

/// One entry a request, in the order of sending.
void add_lists(nlohmann::ordered_json& out, const std::vector<request_record>& records) {
  for (const char* name :
       {"input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "queue_times", "errors"})
    out[name] = nlohmann::ordered_json::array();
  for (const auto& r : records) {
    out["input_lens"].push_back(r.input_tokens);
    out["output_lens"].push_back(r.ok ? r.output_tokens : 0);
    out["ttfts"].push_back(r.ttft);
    out["itls"].push_back(r.gaps);
    out["latencies"].push_back(r.latency);
    out["start_times"].push_back(r.start);
    out["queue_times"].push_back(r.queued);
    out["errors"].push_back(r.error);
  }
}

} // namespace

std::pair<std::string, double> parse_goodput(const std::string& text, const std::string& flag) {
  auto colon = text.find(':');
  std::string name = text.substr(0, colon);
  std::string number = colon == std::string::npos ? "" : text.substr(colon + 1);
  double value = 0.0;
  auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if ((name != "ttft" && name != "tpot" && name != "e2el") || number.empty() || error != std::errc{}
      || stop != number.data() + number.size() || !(value >= 0.0)) {
    throw option_error(flag + ": '" + text
                       + "' is not ttft, tpot or e2el with milliseconds, such as ttft:200");
  }
  return {name, value};
}

double percentile(const std::vector<double>& sorted, double percent) {
  double place = percent / 100.0 * static_cast<double>(sorted.size() - 1);
  auto low = static_cast<std::size_t>(place);
  std::size_t high = std::min(low + 1, sorted.size() - 1);
  double share = place - static_cast<double>(low);
  return sorted[low] * (1.0 - share) + sorted[high] * share;
}

std::string report_json(const run_settings& settings, const std::vector<request_record>& records,
                        double duration) {
  samples s = collect(records);
  std::size_t completed = records.size() - s.failed;
  nlohmann::ordered_json out;
  out["date"] = settings.date;
  out["endpoint_type"] = "openai";
  out["backend"] = "openai";
  out["label"] = nullptr;
  out["model_id"] = model_of(settings, records);
  out["tokenizer_id"] = nullptr; // the server's usage reports the numbers of tokens
  out["num_prompts"] = records.size();
  out["request_rate"] = finite_or_inf(settings.request_rate);
  out["burstiness"] = finite_or_inf(settings.burstiness);
  out["max_concurrency"] = nullptr;
  if (settings.max_concurrency > 0)
    out["max_concurrency"] = settings.max_concurrency;
  out["start_time"] = settings.start_time;
  out["duration"] = duration;
  out["completed"] = completed;
  out["failed"] = s.failed;
  out["total_input_tokens"] = s.input_tokens;
  out["total_output_tokens"] = s.output_tokens;
  out["request_throughput"] = static_cast<double>(completed) / duration;
  out["request_goodput"] = nullptr;
  if (!settings.goodput.empty()) {
    auto good = std::count_if(records.begin(), records.end(),
                              [&](const auto& r) { return is_good(r, settings.goodput); });
    out["request_goodput"] = static_cast<double>(good) / duration;
  }
  out["output_throughput"] = static_cast<double>(s.output_tokens) / duration;
  out["total_token_throughput"] = static_cast<double>(s.input_tokens + s.output_tokens) / duration;
  add_lists(out, records);
  if (settings.has_texts) {
    out["generated_texts"] = nlohmann::ordered_json::array();
    for (const auto& r : records)
      out["generated_texts"].push_back(r.text);
  }
  out["max_output_tokens_per_s"] = peak_tokens_per_second(records);
  out["max_concurrent_requests"] = peak_concurrency(records);
  add_statistics(out, "ttft", s.ttft);
  add_statistics(out, "tpot", s.tpot);
  add_statistics(out, "itl", s.itl);
  add_statistics(out, "e2el", s.e2el);
  if (settings.max_concurrency > 0) {
    add_statistics(out, "client_queue_time", s.queued);
    if (std::isfinite(settings.request_rate))
      add_statistics(out, "e2el_including_client_queue", s.e2el_and_queued);
  }
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string report_text(const std::vector<request_record>& records, double duration) {
  samples s = collect(records);
  std::size_t completed = records.size() - s.failed;
  char line[256];
  std::snprintf(line, sizeof line,
                "%zu completed, %zu failed in %.2f s: %.2f requests/s, %.1f output tokens/s\n", completed,
                s.failed, duration, static_cast<double>(completed) / duration,
                static_cast<double>(s.output_tokens) / duration);
  std::string out = line;
  const std::vector<std::pair<const char*, const std::vector<double>*>> rows = {
      {"time to first token", &s.ttft}, {"time per output token", &s.tpot}, {"end to end", &s.e2el}};
  for (const auto& [name, values] : rows) {
    if (!values->empty()) {
      std::snprintf(line, sizeof line, "%s: p50 %.1f ms, p99 %.1f ms\n", name, percentile(*values, 50),
                    percentile(*values, 99));
      out += line;
    }
  }
  return out;
}

} // namespace troupe::load
