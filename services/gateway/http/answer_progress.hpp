// Progress of the choices of one answer, with times, for metrics and the access log.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "services/gateway/http/access_record.hpp"
#include "services/gateway/http/gateway_metrics.hpp"
#include "services/gateway/openai/choice.hpp"
#include "services/gateway/openai/plan.hpp"
#include "services/gateway/openai/response.hpp"
#include "services/gateway/openai/text_codec.hpp"

namespace troupe::http {

/// The prompts of an answer are its jobs; job j has the choices [j · n, (j + 1) · n).
class answer_progress {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// A choice, its tokens so far, and their times.
  struct track {
    explicit track(openai::choice fresh) : state(std::move(fresh)) {}

    openai::choice state;
    bool opened = false; ///< its first chunk was sent
    bool ended = false;
    std::optional<time_point> first_token{};
    time_point last_token{};
  };

  /// @param plan, codec, metrics  outlive this
  answer_progress(const openai::generation_plan& plan, const openai::text_codec& codec,
                  gateway_metrics& metrics, time_point arrival);

  std::size_t num_choices() const { return tracks_.size(); }

  track& of(std::uint32_t choice) { return *tracks_[choice]; }

  const track& of(std::uint32_t choice) const { return *tracks_[choice]; }

  /// The cluster has started a job.
  void job_placed(time_point at);

  /// So many tokens of a job's prompt were known.
  void cached_tokens(std::uint32_t num_tokens) { num_cached_ += num_tokens; }

  /// A choice got new tokens.
  void tokens_came(std::uint32_t choice, time_point at, std::size_t num_tokens);

  void choice_ended(std::uint32_t choice, time_point at);

  /// Number of jobs that the cluster has started.
  std::size_t num_placed() const { return num_placed_; }

  /// Number of jobs whose choices have all ended.
  std::size_t num_ended_jobs() const { return num_ended_jobs_; }

  bool job_ended(std::size_t job) const;

  bool all_ended() const { return num_ended_ == tracks_.size(); }

  openai::token_usage usage() const;

  /// Tokens, times and reasons, for the access log.
  void describe(access_record& record) const;

 private:
  std::uint32_t choices_of_a_job() const { return plan_.options.num_choices; }

  /// Number of new tokens of the longest choice.
  std::uint32_t longest_choice() const;

  const openai::generation_plan& plan_;
  gateway_metrics& metrics_;
  const time_point arrival_;
  std::vector<std::unique_ptr<track>> tracks_; // [jobs × n]
  std::uint64_t num_cached_ = 0;
  std::size_t num_placed_ = 0;
  std::optional<time_point> first_placed_;
  std::size_t num_ended_ = 0;
  std::size_t num_ended_jobs_ = 0;
};

/// The request asks for an echo of the prompt without new tokens. The engine computes one token, which is
/// dropped.
inline bool drops_new_tokens(const openai::generation_plan& plan) {
  return plan.options.max_tokens == 0;
}

} // namespace troupe::http
