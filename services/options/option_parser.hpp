// Flags of a program: from the command line, the environment and a configuration file, in this order of
// strength.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "services/options/command_description.hpp"

namespace troupe {

/// A flag, variable or file with an invalid value; what() names it and the expected form.
struct option_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The version of this build, "0.1.0".
const char* program_version();

/// Collects flags bound to variables, then parses. Every flag `--max-num-seqs` can also be given as the
/// environment variable `TROUPE_MAX_NUM_SEQS` and as the key `"max-num-seqs"` of the JSON object in the file
/// named by `--config`. The values of the variables before parse() are the defaults that `--help` prints.
class option_parser {
 public:
  /// @param program  name in the usage line, e.g. "troupe serve"
  /// @param summary  one sentence for --help
  option_parser(std::string program, std::string summary);

  /// Reads an entry of a list, or an argument. @throws option_error that names `source`
  using entry_reader = std::function<std::string(const std::string& entry, const std::string& source)>;
  /// Declares a required positional argument. @param read  empty: keeps the text
  void positional(std::string name, std::string help, std::string* target, entry_reader read = {});

  void text(std::string name, std::string placeholder, std::string help, std::string* target);
  void choice(std::string name, std::vector<std::string> values, std::string help, std::string* target);
  void number(std::string name, std::string help, std::uint32_t* target, std::uint32_t min,
              std::uint32_t max);
  /// A port to listen on, `any` for a free port (0 in `target`), or 0 for none (empty `target`).
  void port(std::string name, std::string help, std::optional<std::uint16_t>* target);
  void real(std::string name, std::string help, double* target, double min, double max);
  /// Bytes, with an optional suffix K, M, G or T (powers of 1024); the help says so.
  void bytes(std::string name, std::string help, std::uint64_t* target);
  /// A flag that may be repeated. A value is one entry, several entries separated by commas, or a JSON array
  /// of strings; a configuration file may contain the array itself. The strongest source with the flag gives
  /// the whole list.
  void list(std::string name, std::string placeholder, std::string help, std::vector<std::string>* target,
            entry_reader read);
  /// `--name`, `--no-name` or `--name true|false`.
  void toggle(std::string name, std::string help, bool* target);

  enum class outcome { run, help };

  /// Parses and assigns. `--help`, `-h` and `--version` print to stdout and return outcome::help.
  /// @param arguments  without the program's own name
  /// @throws description_answer if the only argument is `describe_word`
  /// @throws option_error for an unknown flag, a bad value, a missing or an extra argument
  outcome parse(const std::vector<std::string>& arguments);

  /// Every declared flag but --config with the value that its variable holds now, as arguments for another
  /// program that has these flags. Empty values are included: the other program's default may be another one.
  std::vector<std::string> words() const;

  /// The text of --help.
  std::string help() const;

  /// The contents of --help, for manual pages and completions.
  command_description describe() const;

  /// Whether there is such a flag, named without dashes.
  bool has(std::string_view name) const { return find(name) != nullptr; }

 private:
  struct option {
    std::string name; ///< without dashes
    std::string placeholder;
    std::string help;
    std::function<void(const std::string& value, const std::string& source)> assign;
    std::function<std::string()> value; ///< of the variable now, in the form that `assign` reads
    bool is_toggle = false;
    bool is_list = false;
    std::string default_text = {};
  };

  struct argument {
    std::string name;
    std::string help;
    std::string* target;
    entry_reader read;
  };

  void add(option o);
  const option* find(std::string_view name) const;
  const option* find_negated(std::string_view word) const;
  void apply_config_file(const std::filesystem::path& path, const std::vector<std::string>& stronger);

  std::string program_;
  std::string summary_;
  std::string config_file_;
  std::vector<option> options_;
  std::vector<argument> positionals_;
};

struct host_port {
  std::string host;
  std::uint16_t port = 0;
};

/// "HOST:PORT" with an IPv6 address in brackets, as in URLs. @param host  with or without brackets
std::string host_port_text(const std::string& host, std::uint16_t port);

/// An address for sockets: without the brackets that an IPv6 address has in URLs.
std::string without_brackets(const std::string& host);

/// "HOST:PORT" split at the last colon; brackets of an IPv6 address are removed.
/// @throws option_error naming `flag` when the text has another form or the port exceeds 65535
host_port parse_host_port(const std::string& text, const std::string& flag);

} // namespace troupe
