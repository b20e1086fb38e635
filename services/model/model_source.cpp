#include "services/model/model_source.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "kernels/model/fingerprint_store.hpp"
#include "kernels/model/load_options.hpp"
#include "kernels/model/numerics.hpp"
#include "kernels/model/open_weights.hpp"
#include "kernels/model/output_head.hpp"
#include "kernels/model/partial_file.hpp"
#include "kernels/model/peer_weights.hpp"
#include "kernels/model/plan_store.hpp"
#include "services/model/compute.hpp"
#include "services/options/device_choice.hpp"
#include "services/startup/stop_signal.hpp"

namespace troupe {

namespace {

model::dtype_choice dtype_choice_of(const std::string& text) {
  if (text == "float32")
    return model::dtype_choice::float32;
  return text == "bfloat16" ? model::dtype_choice::bfloat16 : model::dtype_choice::automatic;
}

/// "WHAT: a, b and 3 more"; the names come from files, so what is no printable ASCII is shown as '?'.
void add_names(const char* what, const std::vector<std::string>& names, std::string& out) {
  constexpr std::size_t shown = 8;
  constexpr std::size_t longest = 100;
  if (names.empty())
    return;
  out += (out.empty() ? "" : "; ") + std::string{what} + ": ";
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i) {
    out += i == 0 ? "" : ", ";
    for (char c : names[i].substr(0, longest))
      out += c >= ' ' && c <= '~' ? c : '?';
  }
  if (names.size() > shown)
    out += " and " + std::to_string(names.size() - shown) + " more";
}

void take_device(const chosen_device& chosen, model_source& source) {
  source.device = chosen.device;
  source.gpu_refused = chosen.gpu_refused;
}

/// The checkpoint for a GPU; where there are no kernels for the model, and the GPU was not asked for by name,
/// the device becomes the CPU.
/// @throws option_error where somebody did
void open_for_device(const model_options& options, const model::open_options& open, model_source& source) {
  auto tensors = model::open_tensors(options.model_dir, source.config, open);
  if (auto problem = model::cuda_model_problem(source.config, tensors->type(), tensors->quant())) {
    if (parse_device(options.device).kind != device_choice::kind_type::automatic)
      throw option_error("--device: '" + options.device + "': " + *problem);
    source.gpu_refused = *problem;
    source.device = {};
    return;
  }
  source.tensors = std::move(tensors);
  source.weights = source.tensors;
}

/// @throws option_error where a flag asks for something else than the cluster has
void check_asked(const model_options& options, const model::class_parts& has,
                 const std::string& numerics_class) {
  auto asked = quantization_of(options);
  const char* flag = nullptr;
  if (options.dtype != "auto"
      && has.type != (options.dtype == "float32" ? kernels::dtype::f32 : kernels::dtype::bf16))
    flag = "--dtype";
  else if (options.expert_quant != "auto" && asked.experts != has.quant.experts)
    flag = "--expert-quant";
  else if (options.dense_quant != "auto" && asked.dense != has.quant.dense)
    flag = "--dense-quant";
  if (flag != nullptr) {
    throw option_error(std::string{flag}
                       + ": weights that come from other workers are as the cluster has them: '"
                       + numerics_class + "'");
  }
}

void give_up_when_told() {
  if (stop_signal::is_pending())
    throw interrupted("stopped before the weights were packed; the next start goes on there");
}

/// Of the file that another process writes: how far it is.
std::uint64_t bytes_of_part(const std::filesystem::path& file) {
  std::error_code missing;
  const auto bytes = std::filesystem::file_size(file.string() + model::partial_ending, missing);
  return missing ? 0 : bytes;
}

} // namespace

model::pack_progress packing_progress(std::shared_ptr<load_progress> load) {
  return [load = std::move(load)](const model::pack_state& now) {
    give_up_when_told();
    load->begin("packing-experts", "packing weights, " + std::to_string(now.num_experts) + " experts");
    load->reached(now.bytes, now.total_bytes);
  };
}

model::quantization quantization_of(const model_options& options) {
  model::quantization quant;
  if (options.expert_quant == "int8") {
    quant.experts = model::expert_quant::int8;
  } else if (options.expert_quant == "int4") {
    quant.experts = options.int4_group == "32"   ? model::expert_quant::int4_group32
                    : options.int4_group == "64" ? model::expert_quant::int4_group64
                                                 : model::expert_quant::int4_channel;
  }
  if (options.dense_quant == "int8")
    quant.dense = model::dense_quant::int8;
  else if (options.dense_quant == "int4")
    quant.dense = model::dense_quant::int4_group32;
  if (options.activation_quant == "int8")
    quant.rows = kernels::row_quant::int8;
  return quant;
}

model::open_options open_options_of(const model_options& options) {
  return {.dtype = dtype_choice_of(options.dtype),
          .quant = quantization_of(options),
          .experts_as_packed = options.expert_quant == "auto",
          .dense_as_packed = options.dense_quant == "auto"};
}

model::weight_coding coding_of(const model_options& options, const kernels::kernel_plan& plan) {
  bool coded = options.weight_coding == "auto" ? plan.coded_weights : options.weight_coding == "exponents";
  return coded ? model::weight_coding::exponents : model::weight_coding::none;
}

kernel_demand demand_of(const model_options& options, const model::model_config& config,
                        const model::weight_source& weights, bool is_packed) {
  const auto& quant = weights.quant();
  const bool has_bf16 =
      weights.type() == kernels::dtype::bf16
      && (quant.experts == model::expert_quant::none || quant.dense == model::dense_quant::none);
  return {.config = config,
          .type = weights.type(),
          .quant = quant,
          .coding = options.weight_coding == "exponents" ? model::weight_coding::exponents
                                                         : model::weight_coding::none,
          .may_code = has_bf16 && (is_packed || options.weight_coding == "auto")};
}

model_source open_model(const model_options& options, plan_use use, std::shared_ptr<load_progress> load) {
  options.check();
  if (!load)
    load = std::make_shared<load_progress>(process_log("weights"));
  model_source source;
  take_device(choose_device(options), source);
  kernels::isa set = choose_isa(options).chosen;
  source.config = model::load_config(options.model_dir);
  if (options.kv_cache_dtype == "int8")
    model::check_kv_type(source.config, kernels::dtype::int8);
  if (model::has_own_output_head(options.model_dir, source.config)) {
    source.config.tie_word_embeddings = false;
    process_log("weights").line(
        "output-head", "config.json ties the output head to the embeddings, and lm_head.weight differs "
                       "from them: it is used");
  }
  source.generation = model::load_generation_config(options.model_dir, source.config);
  const auto choose = [&](const model::weight_source& weights, bool is_packed) {
    source.plan = choose_plan(options, demand_of(options, source.config, weights, is_packed), use,
                              process_log("kernels"));
  };
  auto open = open_options_of(options);
  open.set = set;
  open.choose_coding = [&](const model::tensor_source& tensors) {
    choose(tensors, false);
    return coding_of(options, *source.plan);
  };
  open.memory =
      options.weights_memory == "copied" ? model::weight_memory::copied : model::weight_memory::mapped;
  open.unused_tensors = [&](std::span<const std::string> names) {
    source.unused_tensors.assign(names.begin(), names.end());
  };
  open.fingerprints = options.weights_cache.empty()
                          ? model::user_cache_folder().value_or(std::filesystem::path{})
                          : std::filesystem::path{options.weights_cache};
  open.cache = {.folder = options.weights_cache,
                .threads = options.num_threads(),
                .progress = packing_progress(load),
                .waiting = [load](const std::filesystem::path& file, bool first) {
                  give_up_when_told();
                  if (first) {
                    const std::string what = "another process packs " + file.string();
                    process_log("weights").line("waiting-for-cache", what);
                    load->begin("waiting-for-cache", what);
                  }
                  load->reached(bytes_of_part(file), 0);
                }};
  if (source.device.kind != model::device_kind::cpu)
    open_for_device(options, open, source);
  if (source.device.kind == model::device_kind::cpu) {
    source.cpu_weights = model::open_weights(options.model_dir, source.config, open);
    if (!source.plan)
      choose(*source.cpu_weights, true);
    if (options.weights_memory == "auto" && source.plan->copied_weights) {
      open.memory = model::weight_memory::copied;
      open.choose_coding = [&](const model::tensor_source&) { return coding_of(options, *source.plan); };
      source.cpu_weights = model::open_weights(options.model_dir, source.config, open);
    }
    source.weights = source.cpu_weights;
  }
  load->end();
  source.type = source.weights->type();
  source.fingerprint = source.weights->fingerprint();
  source.kv_type = options.kv_cache_dtype == "int8" ? kernels::dtype::int8 : source.type;
  source.numerics_class =
      model::numerics_class(source.type, source.weights->quant(), source.kv_type, source.device.kind);
  return source;
}

model_source open_model_config(const model_options& options) {
  options.check();
  model_source source;
  source.config = model::load_config(options.model_dir);
  source.generation = model::load_generation_config(options.model_dir, source.config);
  return source;
}

model_source open_model_of_peers(const model_options& options, const std::string& fingerprint,
                                 const std::string& numerics_class) {
  options.check();
  model_source source;
  take_device(choose_device(options), source);
  if (source.device.kind != model::device_kind::cpu) {
    throw option_error(
        "--weights-from: only workers that compute on the CPU take weights from others; choose "
        "--device cpu, or files");
  }
  auto parts = model::parts_of_class(numerics_class);
  if (!parts) {
    throw option_error("--weights-from: the cluster's experts are computed as '" + numerics_class
                       + "', which this program on this machine does not");
  }
  check_asked(options, *parts, numerics_class);
  source.config = model::load_config(options.model_dir);
  source.generation = model::load_generation_config(options.model_dir, source.config);
  source.cpu_weights = std::make_shared<const model::peer_weights>(source.config, parts->type, parts->quant,
                                                                   fingerprint, options.model_dir);
  // Experts arrive coded or plain, as their sender holds them.
  source.plan = choose_plan(options, demand_of(options, source.config, *source.cpu_weights, true),
                            plan_use::computes, process_log("kernels"));
  source.weights = source.cpu_weights;
  source.type = parts->type;
  source.kv_type = parts->kv_type;
  source.fingerprint = fingerprint;
  source.numerics_class = numerics_class;
  return source;
}

std::string ignored_text(const model_source& source) {
  std::string text;
  add_names("config.json", source.config.ignored, text);
  add_names("generation_config.json", source.generation.ignored, text);
  add_names("tensors", source.unused_tensors, text);
  return text;
}

void log_ignored(const model_source& source, const process_log& log) {
  if (auto text = ignored_text(source); !text.empty())
    log.line("model-ignored", text);
}

void log_gpu_refused(const model_source& source, const process_log& log) {
  if (!source.gpu_refused.empty())
    log.line("gpu-refused", source.gpu_refused);
}

model_shape shape_of(const model_source& source) {
  model_shape shape;
  shape.fingerprint = source.fingerprint;
  shape.config_id = model::config_id_of(source.config);
  shape.numerics_class = source.numerics_class;
  shape.vocab_size = static_cast<std::uint32_t>(source.config.vocab_size);
  shape.max_model_len = static_cast<std::uint32_t>(source.config.max_context);
  shape.row_bytes = static_cast<std::uint32_t>(kernels::bytes_of(source.type, source.config.hidden));
  for (const auto& layer : source.config.layers) {
    const auto* moe = layer.moe();
    shape.layer_experts.push_back(moe != nullptr ? static_cast<std::uint32_t>(moe->num_experts) : 0);
    shape.num_topk = std::max(shape.num_topk, moe != nullptr ? static_cast<std::uint32_t>(moe->num_topk) : 0);
  }
  return shape;
}

} // namespace troupe
