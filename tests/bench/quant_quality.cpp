// What quantization costs in quality: perplexity on the held-out texts in every mode, and with the experts as
// llama.cpp's Q4_0 would have them. Prints a Markdown table.
//
//   quant_quality MODEL_DIR [--heldout DIR] [--records N] [--threads N]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kernels/model/local_forward.hpp"
#include "kernels/model/required_tensors.hpp"
#include "kernels/model/weights.hpp"
#include "kernels/sampling.hpp"
#include "kernels/self_test.hpp"
#include "services/gateway/text/tokenizer.hpp"
#include "services/options/option_parser.hpp"

namespace {

namespace fs = std::filesystem;
using namespace troupe;
using model::dense_quant;
using model::expert_quant;

constexpr auto rows_int8 = kernels::row_quant::int8;

/// llama.cpp's Q4_0 (quantize_row_q4_0_ref): per 32 weights d = max / −8 as FP16, q = ⌊w / d + 8.5⌋ − 8 up to
/// 7.
void round_to_q4_0(std::span<float> weights) {
  for (std::size_t begin = 0; begin < weights.size(); begin += 32) {
    const auto block = weights.subspan(begin, std::min<std::size_t>(32, weights.size() - begin));
    float max = 0.0F;
    for (const float weight : block)
      if (std::abs(weight) > std::abs(max))
        max = weight;
    const float d = max / -8.0F;
    // FP16: 11 significant bits. These scales are far from its limits.
    int exponent = 0;
    const float fraction = std::frexp(d, &exponent);
    const float stored = std::ldexp(std::nearbyint(std::ldexp(fraction, 11)), exponent - 11);
    const float inverse = d == 0.0F ? 0.0F : 1.0F / d;
    for (float& weight : block)
      weight = (std::min(15.0F, std::floor(weight * inverse + 8.5F)) - 8.0F) * stored;
  }
}

/// A checkpoint whose experts (and dense side, if requested) were rounded to Q4_0; products are plain BF16
/// ones.
class q4_0_source final : public model::cpu_weights {
 public:
  explicit q4_0_source(std::shared_ptr<const model::checkpoint> weights, const model::model_config& config,
                       kernels::dtype type, bool dense)
      : cpu_weights(config, type, {}),
        weights_(weights),
        plain_(std::move(weights), config, type),
        dense_(dense) {}

  std::string fingerprint() const override { return plain_.fingerprint(); }

  std::string description() const override { return "Q4_0"; }

  std::vector<float> floats(const model::tensor_requirement& tensor) const override {
    return plain_.floats(tensor);
  }

  kernels::packed_matrix matrix(const model::matrix_ref& ref) const override {
    if (ref.storage != model::matrix_storage::quantizable || !dense_)
      return plain_.matrix(ref);
    std::vector<float> values;
    for (const auto& part : ref.parts) {
      const auto some = rounded(part.name);
      values.insert(values.end(), some.begin(), some.end());
    }
    auto result = kernels::packed_matrix::pack(kernels::format_for(type()),
                                               kernels::view_of(values.data(), ref.outputs(), ref.inputs()));
    finish(result);
    return result;
  }

  kernels::expert_weights mlp(const model::mlp_ref& ref) const override { return plain_.mlp(ref); }

  model::embedding_rows embeddings() const override { return plain_.embeddings(); }

  kernels::expert_weights expert(std::size_t layer, std::size_t expert) const override {
    const auto names = model::expert_tensors(config(), layer, expert);
    const auto hidden = config().hidden;
    const auto ffn = config().layers[layer].moe()->intermediate;
    const auto gate = rounded(names.gate.name);
    const auto up = rounded(names.up->name);
    const auto down = rounded(names.down.name);
    const auto format = kernels::format_for(type());
    kernels::expert_weights result;
    result.gate_up = kernels::packed_matrix::pack_gate_up(format, kernels::view_of(gate.data(), ffn, hidden),
                                                          kernels::view_of(up.data(), ffn, hidden));
    result.down = kernels::packed_matrix::pack(format, kernels::view_of(down.data(), hidden, ffn));
    finish(result, names, {});
    return result;
  }

  void forget(std::size_t, std::size_t) const noexcept override {}

 private:
  std::vector<float> rounded(const std::string& name) const {
    auto values = model::to_floats(weights_->at(name));
    const auto cols = weights_->at(name).shape.back();
    for (std::size_t i = 0; i < values.size(); i += cols)
      round_to_q4_0(std::span(values).subspan(i, cols));
    return values;
  }

  std::shared_ptr<const model::checkpoint> weights_;
  model::checkpoint_source plain_;
  bool dense_;
};

/// The weights that are rounded to Q4_0.
enum class q4_0 : std::uint8_t { none, experts, all };

struct mode {
  std::string name;
  q4_0 compared = q4_0::none;
  model::quantization quant;
  std::optional<kernels::dtype> kv_type{}; // nothing: the model's
};

constexpr auto no_dense = dense_quant::none;
constexpr auto dense_int4 = dense_quant::int4_group32;

const mode modes[] = {
    {"none", q4_0::none, {}},
    {"experts int8", q4_0::none, {expert_quant::int8, no_dense, {}}},
    {"experts int8, rows int8", q4_0::none, {expert_quant::int8, no_dense, rows_int8}},
    {"experts Q4_0 (llama.cpp, for comparison)", q4_0::experts, {}},
    {"experts int4, groups of 32", q4_0::none, {expert_quant::int4_group32, no_dense, {}}},
    {"experts int4, groups of 32, rows int8", q4_0::none, {expert_quant::int4_group32, no_dense, rows_int8}},
    {"experts int4, groups of 64", q4_0::none, {expert_quant::int4_group64, no_dense, {}}},
    {"experts int4, per channel", q4_0::none, {expert_quant::int4_channel, no_dense, {}}},
    {"dense int8", q4_0::none, {expert_quant::none, dense_quant::int8, {}}},
    {"experts and dense int8", q4_0::none, {expert_quant::int8, dense_quant::int8, {}}},
    {"experts and dense int8, rows int8", q4_0::none, {expert_quant::int8, dense_quant::int8, rows_int8}},
    {"experts int4, dense int8, rows int8",
     q4_0::none,
     {expert_quant::int4_group32, dense_quant::int8, rows_int8}},
    {"experts and dense Q4_0 (llama.cpp, for comparison)", q4_0::all, {}},
    {"experts and dense int4", q4_0::none, {expert_quant::int4_group32, dense_int4, {}}},
    {"experts and dense int4, rows int8", q4_0::none, {expert_quant::int4_group32, dense_int4, rows_int8}},
    {"KV cache int8", q4_0::none, {}, kernels::dtype::int8},
    {"experts and dense int8, rows int8, KV cache int8",
     q4_0::none,
     {expert_quant::int8, dense_quant::int8, rows_int8},
     kernels::dtype::int8},
    {"experts and dense int4, rows int8, KV cache int8",
     q4_0::none,
     {expert_quant::int4_group32, dense_int4, rows_int8},
     kernels::dtype::int8},
};

struct domain {
  std::string name;
  std::vector<std::vector<std::uint32_t>> texts;
};

std::vector<domain> read_domains(const fs::path& folder, const text::tokenizer& tokenizer,
                                 std::size_t records, std::size_t context) {
  std::vector<domain> domains;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".jsonl")
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    domain d{file.stem().string(), {}};
    std::ifstream in(file);
    for (std::string line; std::getline(in, line) && (records == 0 || d.texts.size() < records);) {
      const auto ids = tokenizer.encode(nlohmann::json::parse(line).at("text").get<std::string>(),
                                        /*add_special_tokens=*/true);
      d.texts.emplace_back(ids.begin(),
                           ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), context)));
    }
    domains.push_back(std::move(d));
  }
  return domains;
}

struct score {
  double nats = 0.0;
  std::size_t tokens = 0;

  double perplexity() const { return std::exp(nats / static_cast<double>(tokens)); }
};

score score_text(kernels::context& ctx, model::local_forward& forward, std::span<const std::uint32_t> ids) {
  if (ids.size() < 2)
    return {};
  forward.reset();
  const std::size_t scored = ids.size() - 1;
  const auto logits = forward.append(ids.first(scored));
  std::vector<kernels::logprob_row> rows(scored);
  for (std::size_t i = 0; i < scored; ++i)
    rows[i] = {i, ids[i + 1], 0, {}};
  std::vector<kernels::sampled_token> out(scored);
  kernels::token_logprobs(ctx, kernels::view_of(logits.data(), scored, forward.config().vocab_size), rows,
                          out);
  score s{0.0, scored};
  for (const auto& token : out)
    s.nats -= static_cast<double>(token.logprob);
  return s;
}

int run(const std::vector<std::string>& arguments) {
  std::string folder;
  std::string heldout = "load/heldout";
  std::uint32_t records = 0;
  std::uint32_t threads = 0;
  option_parser parser("quant_quality", "Measures perplexity in every quantization mode.");
  parser.positional("MODEL_DIR", "Hugging Face model folder", &folder);
  parser.text("heldout", "DIR", "folder of <domain>.jsonl files", &heldout);
  parser.number("records", "texts of each domain; 0: all", &records, 0, 1U << 20);
  parser.number("threads", "compute threads; 0: one per processor", &threads, 0, 1024);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  const auto config = model::load_config(folder);
  auto weights = std::make_shared<model::checkpoint>(model::checkpoint::open(folder));
  weights->match(config);
  const auto type = model::resolve_dtype(model::dtype_choice::automatic, *weights, config);
  const auto tokenizer = text::tokenizer::load(folder);
  const auto domains = read_domains(heldout, *tokenizer, records, config.max_context);
  kernels::thread_pool pool({.threads = threads});
  kernels::context ctx(pool, kernels::select_isa().chosen);

  std::printf("| mode |");
  for (const auto& d : domains)
    std::printf(" %s |", d.name.c_str());
  std::printf(" all | change |\n|---|");
  for (std::size_t i = 0; i < domains.size() + 2; ++i)
    std::printf("---|");
  std::printf("\n");
  double plain = 0.0;
  for (const auto& m : modes) {
    std::shared_ptr<const model::cpu_weights> source;
    if (m.compared != q4_0::none)
      source = std::make_shared<const q4_0_source>(weights, config, type, m.compared == q4_0::all);
    else
      source = std::make_shared<const model::checkpoint_source>(weights, config, type, m.quant);
    model::local_forward forward(ctx, source, {.max_positions = config.max_context, .kv_type = m.kv_type});
    std::printf("| %s |", m.name.c_str());
    score all;
    for (const auto& d : domains) {
      score s;
      for (const auto& ids : d.texts) {
        const auto one = score_text(ctx, forward, ids);
        s.nats += one.nats;
        s.tokens += one.tokens;
      }
      all.nats += s.nats;
      all.tokens += s.tokens;
      std::printf(" %.4f |", s.perplexity());
      std::fflush(stdout);
    }
    if (plain == 0.0)
      plain = all.perplexity();
    std::printf(" %.4f | %+.3f %% |\n", all.perplexity(), 100.0 * (all.perplexity() / plain - 1.0));
    std::fflush(stdout);
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quant_quality: %s\n", error.what());
    return 1;
  }
}
