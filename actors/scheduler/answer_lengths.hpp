// How long answers are likely to be, learned from those that have ended. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "actors/defaults.hpp"

namespace troupe {

/// The lengths of answers by tenant, as decaying histograms, and the length that a given share of the next
/// ones will not exceed.
///
/// An answer that its request's `max_tokens` has cut says only that it would have been longer than that. So
/// what is kept for each length is the share of answers that end there among those that get so far (the
/// Kaplan-Meier estimate): cut answers count among the latter only. Where a tenant has had few answers of a
/// length the share is that of all tenants, and where there were few of those, the same for each token: that
/// of answers of which four fifths have at most `settings::prior_tokens`.
///
/// At most `defaults::max_known_tenants` are known; who has had no answer for longest is forgotten.
class answer_lengths {
 public:
  struct settings {
    double quantile = defaults::admission_quantile; ///< 0 to 1; from 1 on nothing is estimated
    uint32_t prior_tokens = defaults::expected_new_tokens;
  };

  explicit answer_lengths(settings wanted);

  /// An answer has ended. @param num_tokens  that it has, at least 1
  /// @param is_cut  it would have gone on
  void observe(const std::string& tenant, uint32_t num_tokens, bool is_cut);

  /// New tokens that `settings::quantile` of this tenant's answers do not exceed: 1 to `most`.
  uint32_t likely(const std::string& tenant, uint32_t most) const;

  /// Likewise, of all tenants together.
  uint32_t likely() const;

 private:
  static constexpr size_t buckets_per_octave = 4;
  static constexpr size_t num_buckets = 24 * buckets_per_octave; ///< the last one has no end

  struct lengths {
    std::array<float, num_buckets> ended{};
    std::array<float, num_buckets> cut{};
  };

  struct tenant_entry {
    lengths seen;
    uint64_t latest = 0; ///< observation
    mutable uint32_t likely = 0;
    mutable uint64_t likely_at = 0; ///< observation as of which that was computed; 0: it was not
  };

  /// Share of the answers that end in each bucket, of those that reach it.
  using endings = std::array<double, num_buckets>;

  static size_t bucket_of(uint32_t num_tokens);
  static double begin_of(size_t bucket);
  static void add(lengths& to, uint32_t num_tokens, bool is_cut);
  static endings endings_of(const lengths& seen, const endings& otherwise);
  uint32_t quantile_of(const endings& ends) const;
  tenant_entry& entry_of(const std::string& tenant);

  settings settings_;
  endings prior_{};
  lengths all_;
  endings all_endings_{};
  uint32_t likely_;
  std::map<std::string, tenant_entry> tenants_;
  uint64_t num_observed_ = 0;
};

} // namespace troupe
