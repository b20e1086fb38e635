// How long answers are likely to be, learned from those that have ended. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "actors/protocol/defaults.hpp"

namespace troupe {

/// The lengths of answers by tenant, as decaying histograms, and the length that a given share of the next
/// ones will not exceed.
///
/// An answer that its request's `max_tokens` has cut shows only that it would have been longer. So each
/// length has the share of answers that end there among the answers that reach it (the Kaplan-Meier
/// estimate): a cut answer counts among the latter only. Where a tenant had few answers of a length, the
/// share of all tenants is used. Where all tenants had few, each token has the same share: four fifths of the
/// answers then have at most `settings::prior_tokens`.
///
/// At most `defaults::max_known_tenants` tenants are known. The one without an answer for the longest time is
/// forgotten first.
class answer_lengths {
 public:
  struct settings {
    double quantile = defaults::admission_quantile; ///< 0 to 1; from 1 on nothing is estimated
    std::uint32_t prior_tokens = defaults::expected_new_tokens;
  };

  explicit answer_lengths(settings wanted);

  /// An answer has ended.
  /// @param num_tokens  its length, at least 1
  /// @param is_cut      it would have gone on
  void observe(const std::string& tenant, std::uint32_t num_tokens, bool is_cut);

  /// New tokens that `settings::quantile` of this tenant's answers do not exceed: 1 to `most`.
  std::uint32_t likely(const std::string& tenant, std::uint32_t most) const;

  /// Likewise, of all tenants together.
  std::uint32_t likely() const;

 private:
  static constexpr std::size_t buckets_per_octave = 4;
  static constexpr std::size_t num_buckets = 24 * buckets_per_octave; ///< the last one has no end

  struct lengths {
    std::array<float, num_buckets> ended{};
    std::array<float, num_buckets> cut{};
  };

  struct tenant_entry {
    lengths seen;
    std::uint64_t latest = 0; ///< observation
    mutable std::uint32_t likely = 0;
    mutable std::uint64_t likely_at = 0; ///< observation after which `likely` was computed; 0: never
  };

  /// Share of the answers that end in each bucket, of those that reach it.
  using endings = std::array<double, num_buckets>;

  static std::size_t bucket_of(std::uint32_t num_tokens);
  static double begin_of(std::size_t bucket);
  static void add(lengths& to, std::uint32_t num_tokens, bool is_cut);
  static endings endings_of(const lengths& seen, const endings& otherwise);
  std::uint32_t quantile_of(const endings& ends) const;
  tenant_entry& entry_of(const std::string& tenant);

  settings settings_;
  endings prior_{};
  lengths all_;
  endings all_endings_{};
  std::uint32_t likely_;
  std::map<std::string, tenant_entry> tenants_;
  std::uint64_t num_observed_ = 0;
};

} // namespace troupe
