#include <iostream>
#include <iterator>

#include "services/gateway/text/tokenizer.hpp"
#include "services/options/model_folder.hpp"
#include "services/options/option_parser.hpp"
#include "services/troupe/commands.hpp"

namespace troupe {

int tokenize_command(const std::vector<std::string>& arguments) {
  std::string model_dir;
  std::string prompt;
  bool special = true;
  option_parser parser("troupe tokenize",
                       "Prints the token ids of a text, one a line with the text it stands for.");
  declare_model_folder(parser, &model_dir);
  parser.text("text", "TEXT", "text to tokenize; default: standard input", &prompt);
  parser.toggle("special-tokens", "add the special tokens that the model expects around a text", &special);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  auto tokenizer = text::tokenizer::load(model_dir);
  if (prompt.empty())
    prompt.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  for (std::int32_t id : tokenizer->encode(prompt, special))
    std::cout << id << '\t' << tokenizer->id_to_token(id) << '\n';
  return 0;
}

} // namespace troupe
