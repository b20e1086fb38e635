#include "services/options/model_folder.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

namespace troupe {

namespace {

namespace fs = std::filesystem;

constexpr const char* folder_needs = "a folder with config.json, tokenizer.json and *.safetensors";

fs::path hub_cache() {
  if (const char* cache = std::getenv("HF_HUB_CACHE"); cache != nullptr && *cache != '\0')
    return cache;
  if (const char* home = std::getenv("HF_HOME"); home != nullptr && *home != '\0')
    return fs::path(home) / "hub";
  const char* home = std::getenv("HOME");
  return fs::path(home == nullptr ? "" : home) / ".cache" / "huggingface" / "hub";
}

/// Two words with a slash between them, as a repository is called.
bool is_id(const std::string& given) {
  const auto slash = given.find('/');
  return slash != std::string::npos && slash > 0 && slash + 1 < given.size()
         && given.find('/', slash + 1) == std::string::npos && given.front() != '.' && given.front() != '~'
         && std::all_of(given.begin(), given.end(), [](char c) {
              return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
                     || std::string_view("/._-").find(c) != std::string_view::npos;
            });
}

/// What `refs/main` names, or else the snapshot that was written last.
std::optional<fs::path> newest_snapshot(const fs::path& repository) {
  std::error_code none;
  std::string revision;
  if (std::ifstream main(repository / "refs" / "main"); std::getline(main, revision)) {
    if (auto named = repository / "snapshots" / revision; fs::is_directory(named, none))
      return named;
  }
  std::optional<fs::path> newest;
  fs::file_time_type when{};
  for (const auto& entry : fs::directory_iterator(repository / "snapshots", none)) {
    if (const auto written = entry.last_write_time(none);
        entry.is_directory(none) && (!newest || written > when)) {
      newest = entry.path();
      when = written;
    }
  }
  return newest;
}

bool has_gguf(const fs::path& folder) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.path().extension() == ".gguf")
      return true;
  return false;
}

} // namespace

std::string read_model_folder(const std::string& given, const std::string& source) {
  std::error_code none;
  const fs::path path(given);
  if (path.extension() == ".gguf" || (has_gguf(path) && !fs::exists(path / "config.json", none))) {
    throw option_error(source + ": '" + given
                       + "' holds GGUF, which is not loaded: give the repository that it "
                         "was made of, as Hugging Face has it ("
                       + folder_needs + "); `hf download ORG/NAME` gets one");
  }
  if (fs::is_directory(path, none))
    return given;
  if (!fs::exists(path, none) && is_id(given)) {
    auto name = "models--" + given;
    name.replace(name.find('/'), 1, "--");
    if (const auto found = newest_snapshot(hub_cache() / name))
      return found->string();
    throw option_error(source + ": there is no folder '" + given + "', and " + hub_cache().string()
                       + " (HF_HUB_CACHE) has no model of that id: `hf download " + given
                       + "` gets it (`pip install huggingface_hub`), and then the same command serves it");
  }
  throw option_error(source + ": '" + given + "' is no folder; a model is " + folder_needs
                     + ", or the id of one in Hugging Face's cache, such as Qwen/Qwen3-30B-A3B");
}

void declare_model_folder(option_parser& parser, std::string* target) {
  parser.positional("MODEL_DIR", "Hugging Face model folder, or the id of a model in Hugging Face's cache",
                    target, read_model_folder);
}

} // namespace troupe
