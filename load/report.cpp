#include "load/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include <nlohmann/json.hpp>

namespace troupe::load {

namespace {

struct samples {
  std::vector<double> ttft;
  std::vector<double> tpot;
  std::vector<double> itl;
  std::vector<double> e2el;
  size_t failed = 0;
  uint64_t input_tokens = 0;
  uint64_t output_tokens = 0;
};

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
    if (r.output_tokens > 1) {
      s.tpot.push_back((r.latency - r.ttft) * 1e3 / (r.output_tokens - 1));
    }
    for (double gap : r.gaps) {
      s.itl.push_back(gap * 1e3);
    }
  }
  for (auto* list : {&s.ttft, &s.tpot, &s.itl, &s.e2el}) {
    std::sort(list->begin(), list->end());
  }
  return s;
}

void add_statistics(nlohmann::ordered_json& out, const std::string& name, const std::vector<double>& sorted) {
  if (sorted.empty()) {
    return;
  }
  auto n = static_cast<double>(sorted.size());
  double mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n;
  double squares = 0.0;
  for (double x : sorted) {
    squares += (x - mean) * (x - mean);
  }
  out["mean_" + name + "_ms"] = mean;
  out["median_" + name + "_ms"] = percentile(sorted, 50);
  out["std_" + name + "_ms"] = std::sqrt(squares / n);
  for (int p : {25, 75, 90, 95, 99}) {
    out["p" + std::to_string(p) + "_" + name + "_ms"] = percentile(sorted, p);
  }
}

} // namespace

double percentile(const std::vector<double>& sorted, double percent) {
  double place = percent / 100.0 * static_cast<double>(sorted.size() - 1);
  auto low = static_cast<size_t>(place);
  size_t high = std::min(low + 1, sorted.size() - 1);
  double share = place - static_cast<double>(low);
  return sorted[low] * (1.0 - share) + sorted[high] * share;
}

std::string report_json(const std::vector<request_record>& records, double duration) {
  samples s = collect(records);
  size_t completed = records.size() - s.failed;
  nlohmann::ordered_json out;
  out["duration"] = duration;
  out["completed"] = completed;
  out["failed"] = s.failed;
  out["total_input_tokens"] = s.input_tokens;
  out["total_output_tokens"] = s.output_tokens;
  out["request_throughput"] = static_cast<double>(completed) / duration;
  out["output_throughput"] = static_cast<double>(s.output_tokens) / duration;
  out["total_token_throughput"] = static_cast<double>(s.input_tokens + s.output_tokens) / duration;
  add_statistics(out, "ttft", s.ttft);
  add_statistics(out, "tpot", s.tpot);
  add_statistics(out, "itl", s.itl);
  add_statistics(out, "e2el", s.e2el);
  std::map<std::string, size_t> errors;
  for (const auto& r : records) {
    if (!r.ok) {
      ++errors[r.error];
    }
  }
  out["errors"] = errors;
  return out.dump(2);
}

std::string report_text(const std::vector<request_record>& records, double duration) {
  samples s = collect(records);
  size_t completed = records.size() - s.failed;
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
