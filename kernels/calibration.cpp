#include "kernels/calibration.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "kernels/buffer.hpp"
#include "kernels/context.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/gemm.hpp"

namespace troupe::kernels {

namespace {

using clock = std::chrono::steady_clock;

/// Products of up to so many rows do what those of `measured` rows do best.
struct bucket {
  std::size_t measured;
  std::size_t most;
};

constexpr std::array<bucket, 8> buckets{
    {{1, 1}, {2, 3}, {4, 6}, {8, 12}, {16, 16}, {32, 32}, {64, 96}, {192, any_number}}};

constexpr std::size_t most_rows = 192;

// A visit runs layers for so long, and its fastest run counts: where other programs take the processors, for
// milliseconds each, some run is spared.
constexpr auto visit_time = std::chrono::microseconds{2500};

// Faster than the default by less is chance, and so is what was visited less often. A choice that takes so
// much longer than the best is not visited again.
constexpr double worth = 0.97;
constexpr std::size_t least_visits = 3;
constexpr double hopeless = 1.4;
// Nor, with more rows, one that takes several times as long, unless it is for many.
constexpr double left_behind = 3.0;

// No pause: a run that takes so long is slow.
constexpr auto long_run = std::chrono::milliseconds{10};

// Sizes of longer matrices are cut: to measure them takes longer and says no more.
constexpr std::size_t most_inputs = 4096;
constexpr std::size_t most_outputs = 8192;

/// Numbers that look like weights, cheaply.
class noise {
 public:
  std::uint64_t next() {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return state_;
  }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15U;
};

/// Four BF16 numbers around 2⁻⁶, of few exponents, so that they can be coded.
std::uint64_t four_bf16(std::uint64_t bits) {
  return (bits & 0x81ff81ff81ff81ffU) + 0x3b803b803b803b80U;
}

void fill_with_bf16(std::span<std::byte> out, noise& random) {
  for (std::size_t i = 0; i + 8 <= out.size(); i += 8) {
    const std::uint64_t four = four_bf16(random.next());
    std::memcpy(out.data() + i, &four, sizeof four);
  }
}

/// Packed weights of any values.
packed_matrix any_weights(const packed_shape& shape, row_quant rows, noise& random) {
  packed_shape plain = shape;
  if (shape.format == packed_format::bf16_coded)
    plain.format = packed_format::bf16_pair;
  buffer memory(plain.bytes());
  if (plain.format == packed_format::bf16_pair) {
    fill_with_bf16(memory.bytes(), random);
  } else if (plain.format == packed_format::f32_panel) {
    for (std::size_t i = 0; i + 8 <= memory.size(); i += 8) { // upper halves are BF16 numbers
      const std::uint64_t two = four_bf16(random.next());
      std::memcpy(memory.data() + i, &two, sizeof two);
    }
  } else {
    for (std::size_t i = 0; i + 8 <= memory.size(); i += 8) {
      const std::uint64_t eight = random.next() & 0x0f0f0f0f0f0f0f0fU; // group scales, too
      std::memcpy(memory.data() + i, &eight, sizeof eight);
    }
    for (std::size_t p = 0; p < shape.panels(); ++p)
      std::fill_n(
          reinterpret_cast<float*>(memory.data() + p * shape.panel_bytes() + shape.panel_scales_offset()),
          panel_columns, 0x1p-10F);
  }
  packed_matrix matrix = packed_matrix::own(plain, std::move(memory));
  if (plain.format != shape.format)
    if (auto coded = packed_matrix::code(matrix))
      matrix = std::move(*coded);
  matrix.set_rows(rows);
  return matrix;
}

/// One layer's weights of one format.
struct layer {
  expert_weights expert;
  std::vector<packed_matrix> dense;

  std::size_t num_bytes() const {
    std::size_t sum = expert.gate_up.bytes().size() + expert.down.bytes().size();
    for (const packed_matrix& matrix : dense)
      sum += matrix.bytes().size();
    return sum;
  }
};

std::size_t cut(std::size_t value, std::size_t most) {
  return std::min(value, most);
}

layer make_layer(const calibration_weights& weights, noise& random) {
  layer made;
  if (weights.ffn != 0) {
    const std::size_t hidden = cut(weights.hidden, most_inputs);
    const std::size_t ffn = cut(weights.ffn, most_inputs);
    made.expert.gate_up = any_weights({weights.format, ffn, hidden, 2}, weights.rows, random);
    made.expert.down = any_weights({weights.format, hidden, ffn, 1}, weights.rows, random);
  }
  for (const auto& matrix : weights.dense)
    made.dense.push_back(
        any_weights({weights.format, cut(matrix.outputs, most_outputs), cut(matrix.inputs, most_inputs), 1},
                    weights.rows, random));
  return made;
}

/// Layers of one format that are gone round, and rows to meet them.
class workload {
 public:
  workload(thread_pool& pool, const calibration_weights& weights, std::size_t num_bytes) : weights_(weights) {
    noise random;
    layers_.push_back(make_layer(weights, random));
    const std::size_t of_layer = std::max<std::size_t>(layers_.front().num_bytes(), 1);
    std::size_t count = std::max<std::size_t>(num_bytes / of_layer, 2);
    if (weights.copies != 0)
      count = std::min(count, weights.copies);
    copy_first(pool, count);
    std::size_t inputs = layers_.front().expert.down.empty() ? 0 : layers_.front().expert.hidden();
    std::size_t outputs = inputs;
    for (const packed_matrix& matrix : layers_.front().dense) {
      inputs = std::max(inputs, matrix.inputs());
      outputs = std::max(outputs, matrix.outputs());
    }
    input_ = buffer(most_rows * bytes_of(weights.row_type, inputs));
    fill_input(random);
    output_ = buffer(most_rows * bytes_of(dtype::f32, outputs));
    for (std::size_t r = 0; r < most_rows; ++r) {
      from_.push_back(input_.data() + r * bytes_of(weights.row_type, inputs));
      to_.push_back(output_.data() + r * bytes_of(dtype::f32, outputs));
    }
  }

  product_kind kind() const { return weights_.kind(); }

  /// Whether all weights have the format that was asked for: some cannot be coded.
  bool is_as_asked() const {
    const layer& first = layers_.front();
    return (first.expert.down.empty() || first.expert.down.format() == weights_.format)
           && std::all_of(first.dense.begin(), first.dense.end(),
                          [&](const packed_matrix& matrix) { return matrix.format() == weights_.format; });
  }

  double bytes_of_layer() const { return static_cast<double>(layers_.front().num_bytes()); }

  /// Runs layers for `visit_time`, or fewer where they take longer than `hopeless_seconds` each.
  /// @returns seconds of the fastest run
  double visit(context& ctx, std::size_t rows, double hopeless_seconds) {
    const auto begin = clock::now();
    auto least = clock::duration::max();
    for (auto from = begin;;) {
      run(ctx, rows);
      const auto to = clock::now();
      least = std::min(least, to - from);
      from = to;
      const double seconds = std::chrono::duration<double>(least).count();
      if (to - begin >= visit_time && (seconds <= hopeless_seconds || to - begin >= long_run))
        return seconds;
    }
  }

 private:
  /// The first layer again until there are `count`. All threads copy: to touch so many pages takes time.
  void copy_first(thread_pool& pool, std::size_t count) {
    const std::vector<const packed_matrix*> originals = matrices_of(layers_.front());
    std::vector<buffer> copies;
    for (std::size_t i = originals.size(); i < count * originals.size(); ++i)
      copies.emplace_back(originals[i % originals.size()]->bytes().size());
    pool.parallel_dynamic(copies.size(), 1, [&](unsigned, std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        std::memcpy(copies[i].data(), originals[i % originals.size()]->bytes().data(), copies[i].size());
    });
    std::vector<layer> layers(count);
    layers.front() = std::move(layers_.front());
    const std::vector<const packed_matrix*> firsts = matrices_of(layers.front());
    for (std::size_t l = 1; l < count; ++l) {
      const auto copy = [&](std::size_t i) {
        packed_matrix matrix =
            packed_matrix::own(firsts[i]->shape(), std::move(copies[(l - 1) * firsts.size() + i]));
        matrix.set_rows(firsts[i]->rows());
        return matrix;
      };
      std::size_t i = 0;
      if (!layers.front().expert.down.empty()) {
        layers[l].expert.gate_up = copy(i++);
        layers[l].expert.down = copy(i++);
      }
      while (i < firsts.size())
        layers[l].dense.push_back(copy(i++));
    }
    layers_ = std::move(layers);
  }

  static std::vector<const packed_matrix*> matrices_of(const layer& of) {
    std::vector<const packed_matrix*> matrices;
    if (!of.expert.down.empty())
      matrices = {&of.expert.gate_up, &of.expert.down};
    for (const packed_matrix& matrix : of.dense)
      matrices.push_back(&matrix);
    return matrices;
  }

  void fill_input(noise& random) {
    if (weights_.row_type == dtype::bf16) {
      fill_with_bf16(input_.bytes(), random);
      return;
    }
    auto* values = reinterpret_cast<float*>(input_.data());
    for (std::size_t i = 0; i < input_.size() / sizeof(float); ++i)
      values[i] = static_cast<float>(static_cast<std::int32_t>(random.next())) * 0x1p-31F;
  }

  void run(context& ctx, std::size_t rows) {
    const layer& at = layers_[next_++ % layers_.size()];
    if (!at.expert.down.empty()) {
      const expert_segment segment{&at.expert, {from_.data(), rows}, {to_.data(), rows}};
      expert_ffn(ctx, {.segments = {&segment, 1}, .row_type = weights_.row_type});
    }
    for (const packed_matrix& matrix : at.dense)
      gemm(ctx, {.input = {input_.data(), weights_.row_type, rows, matrix.inputs(), matrix.inputs()},
                 .weight = &matrix,
                 .output = {output_.data(), dtype::f32, rows, matrix.outputs(), matrix.outputs()}});
  }

  calibration_weights weights_;
  std::vector<layer> layers_;
  buffer input_;
  buffer output_;
  std::vector<const std::byte*> from_;
  std::vector<std::byte*> to_;
  std::size_t next_ = 0;
};

/// What makes two tables' kernels different.
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

/// Whether a kernel gains on others with more rows: fewer than so many are not worth a look.
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

/// What could run for a number of rows: of each set each kernel, the default's first.
std::vector<product_regime> choices(const kernel_plan& standard, product_kind kind, const bucket& b,
                                    std::span<const isa> sets) {
  std::vector<product_regime> found{standard.regime(kind, b.measured, 1024)};
  std::vector<std::pair<const void*, product_kernel>> seen{
      {code_of(table_of(found[0].set), found[0].kernel, kind), found[0].kernel}};
  for (const isa set : sets) {
    if (set == isa::portable && sets.size() > 1)
      continue; // a reference, not a choice
    const kernel_table& table = table_of(set);
    for (std::size_t i = 0; i < num_product_kernels; ++i) {
      const auto kernel = static_cast<product_kernel>(i);
      if (!covers(most_rows_of(table, kernel, kind), b) || b.measured < least_rows_of(kernel))
        continue;
      if (kernel == product_kernel::integers && table.quant.integer_streams != nullptr)
        continue; // what processors without dot products of bytes have
      const std::pair id{code_of(table, kernel, kind), kernel};
      if (std::find(seen.begin(), seen.end(), id) != seen.end())
        continue;
      seen.push_back(id);
      found.push_back(default_regime(table, kernel, kind, b.most));
    }
  }
  return found;
}

/// Other sizes for a regime.
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

/// A cell, and the context that runs it.
struct trial {
  calibration_cell cell;
  workload* work = nullptr;
  const bucket* rows = nullptr;
  std::unique_ptr<context> ctx;
  std::size_t visits = 0;
  std::vector<double> rounds{}; // seconds of each visit, as many as there were before it was hopeless
  bool is_left_out = false;
};

/// Whether a choice was faster than the default in three rounds of four: other programs that slow both down
/// in turn make a fastest run of one and not of the other.
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
      works_.push_back(std::make_unique<workload>(pool_, some, options_.num_bytes / all.size()));
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
    return result;
  }

 private:
  bool is_late() const { return clock::now() >= deadline_; }

  void add(workload& work, const bucket& rows, const product_regime& regime, bool is_default) {
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
    std::vector<std::pair<workload*, std::pair<const bucket*, product_regime>>> wanted;
    for (const auto& work : works_)
      for (const bucket& b : buckets)
        if (const trial* best = best_of(*work, b))
          for (const product_regime& other : other_sizes(best->cell.regime))
            wanted.push_back({work.get(), {&b, other}});
    for (const auto& [work, what] : wanted)
      add(*work, *what.first, what.second, false);
  }

  /// Visits all in turn, again and again, but what is hopeless: at least once, until time is up, and no more
  /// than so often.
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

  /// The fastest of those that were visited so often.
  trial* best_of(const workload& work, const bucket& b, std::size_t visits = 1) {
    trial* best = nullptr;
    for (trial& t : trials_)
      if (t.work == &work && t.rows == &b && t.visits >= visits
          && (best == nullptr || t.cell.seconds < best->cell.seconds))
        best = &t;
    return best;
  }

  trial* default_of(const workload& work, const bucket& b) {
    for (trial& t : trials_)
      if (t.work == &work && t.rows == &b && t.cell.is_default)
        return &t;
    return nullptr;
  }

  void choose(kernel_plan& plan) {
    // Of BF16, plain and coded: seconds with the chosen kernels, by bucket; 0: not measured.
    std::array<std::array<double, buckets.size()>, 2> bf16{};
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
          regimes.push_back(best->cell.regime);
          regimes.back().most_rows = b.most;
          regimes.back().most_inputs = any_number;
        }
        below = b.most;
        if (work->kind() == product_kind::bf16 || work->kind() == product_kind::bf16_coded)
          bf16.at(work->kind() == product_kind::bf16 ? 0 : 1)
              .at(static_cast<std::size_t>(&b - buckets.data())) = best->cell.seconds;
      }
      plan.of(work->kind()) = std::move(regimes);
    }
    const auto& usual = bf16.at(plan.coded_weights ? 1 : 0);
    const auto& other = bf16.at(plan.coded_weights ? 0 : 1);
    std::size_t faster = 0;
    for (std::size_t i = 0; i < buckets.size(); ++i)
      faster += other.at(i) != 0 && other.at(i) < worth * usual.at(i) ? 1 : 0;
    // One choice for all numbers of rows, so it has to pay for most.
    if (4 * faster >= 3 * buckets.size())
      plan.coded_weights = !plan.coded_weights;
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
  std::vector<std::unique_ptr<workload>> works_;
  std::vector<trial> trials_;
  bool sizes_next_ = false;
};

} // namespace

calibration_result calibrate(thread_pool& pool, std::span<const calibration_weights> weights,
                             const calibration_options& options) {
  return calibration(pool, options).run(weights);
}

} // namespace troupe::kernels
