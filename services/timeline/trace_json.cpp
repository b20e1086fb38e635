#include "services/timeline/trace_json.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "services/timeline/event_forms.hpp"
#include "services/timeline/trace_names.hpp"

namespace troupe {

namespace {

using nlohmann::ordered_json;
using timeline::event;
using timeline::event_kind;

/// One line of output before it is written.
struct drawn {
  std::int64_t at = 0;  ///< on the common clock
  std::int64_t end = 0; ///< of the slice that it begins or ends
  char phase = 'X';
  std::uint32_t log = 0;
  std::uint32_t thread = 0;
  std::uint64_t number = 0; ///< of the track or flow
  std::string_view name;
  std::string_view category;
  const trace_log::entry* entry = nullptr; ///< the source of the arguments; null: none
};

/// Keeps slices nested where times are equal: ends come first, then the longest slice.
bool is_before(const drawn& one, const drawn& other) {
  const auto rank = [](const drawn& x) {
    return x.phase == 'e' ? std::tuple{0, -1, x.at - x.end} : std::tuple{1, 0, x.at - x.end};
  };
  return one.at != other.at ? one.at < other.at : rank(one) < rank(other);
}

class drawing {
 public:
  drawing(const std::vector<trace_log>& logs, const std::vector<process_clock>& clocks)
      : logs_(logs), clocks_(clocks), names_(logs) {
    find_hosts();
    for (std::uint32_t log = 0; log < logs.size(); ++log)
      for (const auto& entry : logs[log].events)
        add(log, entry);
    draw_flows();
    std::stable_sort(all_.begin(), all_.end(), is_before);
    if (!all_.empty())
      start_ = all_.front().at;
  }

  merged_trace write(std::ostream& out) const {
    merged_trace result;
    out << "{\"traceEvents\":[\n";
    write_names(out);
    for (const auto& one : all_) {
      out << ",\n" << line_of(one);
      ++result.events;
    }
    result.flows = num_flows_;
    ordered_json processes = ordered_json::array();
    for (std::size_t log = 0; log < logs_.size(); ++log) {
      processes.push_back(described(log));
      result.dropped += logs_[log].dropped;
    }
    const ordered_json other{{"processes", std::move(processes)}};
    out << "\n],\"displayTimeUnit\":\"ms\",\"otherData\":" << dumped(other) << "}\n";
    return result;
  }

 private:
  struct flow_point {
    std::int64_t at = 0;
    std::uint32_t log = 0;
    std::uint32_t thread = 0;
  };

  static std::string dumped(const ordered_json& value) {
    return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  }

  std::int64_t time(std::uint32_t log, std::uint64_t ns) const { return clocks_[log].common(ns); }

  void add(std::uint32_t log, const trace_log::entry& entry) {
    const auto& e = entry.what;
    const auto* form = form_of(e.kind);
    if (form == nullptr || form->place == event_place::none)
      return;
    drawn one;
    one.at = time(log, e.begin_ns);
    one.end = std::max(time(log, e.begin_ns + e.duration_ns), one.at + 1);
    one.log = log;
    one.thread = entry.thread;
    one.name = name_of(*form, e);
    one.category = form->category;
    one.entry = &entry;
    switch (form->place) {
    case event_place::thread:
      all_.push_back(one);
      add_parts_of_step(one, e);
      break;
    case event_place::track:
      one.number = track_number(log, *form, entry);
      add_slice(one);
      add_ways(one, e);
      break;
    case event_place::instant:
      one.phase = 'i';
      all_.push_back(one);
      break;
    case event_place::none:
      break;
    }
    note_flow(one, e);
  }

  static std::string_view name_of(const event_form& form, const event& e) {
    if (e.kind == event_kind::iteration)
      return e.args[6] != 0 && e.args[3] == 1 ? "decode" : "prefill";
    if (e.kind == event_kind::attention_step && e.args[0] == timeline::no_layer)
      return "attention and LM head";
    return form.name;
  }

  std::uint64_t track_number(std::uint32_t log, const event_form& form, const trace_log::entry& entry) {
    const auto& e = entry.what;
    const bool has_first =
        form.track == track_of::id_and_first_arg || form.track == track_of::id_and_two_args;
    const std::tuple key{log, form.category, form.track == track_of::own ? ++num_own_ : e.id,
                         has_first ? e.args[0] : 0, form.track == track_of::id_and_two_args ? e.args[1] : 0};
    return tracks_.try_emplace(key, tracks_.size() + 1).first->second;
  }

  void add_slice(drawn one) {
    one.phase = 'b';
    all_.push_back(one);
    one.phase = 'e';
    std::swap(one.at, one.end);
    one.entry = nullptr;
    all_.push_back(one);
  }

  /// Adds the router and the sampling at the end of a step.
  void add_parts_of_step(const drawn& step, const event& e) {
    if (e.kind != event_kind::attention_step)
      return;
    for (const auto& [ns, name] : {std::pair{e.args[2], "router"}, std::pair{e.args[3], "sampling"}})
      if (ns > 0) {
        auto part = step;
        part.at = std::max(step.at, step.end - static_cast<std::int64_t>(ns));
        part.name = name;
        part.entry = nullptr;
        all_.push_back(part);
      }
  }

  /// Adds an expert batch on its way, at its host, and back, to the track of its sender.
  void add_ways(const drawn& batch, const event& e) {
    const bool is_sent = e.kind == event_kind::expert_batch && e.args[2] != 0;
    if (!is_sent && e.kind != event_kind::host_batch)
      return;
    auto at = batch.at;
    const auto part = [&](std::int64_t until, std::string_view name) {
      until = std::clamp(until, at, batch.end);
      if (until > at) {
        auto one = batch;
        one.at = at;
        one.end = until;
        one.name = name;
        one.entry = nullptr;
        add_slice(one);
      }
      at = std::max(at, until);
    };
    const auto queue = static_cast<std::int64_t>(is_sent ? e.args[4] : e.args[2]);
    const auto compute = static_cast<std::int64_t>(is_sent ? e.args[5] : e.args[3]);
    // Without a trace of the host, its clock is unknown: both ways then get equal lengths.
    const auto host = is_sent ? host_of(e.args[1]) : std::nullopt;
    const auto ways = batch.end - batch.at - static_cast<std::int64_t>(e.args[3] - e.args[2]);
    if (is_sent)
      part(host ? time(*host, e.args[2]) : batch.at + ways / 2, "way there");
    part(at + queue, "queue");
    part(at + compute, "compute");
    if (is_sent) {
      part(host ? time(*host, e.args[3]) : batch.end - ways / 2, "answer");
      part(batch.end, "way back");
    }
  }

  /// The log of a worker that served expert batches. It may lack a batch: a killed worker loses its last
  /// events.
  std::optional<std::uint32_t> host_of(std::uint64_t worker) const {
    const auto found = hosts_.find(worker);
    return found == hosts_.end() ? std::nullopt : std::optional{found->second};
  }

  void find_hosts() {
    std::map<std::uint64_t, std::uint32_t> by_flow;
    for (std::uint32_t log = 0; log < logs_.size(); ++log)
      for (const auto& entry : logs_[log].events)
        if (entry.what.kind == event_kind::host_batch)
          by_flow[entry.what.id] = log;
    for (const auto& log : logs_)
      for (const auto& entry : log.events)
        if (entry.what.kind == event_kind::expert_batch)
          if (const auto found = by_flow.find(entry.what.id); found != by_flow.end())
            hosts_[entry.what.args[1]] = found->second;
  }

  void note_flow(const drawn& one, const event& e) {
    std::string_view what;
    std::uint64_t third = 0;
    switch (e.kind) {
    case event_kind::ask_place:
    case event_kind::admit:
      what = "request for a place";
      break;
    case event_kind::submit:
    case event_kind::accept_sequence:
      what = "sequence";
      break;
    case event_kind::token_sent:
    case event_kind::token_arrived:
      what = "token";
      third = e.args[2];
      break;
    case event_kind::send_batch:
    case event_kind::accept_batch:
    case event_kind::answer_batch:
    case event_kind::take_answer:
      flows_[{"expert batch", e.id, 0, 0}].push_back({one.at, one.log, one.thread});
      return;
    default:
      return;
    }
    flows_[{what, e.args[0], e.args[1], third}].push_back({one.at, one.log, one.thread});
  }

  void draw_flows() {
    for (auto& [key, points] : flows_) {
      if (points.size() < 2)
        continue;
      std::stable_sort(points.begin(), points.end(),
                       [](const flow_point& x, const flow_point& y) { return x.at < y.at; });
      ++num_flows_;
      for (std::size_t i = 0; i < points.size(); ++i) {
        drawn one;
        one.at = points[i].at;
        one.end = one.at;
        one.phase = i == 0 ? 's' : i + 1 == points.size() ? 'f' : 't';
        one.log = points[i].log;
        one.thread = points[i].thread;
        one.number = num_flows_;
        one.name = std::get<0>(key);
        one.category = "message";
        all_.push_back(one);
      }
    }
  }

  ordered_json described(std::size_t log) const {
    const auto& process = logs_[log].process;
    const auto& clock = clocks_[log];
    return {{"process", process.name},
            {"pid", process.pid},
            {"host", process.host},
            {"file", logs_[log].file},
            {"events", logs_[log].events.size()},
            {"dropped", logs_[log].dropped},
            {"is_full", logs_[log].is_full},
            {"is_cut", logs_[log].is_cut},
            {"clock", clock.how},
            {"clock_offset_ns", clock.offset_ns},
            {"clock_error_ns", clock.error_ns}};
  }

  /// Names of processes and threads. A process is a file: pids may repeat.
  void write_names(std::ostream& out) const {
    const char* comma = "";
    const auto name = [&](const char* what, std::size_t log, std::uint32_t thread, const std::string& text) {
      const ordered_json line{
          {"name", what}, {"ph", "M"}, {"pid", log + 1}, {"tid", thread}, {"args", {{"name", text}}}};
      out << comma << dumped(line);
      comma = ",\n";
    };
    for (std::size_t log = 0; log < logs_.size(); ++log) {
      const auto& process = logs_[log].process;
      name("process_name", log, 0,
           process.name + " (" + process.host + ", pid " + std::to_string(process.pid) + ")");
      for (const auto& [number, text] : logs_[log].threads)
        name("thread_name", log, number, text);
    }
  }

  static std::string micros(std::int64_t ns) {
    char text[40];
    std::snprintf(text, sizeof(text), "%lld.%03d", static_cast<long long>(ns / 1000),
                  static_cast<int>(ns % 1000));
    return text;
  }

  std::string line_of(const drawn& one) const {
    std::string line = "{\"name\":\"";
    line += one.name;
    line += "\",\"cat\":\"";
    line += one.category;
    line += "\",\"ph\":\"";
    line += one.phase;
    line += "\",\"ts\":" + micros(one.at - start_) + ",\"pid\":" + std::to_string(one.log + 1)
            + ",\"tid\":" + std::to_string(one.thread);
    if (one.phase == 'X')
      line += ",\"dur\":" + micros(one.end - one.at);
    else if (one.phase == 'b' || one.phase == 'e')
      line += ",\"id2\":{\"local\":\"0x" + hex_text(one.number) + "\"}";
    else if (one.phase == 'i')
      line += ",\"s\":\"g\"";
    else
      line += ",\"id\":" + std::to_string(one.number);
    if (one.phase == 'f')
      line += ",\"bp\":\"e\"";
    if (one.entry != nullptr)
      line += ",\"args\":" + dumped(args_of(one.log, *one.entry));
    return line + "}";
  }

  ordered_json args_of(std::size_t log, const trace_log::entry& entry) const {
    const auto& e = entry.what;
    const auto& form = *form_of(e.kind);
    ordered_json args = ordered_json::object();
    for (std::size_t i = 0; i < form.args.size(); ++i) {
      const auto name = form.args[i];
      if (name.empty())
        continue;
      const std::string key{name};
      if (name == "request" || name == "batch")
        args[key] = hex_text(e.args[i]);
      else if (name == "worker")
        args[key] = names_.worker(e.args[i]);
      else if (name == "sequence")
        args.update({{"choice", e.args[i] >> 32}, {"attempt", e.args[i] & 0xFFFFFFFFU}});
      else if (name == "layer" && e.args[i] == timeline::no_layer)
        continue;
      else
        args[key] = e.args[i];
    }
    add_own_args(args, entry);
    const auto keys = names_.requests_of(log, e);
    std::vector<std::string> traces;
    for (const auto key : keys)
      if (const auto* request = names_.find(key))
        traces.push_back(request->trace_id);
    if (form.is_of_request && !traces.empty()) {
      args["trace_id"] = traces.front();
      args["request_id"] = names_.find(keys.front())->id;
    } else if (!traces.empty()) {
      args["trace_ids"] = std::move(traces);
    }
    return args;
  }

  static void add_own_args(ordered_json& args, const trace_log::entry& entry) {
    const auto& e = entry.what;
    switch (e.kind) {
    case event_kind::micro_batch:
    case event_kind::attention_step:
    case event_kind::expert_wait:
      args["batch"] = hex_text(e.id);
      break;
    case event_kind::expert_batch:
      args["layer"] = e.args[6] >> 32;
      args["rows"] = e.args[6] & 0xFFFFFFFFU;
      [[fallthrough]];
    case event_kind::send_batch:
    case event_kind::take_answer:
    case event_kind::accept_batch:
    case event_kind::host_batch:
    case event_kind::answer_batch:
      args["flow"] = hex_text(e.id);
      break;
    case event_kind::expert_step:
      args["step"] = e.id;
      break;
    case event_kind::expert_move:
    case event_kind::weights_load:
    case event_kind::weights_fetch:
    case event_kind::weights_sent:
      args["layer"] = e.id >> 32;
      args["expert"] = e.id & 0xFFFFFFFFU;
      break;
    default:
      break;
    }
    if (!entry.text.empty())
      args["text"] = entry.text;
  }

  const std::vector<trace_log>& logs_;
  const std::vector<process_clock>& clocks_;
  const trace_names names_;
  std::vector<drawn> all_;
  std::int64_t start_ = 0;
  std::uint64_t num_flows_ = 0;
  std::uint64_t num_own_ = 0; ///< tracks of one event each
  std::map<std::tuple<std::uint32_t, std::string_view, std::uint64_t, std::uint64_t, std::uint64_t>,
           std::uint64_t>
      tracks_;
  std::map<std::tuple<std::string_view, std::uint64_t, std::uint64_t, std::uint64_t>, std::vector<flow_point>>
      flows_;
  std::map<std::uint64_t, std::uint32_t> hosts_; ///< logs by worker
};

} // namespace

merged_trace write_trace_json(std::ostream& out, const std::vector<trace_log>& logs,
                              const std::vector<process_clock>& clocks) {
  return drawing(logs, clocks).write(out);
}

} // namespace troupe
