#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include <unistd.h>

#include "kernels/model/open_weights.hpp"
#include "kernels/model/packed_format.hpp"
#include "services/log/process_log.hpp"
#include "services/model/model_source.hpp"
#include "services/options/model_folder.hpp"
#include "services/startup/stop_signal.hpp"
#include "services/troupe/commands.hpp"

namespace troupe {

namespace {

namespace fs = std::filesystem;

/// A new folder under a temporary name, removed unless it is given its own.
class pending_folder {
 public:
  explicit pending_folder(fs::path target)
      : target_(std::move(target)), path_(target_.string() + "." + std::to_string(getpid()) + ".tmp") {
    // A killed process leaves its folder, and may have had our number: a container's processes count from 1.
    fs::remove_all(path_);
    fs::create_directories(path_);
  }

  ~pending_folder() {
    std::error_code ignored;
    if (!committed_)
      fs::remove_all(path_, ignored);
  }

  pending_folder(const pending_folder&) = delete;
  pending_folder& operator=(const pending_folder&) = delete;

  const fs::path& path() const { return path_; }

  void commit() {
    fs::rename(path_, target_);
    committed_ = true;
  }

 private:
  fs::path target_;
  fs::path path_;
  bool committed_ = false;
};

/// Whether a file of a model folder is anything but weights: configurations, tokenizer, templates, texts.
bool is_companion(const fs::path& file) {
  constexpr std::array<std::string_view, 6> endings{".json", ".jinja", ".txt", ".model", ".tiktoken", ".md"};
  std::string name = file.filename().string();
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); })
         && !name.ends_with(".index.json");
}

void require_new(const fs::path& out) {
  if (fs::exists(out) && !(fs::is_directory(out) && fs::is_empty(out)))
    throw option_error("--out: " + out.string() + " is there already and not an empty folder");
}

} // namespace

int quantize_command(const std::vector<std::string>& arguments) {
  model_options model;
  std::string to;
  std::string out;
  option_parser parser("troupe quantize",
                       "Writes a model folder whose weights are quantized, packed and ready to be mapped.");
  declare_model_folder(parser, &model.model_dir);
  parser.text("to", "int8|int4", "quantization of the experts (required)", &to);
  parser.text("out", "DIR", "folder to write (required)", &out);
  parser.choice("int4-group", {"32", "64", "channel"}, "number of weights that share a scale with --to int4",
                &model.int4_group);
  model.dense_quant = "none";
  parser.choice("dense-quant", {"none", "int8", "int4"},
                "quantization of attention, LM head, dense and shared MLPs (embeddings: int8)",
                &model.dense_quant);
  parser.choice("dtype", {"auto", "float32", "bfloat16"}, "data type of the weights that are not quantized",
                &model.dtype);
  model.device = "cpu";         // whose layout is written
  model.weight_coding = "none"; // a file for any machine
  model.kernel_plan = "default";
  parser.choice("weight-coding", {"none", "exponents"},
                "storage of bfloat16 matrices; exponents: compress exponents losslessly (25 % less memory), "
                "faster with AMX and with AVX-512 BF16 on AMD processors, slower elsewhere",
                &model.weight_coding);
  parser.number("threads", "threads to quantize with; 0: one per processor, within the cgroup's CPU quota",
                &model.threads, 0, 1024);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  if (to != "int8" && to != "int4")
    throw option_error("--to: '" + to + "' is not one of int8|int4");
  if (out.empty())
    throw option_error("--out: a folder is needed");
  fs::path target = fs::absolute(out).lexically_normal();
  if (!target.has_filename())
    target = target.parent_path();
  require_new(target);
  if (fs::exists(fs::path(model.model_dir) / model::packed_file_name))
    throw option_error("MODEL_DIR: " + model.model_dir + " holds packed weights; quantize the original");
  model.expert_quant = to;
  stop_signal stop; // so that nothing is left behind
  process_log log("troupe-quantize");
  model_source source = open_model(model, plan_use::opens);
  log_ignored(source, log);
  pending_folder folder(target);
  for (const auto& entry : fs::directory_iterator(model.model_dir))
    if (entry.is_regular_file() && is_companion(entry.path()))
      fs::copy_file(entry.path(), folder.path() / entry.path().filename());
  // What the weights have told, an output head of their own, stands in the packed folder's configuration.
  if (const auto config = folder.path() / "config.json"; !source.config.tie_word_embeddings) {
    std::ostringstream text;
    text << std::ifstream(config).rdbuf();
    static const std::regex tied(R"(("tie_word_embeddings"\s*:\s*)true)");
    std::ofstream(config, std::ios::trunc) << std::regex_replace(text.str(), tied, "$1false");
  }
  fs::path file = folder.path() / model::packed_file_name;
  try {
    model::write_packed(*source.cpu_weights, file, model.num_threads(),
                        packing_progress(std::make_shared<load_progress>(log)));
  } catch (const interrupted&) {
    throw std::runtime_error("stopped before the weights were packed; nothing is left of them");
  }
  uintmax_t size = fs::file_size(file);
  folder.commit();
  log.line("quantized", source.weights->quant().stored_name() + ", " + std::to_string(size >> 20) + " MiB in "
                            + (target / model::packed_file_name).string());
  return 0;
}

} // namespace troupe
