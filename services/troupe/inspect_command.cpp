#include <filesystem>
#include <iostream>
#include <stdexcept>

#include "services/options/model_folder.hpp"
#include "services/options/option_parser.hpp"
#include "services/troupe/commands.hpp"
#include "services/troupe/inspection.hpp"
#include "services/troupe/model_table.hpp"

namespace troupe {

namespace {

/// A config.json by itself is a model, too.
std::string read_model(const std::string& given, const std::string& source) {
  std::error_code none;
  const std::filesystem::path path(given);
  return path.extension() == ".json" && std::filesystem::is_regular_file(path, none)
             ? given
             : read_model_folder(given, source);
}

} // namespace

int inspect_command(const std::vector<std::string>& arguments) {
  inspect_options options;
  bool as_json = false;
  option_parser parser("troupe inspect",
                       "Says what a model is, what it needs, and whether it loads, without loading it. The "
                       "folder needs no weights; of those that are there only headers are read.");
  parser.positional("MODEL_DIR|FILE",
                    "Hugging Face model folder, the id of a model in Hugging Face's cache, or a config.json",
                    &options.model.model_dir, read_model);
  parser.toggle("json", "print it as JSON", &as_json);
  parser.number("expert-workers", "expert workers among which the experts are divided",
                &options.expert_workers, 1, 4096);
  options.model.declare(parser);
  options.attention.declare(parser);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  const auto page = inspect(options);
  std::cout << (as_json ? pages::encode(page) + "\n" : model_table(page)) << std::flush;
  if (page.error && !as_json)
    throw std::runtime_error(*page.error);
  return page.error ? 1 : 0;
}

} // namespace troupe
