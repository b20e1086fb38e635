// One client of a simulated cluster: what it asks, what it gets, and what it should get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "actors/gateway/session.hpp"
#include "tests/simulation/hash_model.hpp"

namespace troupe::simulation {

class client : public session_listener {
 public:
  explicit client(session_request what) : request(std::move(what)) {}

  /// It has an answer, an error, or has gone away.
  bool is_over() const;

  /// What is wrong with what it got, one sentence each, given what the model says undisturbed.
  std::vector<std::string> judge(const hash_model& model) const;

  void on_tokens(std::uint32_t choice, const std::vector<generated_token>& tokens,
                 finish_reason reason) override;
  void on_prompt_logprobs(const std::vector<generated_token>& tokens) override;
  void on_error(const caf::error& error) override;

  /// Called when it has had enough and goes away.
  std::function<void()> on_leaving;

  const session_request request;
  std::uint32_t patience = 0; ///< tokens after which it goes away; 0: it stays
  bool has_left = false;      ///< or its gateway has died
  bool session_over = false;  ///< the session has ended, or its process

  bool has_tokens() const { return num_tokens() > 0; }

  std::size_t num_tokens() const;

  const std::string& error() const { return error_; }

  ec error_code() const { return error_code_; }

 private:
  struct choice {
    std::vector<std::int32_t> tokens;
    finish_reason finish = finish_reason::none;
  };

  std::map<std::uint32_t, choice> choices_;
  std::vector<std::vector<generated_token>> prompt_logprobs_;
  std::string error_;
  ec error_code_ = ec::none;
  bool is_told_after_end_ = false;
};

} // namespace troupe::simulation
