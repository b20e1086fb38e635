// The common workload of engine_bench and peer_bench, so that two engines do the same work: tokens, commands
// and answers. Depends on neither.
//
// Commands, one a line on stdin; one JSON object a line on stdout answers each:
//   prefill TOKENS        a prompt with an empty cache, logits of its last token
//   decode BATCH STEPS    BATCH sequences, one token each a step, from an empty cache; logits of every row
//   decode BATCH STEPS CONTEXT  the same after CONTEXT tokens each, which stay there for the next of these
//   greedy PROMPT TOKENS  the most probable continuation of a prompt
//   logits PROMPT FILE    writes the logits after a prompt, as f32, for an engine that shows them
//   plan FILE             another plan of kernels from now on, for an engine with such plans
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace troupe::bench {

/// The token at a position of a sequence: random ids, the same for every engine (splitmix64). Equal tokens
/// would choose equal experts.
inline std::uint32_t token_at(std::uint32_t sequence, std::uint32_t position, std::uint32_t vocab_size) {
  std::uint64_t x = ((std::uint64_t{sequence} << 32U) | position) + 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return static_cast<std::uint32_t>((x ^ (x >> 31U)) % vocab_size);
}

/// A row of a step.
struct workload_row {
  std::uint32_t sequence = 0;
  std::uint32_t position = 0;
  std::uint32_t token = 0;
  bool wants_logits = false;
};

/// An engine's default limits, and the sizes of its workload.
struct workload_limits {
  static constexpr std::uint32_t max_batch = 32;
  static constexpr std::uint32_t max_tokens = 4096; ///< of a sequence
  static constexpr std::uint32_t prompt_rows = 512; ///< of a step that fills a context
  static constexpr std::uint32_t warm_up_steps = 2; ///< of a decode, not timed
};

/// One model in one engine.
class workload_engine {
 public:
  workload_engine() = default;
  virtual ~workload_engine() = default;
  workload_engine(const workload_engine&) = delete;
  workload_engine& operator=(const workload_engine&) = delete;

  virtual std::uint32_t vocab_size() const = 0;
  /// Forgets every sequence.
  virtual void clear() = 0;
  /// Forgets all but the first `tokens` of each.
  virtual void truncate(std::uint32_t tokens) = 0;
  /// Runs the rows through the model; returns when the requested logits are complete.
  virtual void step(const std::vector<workload_row>& rows) = 0;
  /// The most probable token after row `index` of the last step.
  virtual std::uint32_t best(std::size_t index) = 0;

  /// Its limits: sequences at once, and tokens of each.
  virtual std::uint32_t max_batch() const { return workload_limits::max_batch; }

  virtual std::uint32_t max_tokens() const { return workload_limits::max_tokens; }

  /// The logits of a step's only row that requests some; empty: this engine does not show them.
  virtual std::vector<float> logits(const std::vector<workload_row>& /*rows*/) { return {}; }

  /// Computes with another plan of kernels from now on.
  /// @returns why it does not; empty: it does
  virtual std::string follow_plan(const std::string& /*file*/) { return "this engine has no plans"; }
};

inline double timed(workload_engine& engine, const std::vector<workload_row>& rows) {
  const auto begin = std::chrono::steady_clock::now();
  engine.step(rows);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

inline std::vector<workload_row> prompt_rows(const workload_engine& engine, std::uint32_t tokens) {
  std::vector<workload_row> rows;
  for (std::uint32_t i = 0; i < tokens; ++i)
    rows.push_back({0, i, token_at(0, i, engine.vocab_size()), i + 1 == tokens});
  return rows;
}

inline std::string run_prefill(workload_engine& engine, std::uint32_t tokens) {
  engine.clear();
  const double seconds = timed(engine, prompt_rows(engine, tokens));
  std::ostringstream out;
  out << R"({"tokens": )" << tokens << R"(, "seconds": )" << seconds << "}";
  return out.str();
}

/// Fills sequences of `context` tokens each, unless they exist.
inline void fill(workload_engine& engine, std::uint32_t batch, std::uint32_t context) {
  engine.clear();
  for (std::uint32_t s = 0; s < batch; ++s)
    for (std::uint32_t first = 0; first < context; first += workload_limits::prompt_rows) {
      std::vector<workload_row> rows;
      for (std::uint32_t i = first; i < std::min(context, first + workload_limits::prompt_rows); ++i)
        rows.push_back({s, i, token_at(s, i, engine.vocab_size()), i + 1 == context});
      engine.step(rows);
    }
}

/// The contexts that an engine holds.
struct filled_context {
  std::uint32_t batch = 0;
  std::uint32_t tokens = 0;

  friend bool operator==(const filled_context&, const filled_context&) = default;
};

inline std::string run_decode(workload_engine& engine, std::uint32_t batch, std::uint32_t steps,
                              std::uint32_t context, filled_context& filled) {
  if (const filled_context wanted{batch, context}; context == 0 || filled != wanted) {
    fill(engine, batch, context);
    filled = wanted;
  } else {
    engine.truncate(context);
  }
  double seconds = 0.0;
  for (std::uint32_t step = 0; step < steps + workload_limits::warm_up_steps; ++step) {
    std::vector<workload_row> rows;
    for (std::uint32_t s = 0; s < batch; ++s)
      rows.push_back({s, context + step, token_at(s, context + step, engine.vocab_size()), true});
    const double time = timed(engine, rows);
    if (step >= workload_limits::warm_up_steps)
      seconds += time;
  }
  std::ostringstream out;
  out << R"({"tokens": )" << batch * steps << R"(, "seconds": )" << seconds << "}";
  return out.str();
}

inline std::string run_greedy(workload_engine& engine, std::uint32_t prompt, std::uint32_t tokens) {
  engine.clear();
  engine.step(prompt_rows(engine, prompt));
  std::uint32_t next = engine.best(prompt - 1);
  std::ostringstream out;
  out << R"({"greedy": [)" << next;
  for (std::uint32_t i = 1; i < tokens; ++i) {
    engine.step({{0, prompt + i - 1, next, true}});
    next = engine.best(0);
    out << ", " << next;
  }
  out << "]}";
  return out.str();
}

inline std::string run_logits(workload_engine& engine, std::uint32_t prompt, const std::string& file) {
  engine.clear();
  const std::vector<float> logits = engine.logits(prompt_rows(engine, prompt));
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(logits.data()),
            static_cast<std::streamsize>(logits.size() * sizeof(float)));
  return out.flush() ? R"({"logits": )" + std::to_string(logits.size()) + "}" : std::string();
}

/// Answers commands until stdin ends. @returns the exit status
inline int serve_workload(workload_engine& engine) {
  std::string line;
  filled_context filled;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "plan") {
      std::string file;
      std::getline(words >> std::ws, file);
      const std::string refusal = engine.follow_plan(file);
      if (!refusal.empty())
        std::fprintf(stderr, "%s: %s\n", file.c_str(), refusal.c_str());
      std::printf("{\"plan\": %s}\n", refusal.empty() ? "true" : "false");
      std::fflush(stdout);
      continue;
    }
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    std::uint32_t context = 0;
    std::string file;
    words >> a;
    if (command == "logits")
      std::getline(words >> std::ws, file);
    else
      words >> b >> context;
    if (command != "decode")
      filled = {};
    const std::uint32_t max_tokens = engine.max_tokens();
    std::string answer;
    if (command == "logits" && a > 0 && a <= max_tokens)
      answer = run_logits(engine, a, file);
    else if (command == "prefill" && a > 0 && a <= max_tokens)
      answer = run_prefill(engine, a);
    else if (command == "decode" && a > 0 && a <= engine.max_batch() && b > 0 && context <= max_tokens
             && b + workload_limits::warm_up_steps <= max_tokens - context)
      answer = run_decode(engine, a, b, context, filled);
    else if (command == "greedy" && a > 0 && b > 0 && a + b <= max_tokens)
      answer = run_greedy(engine, a, b);
    if (answer.empty()) {
      std::fprintf(stderr, "not a command, or beyond the sizes prepared for: %s\n", line.c_str());
      return 2;
    }
    std::printf("%s\n", answer.c_str());
    std::fflush(stdout);
  }
  return 0;
}

} // namespace troupe::bench
