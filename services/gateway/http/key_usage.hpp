// Usage of each API key against its limits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "services/gateway/http/gateway_metrics.hpp"
#include "services/gateway/http/key_limits.hpp"
#include "services/gateway/http/message.hpp"
#include "services/gateway/http/rate_limit.hpp"

namespace troupe::http {

class key_permit;

/// Counts requests and tokens by the names of keys. Thread-safe.
class key_usage {
 public:
  using time_source = std::function<token_bucket::time_point()>;

  /// @param names  of all keys; empty: no keys are needed, and nothing is counted
  key_usage(const key_limit_table& limits, const std::vector<std::string>& names,
            std::shared_ptr<gateway_metrics> metrics, time_source now);
  key_usage(const key_usage&) = delete;
  key_usage& operator=(const key_usage&) = delete;

  /// Replaces keys and limits. A key that stays keeps its usage.
  void replace(const key_limit_table& limits, const std::vector<std::string>& names);

  /// Begins a request of a key.
  /// @throws openai::api_error 429 when the key is at a limit
  key_permit admit(const std::string& name);

  /// The `x-ratelimit-…` headers of answers to this key; none without such a limit.
  header_list headers(const std::string& name) const;

 private:
  friend class key_permit;

  struct account {
    std::string name;
    key_limit limit;
    std::optional<token_bucket> requests;
    std::optional<token_bucket> tokens;
    std::uint32_t running = 0;
  };

  [[noreturn]] void refuse(const account& whose, const char* reason, const std::string& text,
                           token_bucket::seconds wait) const;

  const std::shared_ptr<gateway_metrics> metrics_;
  const time_source now_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<account>> accounts_;
};

/// A running request of a key. Must not outlive the key_usage.
class key_permit {
 public:
  key_permit(key_permit&&) = default;
  key_permit(const key_permit&) = delete;
  key_permit& operator=(key_permit&&) = delete;
  key_permit& operator=(const key_permit&) = delete;
  ~key_permit();

  /// Name of the key; empty: there is none.
  const std::string& name() const { return name_; }

  std::uint32_t weight() const { return weight_; }

  /// The key may ask for a priority over other keys.
  bool may_go_first() const { return may_go_first_; }

  /// Charges the tokens of the prompts.
  /// @throws openai::api_error 429 when fewer are left
  void take_prompt(std::size_t num_tokens);

  /// Charges new tokens.
  void generated(std::size_t num_tokens);

 private:
  friend class key_usage;
  key_permit(key_usage& usage, std::shared_ptr<key_usage::account> account, std::string name);

  key_usage* usage_;
  std::shared_ptr<key_usage::account> account_; ///< null: nothing is counted
  std::string name_;
  std::uint32_t weight_ = 1;
  bool may_go_first_ = true;
};

} // namespace troupe::http
