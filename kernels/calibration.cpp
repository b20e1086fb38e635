#include "kernels/calibration.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "kernels/calibration_workload.hpp"
#include "kernels/context.hpp"

namespace troupe::kernels {

namespace {

using clock = std::chrono::steady_clock;

/// Products of up to N rows use the regime that is best for `measured` rows.
struct bucket {
  std::size_t measured;
  std::size_t most;
};

constexpr std::array<bucket, 8> buckets{
    {{1, 1}, {2, 3}, {4, 6}, {8, 12}, {16, 16}, {32, 32}, {64, 96}, {most_calibrated_rows, any_number}}};

// A smaller gain over the default is chance, and so is one of fewer visits. A choice this much slower than
// the best is not visited again.
constexpr double worth = 0.97;
constexpr std::size_t least_visits = 3;
constexpr double hopeless = 1.4;
// A choice this much slower is not visited with more rows either, unless it is meant for many rows.
constexpr double left_behind = 3.0;
// With more rows the multipliers are the limit, and coded weights take as long as plain ones.
constexpr std::size_t most_rows_bound_by_memory = 8;

const void* code_of(const kernel_table& t, product_kernel kernel, product_kind kind) {
  const auto code = [](auto* function) { return reinterpret_cast<const void*>(function); };
  const bool quantized = kind >= product_kind::int8;
  switch (kernel) {
  case product_kernel::fma:
    return kind == product_kind::f32 ? code(t.f32_panel)
           : quantized               ? code(t.quant.direct)
                                     : code(t.bf16_direct);
  case product_kernel::fma_runs:
    return code(t.bf16_runs);
  case product_kernel::fma_widened:
    return quantized                   ? code(t.bf16_expanded)
           : t.bf16_widened != nullptr ? code(t.bf16_widened)
                                       : code(t.bf16_expanded);
  case product_kernel::dots:
  case product_kernel::dots_runs:
    return code(t.bf16_dots);
  case product_kernel::tiles_streamed:
  case product_kernel::tiles:
  case product_kernel::tiles_decoded:
    return code(t.bf16_tiles);
  case product_kernel::integers:
    return code(t.quant.integer);
  case product_kernel::integers_streams:
    return code(t.quant.integer_streams);
  case product_kernel::integers_groups:
    return code(t.quant.integer_groups);
  case product_kernel::integers_one_stream:
    return code(t.quant.integer_one_stream);
  case product_kernel::integers_runs:
    return code(t.quant.integer_runs);
  case product_kernel::integers_unpacked:
    return code(t.quant.integer_unpacked);
  case product_kernel::integers_row_tiles:
    return code(t.quant.integer_row_tiles);
  case product_kernel::integer_tiles_streamed:
  case product_kernel::integer_tiles:
    return code(t.int8_tiles);
  }
  return nullptr;
}

/// Fewest rows for which a kernel is measured: some gain on others only with more rows.
std::size_t least_rows_of(product_kernel kernel) {
  switch (kernel) {
  case product_kernel::fma_widened:
  case product_kernel::integers_unpacked:
    return 8;
  case product_kernel::tiles:
  case product_kernel::integer_tiles:
    return 16;
  case product_kernel::tiles_decoded:
    return 32;
  default:
    return 0;
  }
}

bool covers(std::size_t rows, const bucket& b) {
  return rows >= b.most || (b.most == any_number && rows == any_number);
}

/// Equal for two kernels that run the same code, perhaps from two sets.
std::pair<const void*, product_kernel> identity_of(const product_regime& regime, product_kind kind) {
  return {code_of(table_of(regime.set), regime.kernel, kind), regime.kernel};
}

/// The regimes that can run for a number of rows: each kernel of each set, the default's first.
std::vector<product_regime> choices(const kernel_plan& standard, product_kind kind, const bucket& b,
                                    std::span<const isa> sets) {
  std::vector<product_regime> found{standard.regime(kind, b.measured, 1024)};
  for (const product_regime& other : kernels_for(kind, sets))
    if (covers(other.most_rows, b) && b.measured >= least_rows_of(other.kernel)
        && identity_of(other, kind) != identity_of(found.front(), kind))
      found.push_back(default_regime(table_of(other.set), other.kernel, kind, b.most));
  return found;
}

/// The regime with other sizes.
std::vector<product_regime> other_sizes(const product_regime& regime) {
  std::vector<product_regime> found;
  const auto add = [&](auto change) {
    product_regime other = regime;
    change(other);
    if (other != regime)
      found.push_back(other);
  };
  for (const std::size_t kib : {4U, 16U})
    if (regime.tile_bytes != 0)
      add([&](product_regime& r) { r.bytes_ahead = kib << 10; });
  for (const std::size_t kib : {128U, 256U, 1024U})
    if (regime.tile_bytes != 0)
      add([&](product_regime& r) { r.tile_bytes = kib << 10; });
  for (const std::size_t panels : {4U, 8U, 16U})
    if (regime.tile_bytes == 0 && panels >= (reads_runs(regime.kernel) ? 8U : 4U))
      add([&](product_regime& r) { r.tile_panels = panels; });
  for (const std::size_t tiles : {2U, 4U, 8U, 16U})
    add([&](product_regime& r) { r.tiles_per_thread = tiles; });
  if (regime.part_rows != 0)
    for (const std::size_t rows : {64U, 96U})
      add([&](product_regime& r) { r.part_rows = rows; });
  if (regime.part_bytes != 0)
    for (const std::size_t kib : {128U, 512U})
      add([&](product_regime& r) { r.part_bytes = kib << 10; });
  return found;
}

/// A cell of the plan, and the context that runs it.
struct trial {
  calibration_cell cell;
  calibration_workload* work = nullptr;
  const bucket* rows = nullptr;
  std::unique_ptr<context> ctx;
  std::size_t visits = 0;
  std::vector<double> rounds{}; // seconds of each visit until it became hopeless
  bool is_left_out = false;
};

/// Whether a choice was faster than the default in three rounds of four. Comparing only fastest runs would
/// not do: other programs may slow down one choice and not the other.
bool is_mostly_faster(const trial& t, const trial& standard) {
  const std::size_t common = std::min(t.rounds.size(), standard.rounds.size());
  std::size_t faster = 0;
  for (std::size_t i = 0; i < common; ++i)
    faster += t.rounds[i] < standard.rounds[i] ? 1 : 0;
  return 4 * faster >= 3 * common;
}

class calibration {
 public:
  calibration(thread_pool& pool, const calibration_options& options)
      : pool_(pool),
        options_(options),
        deadline_(clock::now() + options.budget),
        standard_(default_plan(options.sets.back())) {}

  calibration_result run(std::span<const calibration_weights> weights) {
    std::vector<calibration_weights> all(weights.begin(), weights.end());
    if (options_.may_code)
      for (const calibration_weights& plain : weights)
        if (plain.format == packed_format::bf16_pair) {
          all.push_back(plain);
          all.back().format = packed_format::bf16_coded;
        }
    for (const calibration_weights& some : all) {
      works_.push_back(std::make_unique<calibration_workload>(pool_, some, options_.num_bytes / all.size()));
      if (!works_.back()->is_as_asked() || is_late())
        works_.pop_back();
    }
    calibration_result result;
    result.plan = standard_;
    if (works_.size() < all.size() && is_late()) {
      result.is_incomplete = true;
      return result;
    }
    add_kernels();
    measure();
    if (options_.sizes) {
      add_sizes();
      measure();
    }
    result.is_incomplete = std::any_of(trials_.begin(), trials_.end(),
                                       [](const trial& t) { return t.visits == 0 && !t.is_left_out; });
    if (!result.is_incomplete)
      choose(result.plan);
    for (const trial& t : trials_)
      if (t.visits != 0)
        result.cells.push_back(t.cell);
    if (!result.is_incomplete)
      result.plan.coded_weights = is_coding_faster(result.cells).value_or(standard_.coded_weights);
    return result;
  }

 private:
  bool is_late() const { return clock::now() >= deadline_; }

  void add(calibration_workload& work, const bucket& rows, const product_regime& regime, bool is_default) {
    kernel_plan plan = standard_; // the default may have several regimes for these rows
    if (!is_default) {
      plan.of(work.kind()) = {regime, standard_.of(work.kind()).back()};
      plan.of(work.kind()).front().most_rows = rows.measured;
      plan.of(work.kind()).front().most_inputs = any_number;
    }
    trial t;
    t.cell = {work.kind(),           rows.measured, regime, std::numeric_limits<double>::infinity(),
              work.bytes_of_layer(), is_default};
    t.work = &work;
    t.rows = &rows;
    t.ctx = std::make_unique<context>(pool_, plan);
    trials_.push_back(std::move(t));
  }

  void add_kernels() {
    for (const auto& work : works_)
      for (const bucket& b : buckets) {
        bool is_default = true;
        for (const product_regime& regime : choices(standard_, work->kind(), b, options_.sets))
          add(*work, b, regime, std::exchange(is_default, false));
      }
  }

  void add_sizes() {
    std::vector<std::pair<calibration_workload*, std::pair<const bucket*, product_regime>>> wanted;
    for (const auto& work : works_)
      for (const bucket& b : buckets)
        if (const trial* best = best_of(*work, b))
          for (const product_regime& other : other_sizes(best->cell.regime))
            wanted.push_back({work.get(), {&b, other}});
    for (const auto& [work, what] : wanted)
      add(*work, *what.first, what.second, false);
  }

  /// Visits all choices in turn, repeatedly, except hopeless ones: at least once, until the time is up or the
  /// limit is reached.
  void measure() {
    const auto begin = clock::now();
    const auto until = begin + (deadline_ - begin) / (options_.sizes && !sizes_next_ ? 2 : 1);
    sizes_next_ = true;
    for (std::size_t round = 0; round < options_.most_rounds; ++round)
      for (trial& t : trials_) {
        if (clock::now() >= (t.visits == 0 ? deadline_ : until))
          return;
        if (t.is_left_out || (t.visits == 0 && is_left_behind(t))) {
          t.is_left_out = true;
          continue;
        }
        const trial* best = best_of(*t.work, *t.rows);
        const double limit =
            best == nullptr ? std::numeric_limits<double>::infinity() : hopeless * best->cell.seconds;
        if (t.visits != 0 && t.cell.seconds > limit && !t.cell.is_default)
          continue;
        t.rounds.push_back(t.work->visit(*t.ctx, t.rows->measured, limit));
        t.cell.seconds = std::min(t.cell.seconds, t.rounds.back());
        ++t.visits;
      }
  }

  /// Whether the same kernel was hopeless with fewer rows.
  bool is_left_behind(const trial& t) {
    if (t.cell.is_default || t.rows == buckets.data() || least_rows_of(t.cell.regime.kernel) != 0)
      return false;
    for (const trial& before : trials_)
      if (before.work == t.work && before.rows + 1 == t.rows && before.cell.regime.set == t.cell.regime.set
          && before.cell.regime.kernel == t.cell.regime.kernel)
        return before.is_left_out
               || before.cell.seconds > left_behind * best_of(*before.work, *before.rows)->cell.seconds;
    return false;
  }

  /// The fastest of the choices with at least this many visits.
  trial* best_of(const calibration_workload& work, const bucket& b, std::size_t visits = 1) {
    trial* best = nullptr;
    for (trial& t : trials_)
      if (t.work == &work && t.rows == &b && t.visits >= visits
          && (best == nullptr || t.cell.seconds < best->cell.seconds))
        best = &t;
    return best;
  }

  trial* default_of(const calibration_workload& work, const bucket& b) {
    for (trial& t : trials_)
      if (t.work == &work && t.rows == &b && t.cell.is_default)
        return &t;
    return nullptr;
  }

  void choose(kernel_plan& plan) {
    for (const auto& work : works_) {
      std::vector<product_regime> regimes;
      std::size_t below = 0;
      for (const bucket& b : buckets) {
        trial* best = best_of(*work, b, least_visits);
        trial* standard = default_of(*work, b);
        if (best == nullptr || standard->visits < least_visits
            || best->cell.seconds > worth * standard->cell.seconds || !is_mostly_faster(*best, *standard))
          best = standard;
        best->cell.is_chosen = true;
        if (best == standard) {
          copy_default(work->kind(), below, b.most, regimes);
        } else {
          // The default's kernel with other sizes may end within the bucket.
          const product_regime& regime = best->cell.regime;
          const auto most = std::min(b.most, most_rows_of(table_of(regime.set), regime.kernel, work->kind()));
          regimes.push_back(regime);
          regimes.back().most_rows = most;
          regimes.back().most_inputs = any_number;
          if (most < b.most)
            copy_default(work->kind(), most, b.most, regimes);
        }
        below = b.most;
      }
      plan.of(work->kind()) = std::move(regimes);
    }
  }

  /// The default's regimes for more than `below` rows and up to `most`.
  void copy_default(product_kind kind, std::size_t below, std::size_t most,
                    std::vector<product_regime>& regimes) const {
    for (const product_regime& regime : standard_.of(kind)) {
      if (regime.most_rows <= below)
        continue;
      regimes.push_back(regime);
      regimes.back().most_rows = std::min(regime.most_rows, most);
      if (regime.most_rows >= most && regime.most_inputs == any_number)
        return;
    }
  }

  thread_pool& pool_;
  calibration_options options_;
  clock::time_point deadline_;
  kernel_plan standard_;
  std::vector<std::unique_ptr<calibration_workload>> works_;
  std::vector<trial> trials_;
  bool sizes_next_ = false;
};

} // namespace

std::optional<bool> is_coding_faster(std::span<const calibration_cell> cells) {
  double sum = 0.0;
  std::size_t count = 0;
  for (const calibration_cell& plain : cells)
    for (const calibration_cell& coded : cells)
      if (plain.is_chosen && plain.kind == product_kind::bf16 && coded.is_chosen
          && coded.kind == product_kind::bf16_coded && plain.rows == coded.rows
          && plain.rows <= most_rows_bound_by_memory) {
        sum += std::log(plain.seconds / coded.seconds);
        ++count;
      }
  return count == 0 ? std::nullopt : std::optional(std::exp(sum / static_cast<double>(count)) * worth > 1.0);
}

std::vector<product_regime> kernels_for(product_kind kind, std::span<const isa> sets) {
  std::vector<product_regime> found;
  for (const isa set : sets) {
    if (set == isa::portable && sets.size() > 1)
      continue; // for reference only
    const kernel_table& table = table_of(set);
    for (std::size_t i = 0; i < num_product_kernels; ++i) {
      const auto kernel = static_cast<product_kernel>(i);
      const std::size_t most = most_rows_of(table, kernel, kind);
      if (most == 0)
        continue;
      if (kernel == product_kernel::integers && table.quant.integer_streams != nullptr)
        continue; // for processors without dot products of bytes
      const product_regime regime = default_regime(table, kernel, kind, most);
      const bool is_known = std::any_of(found.begin(), found.end(), [&](const product_regime& other) {
        return identity_of(other, kind) == identity_of(regime, kind);
      });
      if (!is_known)
        found.push_back(regime);
    }
  }
  return found;
}

calibration_result calibrate(thread_pool& pool, std::span<const calibration_weights> weights,
                             const calibration_options& options) {
  return calibration(pool, options).run(weights);
}

} // namespace troupe::kernels
