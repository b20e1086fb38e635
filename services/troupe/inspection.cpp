#include "services/troupe/inspection.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "kernels/kv_cache.hpp"
#include "kernels/model/checkpoint.hpp"
#include "kernels/model/error.hpp"
#include "kernels/model/generation_config.hpp"
#include "kernels/model/kv_layers.hpp"
#include "kernels/model/load_options.hpp"
#include "kernels/model/numerics.hpp"
#include "kernels/model/open_weights.hpp"
#include "kernels/model/packed_source.hpp"
#include "kernels/model/parameters.hpp"
#include "kernels/model/peer_weights.hpp"
#include "services/client/terminal_text.hpp"
#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/tokenizer.hpp"
#include "services/model/model_source.hpp"
#include "services/troupe/memory_needs.hpp"

namespace troupe {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t block_tokens = 16; // bytes of a token do not depend on it

pages::attention_part attention_of(const model::layer_program& layer, kernels::dtype kv_type) {
  pages::attention_part part;
  part.layers = 1;
  part.kv_bytes_per_token = model::kv_layer(layer, kv_type).bytes_per_token();
  if (const auto* latent = layer.find<model::attend_latent_op>()) {
    part.kind = "latent";
    part.heads = latent->num_heads;
    part.kv_heads = 1;
    part.head_dim = latent->head_dim();
    part.latent_dim = latent->latent_dim;
    part.value_dim = latent->value_dim;
    return part;
  }
  const auto& attend = *layer.find<model::attend_op>();
  part.kind = "grouped";
  part.heads = attend.num_heads;
  part.kv_heads = attend.num_kv_heads;
  part.head_dim = attend.head_dim;
  if (attend.window != 0)
    part.window = attend.window;
  if (attend.chunk != 0)
    part.chunk = attend.chunk;
  part.sinks = attend.sinks.has_value();
  part.positions = attend.rotation.has_value();
  return part;
}

pages::experts_part experts_of(const model::layer_program& layer) {
  const auto& moe = *layer.moe();
  const auto* shared = layer.find<model::feed_forward_op>();
  pages::experts_part part;
  part.layers = 1;
  part.experts = moe.num_experts;
  part.per_token = moe.num_topk;
  part.intermediate = moe.intermediate;
  part.shared_intermediate = shared == nullptr ? 0 : shared->mlp.intermediate();
  return part;
}

/// Adds a layer's part to that of the layers that are like it.
template <class Part, class Same>
void add(const Part& part, std::vector<Part>& parts, const Same& add_if_same) {
  if (std::none_of(parts.begin(), parts.end(), [&](Part& other) { return add_if_same(other, part); }))
    parts.push_back(part);
}

bool add_attention(pages::attention_part& to, const pages::attention_part& part) {
  const auto kind = [](const pages::attention_part& p) {
    return std::tie(p.kind, p.heads, p.kv_heads, p.head_dim, p.latent_dim, p.value_dim, p.window, p.chunk,
                    p.sinks, p.positions);
  };
  if (kind(to) != kind(part))
    return false;
  to.layers += part.layers;
  to.kv_bytes_per_token += part.kv_bytes_per_token;
  return true;
}

bool add_experts(pages::experts_part& to, const pages::experts_part& part) {
  const auto kind = [](const pages::experts_part& p) {
    return std::tie(p.experts, p.per_token, p.intermediate, p.shared_intermediate);
  };
  if (kind(to) != kind(part))
    return false;
  to.layers += part.layers;
  return true;
}

pages::program_part program_of(const model::model_config& config, kernels::dtype kv_type) {
  pages::program_part program;
  program.architecture = config.architecture;
  program.layers = config.num_layers();
  program.hidden = config.hidden;
  program.vocabulary = config.vocab_size;
  program.context = config.max_context;
  program.tied_embeddings = config.tie_word_embeddings;
  for (const auto& layer : config.layers) {
    add(attention_of(layer, kv_type), program.attention, add_attention);
    if (layer.moe() == nullptr)
      ++program.dense_layers;
    else
      add(experts_of(layer), program.experts, add_experts);
  }
  const auto parameters = model::count_parameters(config);
  program.parameters = parameters.all;
  program.active_parameters = parameters.active;
  program.bfloat16_bytes = kernels::bytes_of(kernels::dtype::bf16, parameters.all);
  return program;
}

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// The configuration as it would be without quantized weights; nothing where that is not all that is wrong.
std::optional<model::model_config> config_of_original(const fs::path& file) {
  auto json = nlohmann::json::parse(text_of(file), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.erase("quantization_config") == 0)
    return std::nullopt;
  try {
    return model::parse_config(json.dump(), file.string());
  } catch (const model::model_error&) {
    return std::nullopt;
  }
}

class inspection {
 public:
  explicit inspection(const inspect_options& options)
      : options_(options), given_(options.model.model_dir), is_file_(!fs::is_directory(given_)) {
    page_.model = given_.string();
    page_.weights = "none";
  }

  pages::model_page run() {
    options_.model.check();
    try {
      read();
      page_.loads = page_.weights != "none";
    } catch (const std::exception& problem) {
      page_.error = problem.what();
    }
    return std::move(page_);
  }

 private:
  void read() {
    const auto file = is_file_ ? given_ : given_ / "config.json";
    try {
      config_ = is_file_ ? model::parse_config(text_of(file), file.string()) : model::load_config(given_);
    } catch (const model::model_error&) {
      describe_original(file);
      throw;
    }
    describe();
    if (is_file_)
      return;
    const auto generation = model::load_generation_config(given_, config_);
    page_.end_tokens = generation.eos_token_ids;
    page_.ignored.insert(page_.ignored.end(), generation.ignored.begin(), generation.ignored.end());
    open_weights();
    read_tokenizer();
  }

  /// Describes a model that is refused for its quantized weights alone.
  void describe_original(const fs::path& file) {
    auto original = config_of_original(file);
    if (!original)
      return;
    config_ = *std::move(original);
    try {
      describe();
    } catch (const std::exception&) { // the first problem is the one to tell
    }
  }

  /// What needs no weights.
  void describe() {
    if (options_.model.kv_cache_dtype == "int8")
      model::check_kv_type(config_, kernels::dtype::int8);
    page_.ignored = config_.ignored;
    page_.end_tokens = config_.eos_token_ids;
    const auto type = options_.model.dtype == "float32" ? kernels::dtype::f32 : kernels::dtype::bf16;
    const auto quant = quantization_of(options_.model);
    page_.program = program_of(config_, kv_type(type));
    add_needs(model::peer_weights(config_, type, quant, std::string{}, given_));
  }

  void open_weights() {
    if (!model::has_weights(given_))
      return;
    if (fs::exists(given_ / model::packed_file_name)) {
      const auto packed = model::open_weights(given_, config_, open_options_of(options_.model));
      page_.weights = packed->description();
      add_needs(*packed);
      return;
    }
    auto tensors = std::make_shared<model::checkpoint>(model::checkpoint::open(given_));
    page_.weights = counted(tensors->num_tensors(), "tensor");
    tensors->match(config_);
    page_.unused_tensors = tensors->unused();
    const auto open = open_options_of(options_.model);
    const auto type = model::resolve_dtype(open.dtype, *tensors, config_);
    add_needs(model::checkpoint_source(std::move(tensors), config_, type, open.quant));
  }

  kernels::dtype kv_type(kernels::dtype type) const {
    return options_.model.kv_cache_dtype == "int8" ? kernels::dtype::int8 : type;
  }

  void add_needs(const model::cpu_weights& weights) {
    const auto kv = kernels::kv_cache(model::kv_layers(config_, kv_type(weights.type()), block_tokens), 0);
    const auto positions = model::positions_of(config_, {.max_positions = options_.model.max_model_len});
    const auto needs = memory_needs_of(weights, positions, options_.attention, options_.expert_workers);
    page_.program = program_of(config_, kv_type(weights.type()));
    auto& part = page_.needs.emplace();
    part.numerics_class = model::numerics_class(weights.type(), weights.quant(), kv_type(weights.type()));
    part.attention_weights = needs.attention_weights;
    part.expert_weights = needs.expert_weights;
    part.kv_bytes_per_token = kv.config().bytes_per_token();
    part.kv_cache = needs.kv_cache;
    part.one_machine = needs.one_machine;
    part.attention_worker = needs.attention_worker;
    part.expert_workers = options_.expert_workers;
    part.expert_worker = needs.expert_worker;
    if (options_.expert_workers > 1)
      part.expert_worker_of_fewer =
          memory_needs_of(weights, positions, options_.attention, options_.expert_workers - 1).expert_worker;
  }

  /// A folder without weights need not have one.
  void read_tokenizer() {
    const std::array names = {"tokenizer.json", "tiktoken.model", "hy.tiktoken", "tokenizer.model"};
    const auto* name =
        std::find_if(names.begin(), names.end(), [&](const char* file) { return fs::exists(given_ / file); });
    if (name == names.end() && page_.weights == "none")
      return;
    const auto tokenizer = text::tokenizer::load(given_);
    page_.tokenizer = (name == names.end() ? std::string{"tokenizer"} : std::string{*name}) + ", "
                      + counted(static_cast<std::size_t>(tokenizer->vocab_size()), "token");
  }

  const inspect_options& options_;
  fs::path given_;
  bool is_file_;
  pages::model_page page_;
  model::model_config config_;
};

} // namespace

pages::model_page inspect(const inspect_options& options) {
  return inspection(options).run();
}

} // namespace troupe
