// What each API key has used, and whether it may use more.
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

#include "services/gateway/http/key_limits.hpp"
#include "services/gateway/http/message.hpp"
#include "services/gateway/http/rate_limit.hpp"
#include "services/gateway/metrics.hpp"

namespace troupe::http {

class key_permit;

/// Counts requests and tokens by the names of keys. Thread-safe.
class key_usage {
 public:
  using time_source = std::function<token_bucket::time_point()>;

  /// @param names  of the keys that there are; empty: no keys are needed, and nothing is counted
  key_usage(const key_limit_table& limits, const std::vector<std::string>& names,
            std::shared_ptr<gateway_metrics> metrics, time_source now);
  key_usage(const key_usage&) = delete;
  key_usage& operator=(const key_usage&) = delete;

  /// Other keys, or limits. What a key that stays has used remains used.
  void replace(const key_limit_table& limits, const std::vector<std::string>& names);

  /// A request of this key begins.
  /// @throws openai::api_error 429 when it has to wait
  key_permit admit(const std::string& name);

  /// The `x-ratelimit-…` headers of answers to this key; none where it has no such limit.
  header_list headers(const std::string& name) const;

 private:
  friend class key_permit;

  struct account {
    std::string name;
    key_limit limit;
    std::optional<token_bucket> requests;
    std::optional<token_bucket> tokens;
    uint32_t running = 0;
  };

  [[noreturn]] void refuse(const account& whose, const char* reason, const std::string& text,
                           token_bucket::seconds wait) const;

  const std::shared_ptr<gateway_metrics> metrics_;
  const time_source now_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<account>> accounts_;
};

/// A request that runs, for its key. Must not outlive the key_usage.
class key_permit {
 public:
  key_permit(key_permit&&) = default;
  key_permit(const key_permit&) = delete;
  key_permit& operator=(key_permit&&) = delete;
  key_permit& operator=(const key_permit&) = delete;
  ~key_permit();

  /// The key's; empty without one.
  const std::string& name() const { return name_; }

  uint32_t weight() const { return weight_; }

  /// Whether it may ask to go before the requests of others.
  bool may_go_first() const { return may_go_first_; }

  /// Its prompts have so many tokens.
  /// @throws openai::api_error 429 when there are not so many left
  void take_prompt(size_t num_tokens);

  /// So many new tokens have come.
  void generated(size_t num_tokens);

 private:
  friend class key_usage;
  key_permit(key_usage& usage, std::shared_ptr<key_usage::account> account, std::string name);

  key_usage* usage_;
  std::shared_ptr<key_usage::account> account_; ///< null where nothing is counted
  std::string name_;
  uint32_t weight_ = 1;
  bool may_go_first_ = true;
};

} // namespace troupe::http
