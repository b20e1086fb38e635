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

/// A flag, variable or file that cannot be understood; what() names it and says what was expected.
struct option_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The version of this build, "0.1.0".
const char* program_version();

/// Collects flags bound to variables, then parses. Every flag `--max-num-seqs` can also be given as the
/// environment variable `TROUPE_MAX_NUM_SEQS` and as the key `"max-num-seqs"` of the JSON object in the file
/// named by `--config`. What the variables hold before parse() are the defaults, and `--help` prints them.
class option_parser {
 public:
  /// @param program  name in the usage line, e.g. "troupe serve"
  /// @param summary  one sentence for --help
  option_parser(std::string program, std::string summary);

  /// Declares a required positional argument.
  void positional(std::string name, std::string help, std::string* target);

  void text(std::string name, std::string placeholder, std::string help, std::string* target);
  void choice(std::string name, std::vector<std::string> values, std::string help, std::string* target);
  void number(std::string name, std::string help, uint32_t* target, uint32_t min, uint32_t max);
  /// A port to listen on, or `any` for a free one (0 in `target`), or 0 for none (nothing in it).
  void port(std::string name, std::string help, std::optional<uint16_t>* target);
  void real(std::string name, std::string help, double* target, double min, double max);
  /// Bytes, with an optional suffix K, M, G or T (powers of 1024); the help says so.
  void bytes(std::string name, std::string help, uint64_t* target);
  /// Reads one entry of a list. @throws option_error that names `source`
  using entry_reader = std::function<std::string(const std::string& entry, const std::string& source)>;
  /// A flag that may be given more than once. A value is one entry, several with commas between them, or a
  /// JSON array of strings, which a configuration file may hold as it is. The strongest source that has the
  /// flag gives the whole list.
  void list(std::string name, std::string placeholder, std::string help, std::vector<std::string>* target,
            entry_reader read);
  /// `--name` or `--name true|false`.
  void toggle(std::string name, std::string help, bool* target);

  enum class outcome { run, help };

  /// Parses and assigns. With `--help`, `-h` or `--version` prints what was asked for to stdout and returns
  /// outcome::help.
  /// @param arguments  without the program's own name
  /// @throws description_answer where they are `describe_word` alone
  /// @throws option_error for an unknown flag, a bad value, a missing or an extra argument
  outcome parse(const std::vector<std::string>& arguments);

  /// The text of --help.
  std::string help() const;

  /// What --help tells, for other forms of it.
  command_description describe() const;

  /// Whether there is such a flag, named without dashes.
  bool has(std::string_view name) const { return find(name) != nullptr; }

 private:
  struct option {
    std::string name; ///< without dashes
    std::string placeholder;
    std::string help;
    std::string default_text;
    bool is_toggle = false;
    std::function<void(const std::string& value, const std::string& source)> assign;
    bool is_list = false;
  };

  struct argument {
    std::string name;
    std::string help;
    std::string* target;
  };

  void add(option o);
  const option* find(std::string_view name) const;
  void apply_config_file(const std::filesystem::path& path, const std::vector<std::string>& stronger);

  std::string program_;
  std::string summary_;
  std::string config_file_;
  std::vector<option> options_;
  std::vector<argument> positionals_;
};

struct host_port {
  std::string host;
  uint16_t port = 0;
};

/// "HOST:PORT", an IPv6 address in brackets, as URLs and the Host header have it. @param host  in brackets or
/// not
std::string host_port_text(const std::string& host, uint16_t port);

/// An address as sockets want it: without the brackets that an IPv6 address has in URLs.
std::string without_brackets(const std::string& host);

/// "HOST:PORT" split at the last colon; brackets of an IPv6 address are removed.
/// @throws option_error naming `flag` when it is not of this form or the port is above 65535
host_port parse_host_port(const std::string& text, const std::string& flag);

} // namespace troupe
