// The workload of peer_workload.hpp in our engine without actors: the same weights, kernels and threads as in
// `troupe serve`, so the difference is the cost of actors and HTTP. Takes the model flags of serve, and
// computes on its devices; a GPU chooses the most probable tokens itself, as with serve.
//
//    engine_bench MODEL_DIR [--batch N] [--tokens N] [--limits-only] [--plans DIR] [--device …] [--threads N]
//    [--dtype …] [--expert-quant …] [--dense-quant …] [--activation-quant …]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "kernels/calibration.hpp"
#include "kernels/growing_rows.hpp"
#include "kernels/model/error.hpp"
#include "kernels/model/plan_store.hpp"
#include "kernels/self_test.hpp"
#include "services/model/compute.hpp"
#include "services/model/model_source.hpp"
#include "services/options/role_options.hpp"
#include "tests/bench/machine_limits.hpp"
#include "tests/bench/peer_workload.hpp"

namespace {

using namespace troupe;
using namespace troupe::bench;

// A build whose best kernels fail the self test would be measured with others: this reports it.
kernels::kernel_plan plan_of(const model_options& options, const model_source& source) {
  for (const auto& refusal : choose_isa(options).refused)
    std::fprintf(stderr, "engine_bench: %s is refused, it gives other bits than the reference in %s\n",
                 kernels::name_of(refusal.set), refusal.op.c_str());
  return source.plan ? *source.plan : plan_without_model(options);
}

class own_engine final : public workload_engine {
 public:
  own_engine(const model_options& options, std::uint32_t max_batch, std::uint32_t max_tokens)
      : source_(open_model(options)),
        max_batch_(max_batch),
        max_tokens_(max_tokens),
        pool_({.threads = options.num_threads()}),
        ctx_(std::in_place, pool_, plan_of(options, source_)),
        attention_(make_backend(source_, *ctx_)
                       ->load_attention({.max_positions = max_tokens, .kv_type = source_.kv_type})),
        experts_(make_backend(source_, *ctx_)->make_experts()),
        pass_(attention_->make_pass()) {
    const std::size_t blocks = (max_tokens + block_tokens - 1) / block_tokens;
    attention_->reserve_kv(block_tokens, blocks * max_batch);
    for (std::size_t layer = 0; layer < source_.config.num_layers(); ++layer)
      if (const auto* moe = source_.config.layers[layer].moe())
        for (std::size_t expert = 0; expert < moe->num_experts; ++expert)
          experts_->load(layer, expert);
    tables_.resize(max_batch, std::vector<std::uint32_t>(blocks));
    for (std::size_t s = 0; s < tables_.size(); ++s)
      std::iota(tables_[s].begin(), tables_[s].end(), static_cast<std::uint32_t>(s * blocks));
  }

  std::uint32_t vocab_size() const override { return static_cast<std::uint32_t>(source_.config.vocab_size); }

  std::uint32_t max_batch() const override { return max_batch_; }

  std::uint32_t max_tokens() const override { return max_tokens_; }

  void clear() override {} // a restarted sequence overwrites its blocks

  void truncate(std::uint32_t /*tokens*/) override {}

  /// The weights stay in place: all kernels share their layout.
  std::string follow_plan(const std::string& file) override {
    try {
      const kernels::kernel_plan plan = model::read_plan(file);
      for (const kernels::isa set : plan.sets())
        if (const auto op = kernels::self_test(set))
          return std::string(kernels::name_of(set)) + " gives other bits than the reference in " + *op;
      ctx_.emplace(pool_, plan); // at the same address, which the backends use
    } catch (const model::model_error& error) {
      return error.what();
    }
    return {};
  }

  void step(const std::vector<workload_row>& rows) override {
    const auto wanted = run(rows);
    answer_of_.assign(rows.size(), 0);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      answer_of_[wanted[i]] = i;
    if (source_.device.kind == model::device_kind::cpu)
      read_logits(wanted);
    else
      choose(wanted);
  }

  std::uint32_t best(std::size_t index) override {
    const std::size_t answer = answer_of_[index];
    if (source_.device.kind != model::device_kind::cpu)
      return chosen_[answer].token;
    const float* logits = logits_.rows(answer + 1).row_as<float>(answer);
    return static_cast<std::uint32_t>(std::max_element(logits, logits + vocab_size()) - logits);
  }

  std::vector<float> logits(const std::vector<workload_row>& rows) override {
    read_logits(run(rows));
    const float* logits = logits_.rows(1).row_as<float>(0);
    return {logits, logits + vocab_size()};
  }

  std::string description() const {
    return std::string(kernels::name_of(ctx_->instruction_set())) + ", " + std::to_string(pool_.threads())
           + " threads, " + source_.numerics_class;
  }

  std::size_t num_bytes() const { return attention_->num_bytes() + experts_->num_bytes(); }

 private:
  static constexpr std::size_t block_tokens = 16;
  static constexpr std::uint32_t no_place = 0xffffffff;

  /// Runs rows through the layers.
  /// @returns the rows whose logits are requested
  std::vector<std::uint32_t> run(const std::vector<workload_row>& rows) {
    std::vector<model::batch_row> batch;
    std::vector<std::uint32_t> wanted;
    // As in serve: only this step's sequences, each with the blocks that it fills. On a GPU one row per
    // sequence makes a decode step.
    std::vector<std::span<const std::uint32_t>> sequences;
    place_of_.assign(tables_.size(), no_place);
    for (const auto& row : rows) {
      const auto& table = tables_[row.sequence];
      const std::size_t block = row.position / block_tokens;
      auto& place = place_of_[row.sequence];
      if (place == no_place) {
        place = static_cast<std::uint32_t>(sequences.size());
        sequences.emplace_back();
      }
      if (sequences[place].size() <= block)
        sequences[place] = std::span{table}.first(block + 1);
      if (row.wants_logits)
        wanted.push_back(static_cast<std::uint32_t>(batch.size()));
      batch.push_back(
          {row.token, row.position, place,
           static_cast<std::uint32_t>(table[block] * block_tokens + row.position % block_tokens)});
    }
    auto why = attention_->begin({batch, sequences}, *pass_);
    while (why == model::pause::experts)
      why = run_experts();
    return wanted;
  }

  void read_logits(const std::vector<std::uint32_t>& wanted) {
    logits_.reserve(kernels::dtype::f32, wanted.size(), vocab_size());
    attention_->logits(*pass_, wanted, logits_.rows(wanted.size()));
  }

  void choose(const std::vector<std::uint32_t>& wanted) {
    std::vector<kernels::sampling_row> drawn(wanted.size());
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      drawn[i].logits_row = i;
      drawn[i].params.temperature = 0.0F;
    }
    chosen_.resize(wanted.size());
    if (!wanted.empty())
      attention_->sample(
          *pass_, {.rows = wanted, .drawn = drawn, .drawn_tokens = chosen_, .known = {}, .known_tokens = {}});
  }

  model::pause run_experts() {
    const auto routed = pass_->routed();
    const auto row_bytes = kernels::bytes_of(source_.type, source_.config.hidden);
    if (inputs_.size() < routed.num_rows * row_bytes)
      inputs_ = kernels::buffer(routed.num_rows * row_bytes);
    pass_->read_rows(inputs_.data());
    if (outputs_.view().rows < routed.entries.size())
      outputs_ = kernels::tensor(source_.type, routed.entries.size(), source_.config.hidden);
    auto outputs = outputs_.view();
    inputs_of_.clear();
    outputs_of_.clear();
    slot_rows_.resize(routed.entries.size());
    for (const auto entry : routed.entries) {
      inputs_of_.push_back(inputs_.data() + entry / routed.num_topk * row_bytes);
      outputs_of_.push_back(outputs.row(entry));
      slot_rows_[entry] = outputs.row(entry);
    }
    batch_.clear();
    for (std::size_t e = 0; e < routed.num_experts; ++e)
      if (const auto count = routed.offsets[e + 1] - routed.offsets[e]; count > 0)
        batch_.push_back({e, std::span{inputs_of_}.subspan(routed.offsets[e], count),
                          std::span{outputs_of_}.subspan(routed.offsets[e], count)});
    experts_->forward(routed.layer, batch_);
    return attention_->resume(slot_rows_, *pass_);
  }

  model_source source_;
  std::uint32_t max_batch_;
  std::uint32_t max_tokens_;
  kernels::thread_pool pool_;
  std::optional<kernels::context> ctx_;
  std::unique_ptr<model::attention_backend> attention_;
  std::unique_ptr<model::expert_backend> experts_;
  std::unique_ptr<model::attention_pass> pass_;
  std::vector<std::vector<std::uint32_t>> tables_; // KV blocks of each sequence
  std::vector<std::uint32_t> place_of_;            // of each sequence, its index among those of the step
  kernels::buffer inputs_;                         // [rows, hidden], from read_rows
  kernels::tensor outputs_;                        // [rows · top_k, hidden]
  std::vector<const std::byte*> inputs_of_;
  std::vector<std::byte*> outputs_of_;
  std::vector<const std::byte*> slot_rows_;
  std::vector<model::expert_rows> batch_;
  kernels::growing_rows logits_;
  std::vector<kernels::sampled_token> chosen_; // by a GPU
  // Of each row of the step, its index in the logits or the chosen tokens.
  std::vector<std::size_t> answer_of_;
};

std::string limits_of(kernels::thread_pool& pool) {
  const auto limits = measure_limits(pool);
  std::ostringstream out;
  out << R"({"read_gbps": )" << limits.read_bytes_per_second * 1e-9 << R"(, "f32_gflops": )"
      << limits.f32_flops * 1e-9 << R"(, "bf16_gflops": )" << limits.bf16_flops * 1e-9 << R"(, "int8_gops": )"
      << limits.int8_ops * 1e-9 << R"(, "int4_gops": )" << limits.int4_ops * 1e-9 << "}";
  return out.str();
}

/// Regimes in which one kernel takes as many rows as it can, with suitable sizes.
std::vector<kernels::product_regime> regimes_of(const kernels::product_regime& kernel,
                                                kernels::product_kind kind) {
  std::vector<kernels::product_regime> found;
  for (const std::size_t rows : {std::size_t{12}, std::size_t{16}, kernel.most_rows})
    if (rows <= kernel.most_rows && (found.empty() || rows > found.back().most_rows))
      found.push_back(kernels::default_regime(kernels::table_of(kernel.set), kernel.kernel, kind, rows));
  return found;
}

/// Writes plans: SET.txt is a set's default. KIND.SET KERNEL.txt uses that kernel for as many rows of such
/// weights as it takes, and otherwise the best set's default.
void write_plans(const model_options& options, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const auto sets = allowed_sets(options);
  for (const kernels::isa set : sets)
    if (set != kernels::isa::portable || sets.size() == 1)
      model::write_plan(folder / (std::string(kernels::name_of(set)) + ".txt"), kernels::default_plan(set));
  for (std::size_t i = 0; i < kernels::num_product_kinds; ++i) {
    const auto kind = static_cast<kernels::product_kind>(i);
    for (const kernels::product_regime& kernel : kernels::kernels_for(kind, sets)) {
      kernels::kernel_plan plan = kernels::default_plan(sets.back());
      auto regimes = regimes_of(kernel, kind);
      if (kernel.most_rows != kernels::any_number)
        regimes.insert(regimes.end(), plan.of(kind).begin(), plan.of(kind).end());
      plan.of(kind) = regimes;
      model::write_plan(folder
                            / (std::string(kernels::name_of(kind)) + "." + kernels::name_of(kernel.set) + " "
                               + kernels::name_of(kernel.kernel) + ".txt"),
                        plan);
    }
  }
}

/// Answers each line of stdin with the machine's limits.
int serve_limits(unsigned threads) {
  kernels::thread_pool pool({.threads = threads});
  std::printf("{\"ready\": true}\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::printf("%s\n", limits_of(pool).c_str());
    std::fflush(stdout);
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  model_options options;
  option_parser parser("engine_bench", "Runs the benchmark workload on commands from stdin.");
  parser.positional("MODEL_DIR", "Hugging Face model folder", &options.model_dir);
  options.declare(parser);
  bool limits_only = false;
  std::string plans;
  std::uint32_t max_batch = workload_limits::max_batch;
  std::uint32_t max_tokens = workload_limits::max_tokens;
  parser.number("batch", "sequences at once that the KV cache has room for", &max_batch, 1, 1024);
  parser.number("tokens", "tokens of each of them", &max_tokens, 16, 1U << 20U);
  parser.toggle("limits-only", "load nothing: answer every line with the machine's limits", &limits_only);
  parser.text("plans", "DIR", "load nothing: write plans that force each kernel into DIR, and end", &plans);
  try {
    if (parser.parse({argv + 1, argv + argc}) == option_parser::outcome::help)
      return 0;
    if (limits_only)
      return serve_limits(options.num_threads());
    if (!plans.empty()) {
      write_plans(options, plans);
      return 0;
    }
    const auto begin = std::chrono::steady_clock::now();
    own_engine engine(options, max_batch, max_tokens);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::printf("{\"ready\": true, \"engine\": \"%s\", \"load_seconds\": %.3f, \"weight_bytes\": %zu}\n",
                engine.description().c_str(), seconds, engine.num_bytes());
    std::fflush(stdout);
    return serve_workload(engine);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "engine_bench: %s\n", error.what());
    return 1;
  }
}
