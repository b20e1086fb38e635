// What routing by known beginnings is worth: the scheduler's and the attention workers' policies in a model
// of four workers.
//
//   prefix_routing
//
// Each worker's KV cache holds 65,536 tokens in blocks of 16, and it runs at most 64 sequences. An iteration
// takes 10 ms and 100 us a row. A conversation begins with one of the system prompts; each turn sends the
// conversation so far and a new part, and the next turn follows the answer after a pause. Printed for each
// kind of load and each way to choose a worker: the share of tokens whose keys were known, the same over that
// of one cache as large as all four (a worker four times as fast), tokens computed a second, time to the
// first token (mean, 99th percentile), over 10 minutes of virtual time after two that are not counted.
//
// chats      120 conversations of 8 turns, 8 system prompts of 1,000 tokens, 100 new tokens a turn, pauses of
// 20 s agents     24 conversations of 24 turns, 4 system prompts of 6,000 tokens, 400 new tokens a turn,
// pauses of 2 s one prompt 120 conversations of one turn, all with one system prompt of 2,000 tokens cold 60
// conversations of one turn with nothing in common, 1,000 tokens

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "actors/attention/batch_policy.hpp"
#include "actors/scheduler/assignment_policy.hpp"
#include "actors/scheduler/prefix_index.hpp"

namespace {

using namespace troupe;

constexpr std::uint32_t cache_tokens = 65'536;
constexpr std::uint32_t max_num_seqs = 64;
constexpr double iteration_time = 0.010;
constexpr double row_time = 0.000'1;
constexpr double renewal = 0.5;
constexpr double warm_up = 120;
constexpr double span = 600;

struct load_kind {
  const char* name;
  std::uint32_t conversations = 0;
  std::uint32_t turns = 1;
  std::uint32_t system_prompts = 0; ///< 0: each conversation has its own
  std::uint32_t system_tokens = 0;
  std::uint32_t turn_tokens = 100;
  std::uint32_t answer_tokens = 100;
  double pause = 1;
};

struct choice {
  const char* name;
  std::uint32_t workers = 4;
  std::uint64_t sequence_cost = 0;
  bool by_prefix = true;
  bool is_random = false;
};

struct figures {
  double known = 0;
  double queries = 0;
  double computed = 0;
  std::vector<double> first_token;
};

struct conversation {
  std::vector<std::int32_t> tokens;
  std::uint32_t turn = 0;
  double sent = 0;
  std::uint32_t answered = 0; ///< tokens of the answer so far
  std::shared_ptr<prefix_chain> names;
};

struct worker {
  explicit worker(std::uint32_t scale)
      : batches({.max_num_seqs = max_num_seqs * scale,
                 .max_num_batched_tokens = 512 * scale,
                 .max_waiting = 1'000'000,
                 .max_model_len = cache_tokens,
                 .block_tokens = prefix_unit,
                 .num_blocks = cache_tokens / prefix_unit * scale}) {}

  batch_policy batches;
  batch_policy::plan plan;
  bool is_busy = false;
};

/// The workers, their scheduler and their clients.
class cluster {
 public:
  cluster(const load_kind& kind, const choice& how) : kind_(kind), how_(how), scale_(4 / how.workers) {
    for (std::uint32_t i = 0; i < how.workers; ++i)
      workers_.emplace_back(scale_);
    conversations_.resize(kind.conversations);
    for (std::uint32_t i = 0; i < kind.conversations; ++i)
      plan(exponential(kind.pause), [this, i] { begin(i); });
    plan(renewal, [this] { renew(); });
  }

  figures run() {
    while (now_ < warm_up + span) {
      auto [at, number, event] = events_.top();
      events_.pop();
      now_ = at;
      event();
      place();
      for (std::size_t i = 0; i < workers_.size(); ++i)
        start_step(i);
    }
    return std::move(figures_);
  }

 private:
  struct planned {
    double at = 0;
    std::uint64_t number = 0;
    std::function<void()> event;

    bool operator<(const planned& other) const {
      return std::pair(at, number) > std::pair(other.at, other.number);
    }
  };

  void plan(double after, std::function<void()> event) {
    events_.push({now_ + after, ++number_, std::move(event)});
  }

  double exponential(double mean) { return std::exponential_distribution<double>{1 / mean}(random_); }

  void append(conversation& to, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i)
      to.tokens.push_back(static_cast<std::int32_t>(random_() >> 1));
  }

  void begin(std::uint32_t which) {
    auto& one = conversations_[which];
    one = {};
    one.names = std::make_shared<prefix_chain>("", prefix_unit);
    if (kind_.system_prompts > 0)
      one.tokens.assign(kind_.system_tokens, static_cast<std::int32_t>(random_() % kind_.system_prompts));
    else
      append(one, kind_.system_tokens);
    send(which);
  }

  void send(std::uint32_t which) {
    auto& one = conversations_[which];
    append(one, kind_.turn_tokens);
    one.names->extend(one.tokens);
    one.sent = now_;
    one.answered = 0;
    waiting_.push_back(which);
  }

  attention_budget budget_of(const worker& at) const {
    const auto& batches = at.batches;
    return {.max_num_seqs = max_num_seqs * scale_,
            .kv_capacity_tokens = batches.capacity(),
            .max_model_len = cache_tokens,
            .num_seqs = batches.running() + batches.waiting(),
            .kv_tokens = batches.tokens_used()};
  }

  void place() {
    while (!waiting_.empty()) {
      const auto which = waiting_.front();
      auto& one = conversations_[which];
      const auto num_tokens = static_cast<std::uint32_t>(one.tokens.size());
      const auto landmarks = landmarks_of(*one.names);
      auto known = how_.by_prefix ? index_.find(landmarks) : std::map<worker_id, prefix_index::match>{};
      std::vector<assignment_candidate> candidates;
      for (std::uint64_t i = 0; i < workers_.size(); ++i)
        candidates.push_back({{i}, budget_of(workers_[i]), known[{i}]});
      if (how_.is_random)
        candidates = {candidates[random_() % candidates.size()]};
      const auto chosen =
          choose_worker(candidates, {.seq_tokens = num_tokens + kind_.answer_tokens}, {}, how_.sequence_cost);
      if (!chosen)
        return;
      waiting_.pop_front();
      index_.hold({which}, *chosen, landmarks);
      workers_[chosen->value].batches.add(which, num_tokens, 0, one.names);
    }
  }

  void start_step(std::size_t number) {
    auto& at = workers_[number];
    if (at.is_busy)
      return;
    at.plan = at.batches.next(max_num_seqs * scale_);
    std::uint32_t rows = 0;
    for (const auto& slice : at.plan.slices)
      rows += slice.num_rows;
    if (rows == 0)
      return;
    if (now_ > warm_up) {
      for (const auto& [sequence, num_known, num_cached] : at.plan.started) {
        figures_.queries += num_known;
        figures_.known += num_cached;
      }
      figures_.computed += rows;
    }
    at.is_busy = true;
    plan(iteration_time + rows * row_time / scale_, [this, number] { end_step(number); });
  }

  void end_step(std::size_t number) {
    auto& at = workers_[number];
    at.is_busy = false;
    for (const auto& slice : at.plan.slices) {
      at.batches.complete(slice.sequence, slice.last);
      if (!slice.last)
        continue;
      const auto which = static_cast<std::uint32_t>(slice.sequence);
      auto& one = conversations_[which];
      if (one.answered == 0 && now_ > warm_up)
        figures_.first_token.push_back(now_ - one.sent);
      append(one, 1);
      one.names->extend(one.tokens);
      if (++one.answered < kind_.answer_tokens)
        continue;
      at.batches.remove(which);
      index_.release({which});
      if (++one.turn < kind_.turns)
        plan(exponential(kind_.pause), [this, which] { send(which); });
      else
        plan(exponential(kind_.pause), [this, which] { begin(which); });
    }
  }

  /// As an attention worker reports.
  void renew() {
    plan(renewal, [this] { renew(); });
    const auto is_wanted = [](const kv_store::content_name& name) {
      return is_prefix_landmark(name.num_tokens, prefix_unit);
    };
    for (std::uint64_t i = 0; i < workers_.size(); ++i) {
      std::vector<std::uint64_t> hashes;
      for (const auto& name : workers_[i].batches.store().names(defaults::max_prefix_digest, is_wanted))
        hashes.push_back(name.prefix.low);
      index_.report({i}, std::move(hashes));
    }
  }

  const load_kind kind_;
  const choice how_;
  const std::uint32_t scale_;
  std::vector<worker> workers_;
  std::vector<conversation> conversations_;
  prefix_index index_;
  std::deque<std::uint32_t> waiting_;
  std::priority_queue<planned> events_;
  std::mt19937 random_{7};
  std::uint64_t number_ = 0;
  double now_ = 0;
  figures figures_;
};

} // namespace

int main() {
  const load_kind kinds[] = {
      {.name = "chats",
       .conversations = 120,
       .turns = 8,
       .system_prompts = 8,
       .system_tokens = 1'000,
       .pause = 20},
      {.name = "agents",
       .conversations = 24,
       .turns = 24,
       .system_prompts = 4,
       .system_tokens = 6'000,
       .turn_tokens = 400,
       .pause = 2},
      {.name = "one prompt", .conversations = 120, .system_prompts = 1, .system_tokens = 2'000, .pause = 2},
      {.name = "cold", .conversations = 60, .system_tokens = 1'000, .pause = 5}};
  const choice choices[] = {{.name = "one large worker", .workers = 1},
                            {.name = "random", .by_prefix = false, .is_random = true},
                            {.name = "least loaded", .sequence_cost = 128, .by_prefix = false},
                            {.name = "by prefix, cost 0"},
                            {.name = "by prefix, cost 32", .sequence_cost = 32},
                            {.name = "by prefix, cost 128", .sequence_cost = 128},
                            {.name = "by prefix, cost 512", .sequence_cost = 512}};
  std::printf("| load | worker | known | of one cache | computed tokens/s | first token, mean | p99 |\n"
              "|---|---|---|---|---|---|---|\n");
  for (const auto& kind : kinds) {
    double most = 0;
    for (const auto& how : choices) {
      auto measured = cluster{kind, how}.run();
      auto& waits = measured.first_token;
      std::sort(waits.begin(), waits.end());
      double sum = 0;
      for (const auto wait : waits)
        sum += wait;
      const auto known = measured.known / measured.queries;
      most = most == 0 ? known : most;
      std::printf("| %s | %s | %.1f %% | %.2f | %.0f | %.0f ms | %.0f ms |\n", kind.name, how.name,
                  100 * known, most > 0 ? known / most : 1.0, measured.computed / span,
                  1e3 * sum / static_cast<double>(waits.size()), 1e3 * waits[waits.size() * 99 / 100]);
      std::fflush(stdout);
    }
  }
}
