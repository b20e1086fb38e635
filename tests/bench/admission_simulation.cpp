// What admission by likely lengths is worth: the scheduler's and the attention worker's policies in a model
// of one worker, more requests than it can serve.
//
//   admission_simulation
//
// The worker's KV cache holds 32,768 tokens in blocks of 16, and it runs at most 256 sequences. An iteration
// takes 20 ms and 50 us a row. 128 requests always wait. Prompts have 256 tokens on average. Printed for each
// kind of answers and each --admission-quantile: new tokens per second of answers that have ended, sequences
// that run and the share of the cache in use (means), preemptions per 100 answers, tokens that were computed
// again as a share of all that were computed, the longest time from a place to the end of an answer over what
// its tokens take undisturbed (99th percentile), over 20 minutes of virtual time after two that are not
// counted.
//
// short    lengths are drawn from a log-normal distribution of mean 200; max_tokens is 2,048
// long     likewise of mean 1,000
// two      half of the requests each, by keys of their own
// shifting short, then long, and so on, for two minutes each: what is learned is wrong for a while
// whole    every answer has its 2,048 tokens: there is nothing to win

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "actors/attention/batch_policy.hpp"
#include "actors/scheduler/admission_policy.hpp"

namespace {

using namespace troupe;
using seconds = std::chrono::duration<double>;

constexpr std::uint32_t cache_tokens = 32'768;
constexpr std::uint32_t block_tokens = 16;
constexpr std::uint32_t max_num_seqs = 256;
constexpr std::uint32_t max_new_tokens = 2'048;
constexpr double iteration_time = 0.020;
constexpr double row_time = 0.000'050;
constexpr double warm_up = 120;
constexpr double span = 1'200;

enum class answers { short_ones, long_ones, two, shifting, whole };

struct scenario {
  const char* name;
  answers kind;
};

struct sequence {
  std::string tenant;
  std::uint32_t prompt = 0;
  std::uint32_t until = 0; ///< new tokens
  std::uint32_t now = 0;
  double placed = 0;
};

struct result {
  double tokens = 0; ///< of answers that have ended
  double running = 0;
  double used = 0;
  double iterations = 0;
  double num_ended = 0;
  double preemptions = 0;
  double recomputed = 0;
  double computed = 0;
  std::vector<double> stretch;
};

/// One worker, its scheduler and their clients.
class one_worker {
 public:
  one_worker(answers kind, double quantile)
      : kind_(kind),
        admission_({}, {.quantile = quantile}),
        batches_({.max_num_seqs = max_num_seqs,
                  .max_num_batched_tokens = 512,
                  .max_waiting = 1'000'000,
                  .max_model_len = cache_tokens,
                  .block_tokens = block_tokens,
                  .num_blocks = cache_tokens / block_tokens}) {
    worker_hello hello;
    hello.address.id = {1};
    hello.of_role = attention_terms{
        .max_num_seqs = max_num_seqs, .kv_capacity_tokens = cache_tokens, .max_model_len = cache_tokens};
    admission_.add_worker(hello);
  }

  result run() {
    while (now_ < warm_up + span)
      iterate();
    return std::move(result_);
  }

 private:
  time_point clock() const {
    return time_point{} + std::chrono::duration_cast<time_point::duration>(seconds{now_});
  }

  bool counts() const { return now_ >= warm_up; }

  double log_normal(double mean) {
    constexpr double sigma = 1;
    return std::lognormal_distribution<double>{std::log(mean) - sigma * sigma / 2, sigma}(random_);
  }

  sequence draw() {
    sequence made;
    const bool is_second = random_() % 2 == 0;
    double mean = 200;
    if (kind_ == answers::long_ones || (kind_ == answers::two && is_second)
        || (kind_ == answers::shifting && std::fmod(now_, 240) >= 120))
      mean = 1'000;
    made.tenant = kind_ == answers::two && is_second ? "long" : "short";
    made.prompt = static_cast<std::uint32_t>(std::clamp(log_normal(256), 1.0, 4'096.0));
    made.until = kind_ == answers::whole
                     ? max_new_tokens
                     : static_cast<std::uint32_t>(std::clamp(log_normal(mean), 1.0, double{max_new_tokens}));
    return made;
  }

  void admit() {
    while (admission_.num_queued() < 128) {
      const auto id = ++last_;
      const auto& made = sequences_[id] = draw();
      admission_request request;
      request.id = {id};
      request.prompt_tokens = made.prompt;
      request.max_new_tokens = max_new_tokens;
      request.deadline_ms = 1'000'000'000;
      request.tenant = made.tenant;
      if (admission_.enqueue(request, clock()))
        std::abort();
    }
    for (const auto& place : admission_.place(clock())) {
      auto& placed = sequences_.at(place.id.value);
      placed.placed = now_;
      if (batches_.add(place.id.value, placed.prompt, 0) != ec::none)
        std::abort();
    }
  }

  void iterate() {
    if (now_ >= next_renewal_) {
      next_renewal_ = now_ + 0.5;
      lease_renewal load;
      load.id = {1};
      load.running = batches_.running();
      load.waiting = batches_.waiting();
      load.of_role =
          attention_load{.kv_tokens_used = std::uint64_t{batches_.store().num_held()} * block_tokens};
      admission_.reconcile(load);
    }
    admit();
    const auto plan = batches_.next(max_num_seqs);
    std::uint32_t rows = 0;
    for (const auto& slice : plan.slices)
      rows += slice.num_rows;
    now_ += iteration_time + rows * row_time;
    if (counts()) {
      ++result_.iterations;
      result_.running += static_cast<double>(batches_.running());
      result_.used += static_cast<double>(batches_.store().num_held()) / batches_.store().num_blocks();
      result_.computed += rows;
      for (const auto& lost : plan.preempted) {
        ++result_.preemptions;
        result_.recomputed += lost.num_computed;
      }
    }
    for (const auto& slice : plan.slices) {
      batches_.complete(slice.sequence, slice.last);
      auto& one = sequences_.at(slice.sequence);
      if (slice.last && ++one.now == one.until)
        end(slice.sequence, one);
    }
  }

  void end(std::uint64_t id, const sequence& one) {
    if (counts()) {
      ++result_.num_ended;
      result_.tokens += one.until;
      result_.stretch.push_back((now_ - one.placed) / (one.until * (iteration_time + 64 * row_time)));
    }
    batches_.remove(id);
    admission_.answered({id}, one.until);
    admission_.release({id});
    sequences_.erase(id);
  }

  answers kind_;
  admission_policy admission_;
  batch_policy batches_;
  std::mt19937 random_{7};
  std::map<std::uint64_t, sequence> sequences_;
  std::uint64_t last_ = 0;
  double now_ = 0;
  double next_renewal_ = 0;
  result result_;
};

} // namespace

int main() {
  constexpr scenario scenarios[] = {{"short", answers::short_ones},
                                    {"long", answers::long_ones},
                                    {"two", answers::two},
                                    {"shifting", answers::shifting},
                                    {"whole", answers::whole}};
  std::printf("| answers | quantile | new tokens/s | running | cache in use | preemptions per 100 | computed "
              "again | p99 of the time over undisturbed |\n|---|---|---|---|---|---|---|---|\n");
  for (const auto& [name, kind] : scenarios)
    for (const double quantile : {1.0, 0.9, 0.8, 0.75, 0.7, 0.5, 0.2}) {
      auto measured = one_worker{kind, quantile}.run();
      auto& stretch = measured.stretch;
      std::sort(stretch.begin(), stretch.end());
      std::printf("| %s | %.2f | %.0f | %.1f | %.0f %% | %.1f | %.1f %% | %.1f |\n", name, quantile,
                  measured.tokens / span, measured.running / measured.iterations,
                  100 * measured.used / measured.iterations, 100 * measured.preemptions / measured.num_ended,
                  100 * measured.recomputed / measured.computed,
                  stretch.empty() ? 0 : stretch[stretch.size() * 99 / 100]);
      std::fflush(stdout);
    }
  return 0;
}
