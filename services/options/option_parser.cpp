#include "services/options/option_parser.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "services/options/environment.hpp"

namespace troupe {

namespace {

std::string environment_name(std::string_view option_name) {
  std::string name = "TROUPE_";
  for (char c : option_name)
    name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

template <class Number>
std::string number_text(Number value) {
  return nlohmann::json(value).dump();
}

/// JSON has no infinity.
std::string number_text(double value) {
  return std::isinf(value) ? "inf" : nlohmann::json(value).dump();
}

template <class Number>
Number parse_number(const std::string& value, const std::string& source, Number min, Number max) {
  Number result{};
  const char* end = value.data() + value.size();
  auto [stop, error] = std::from_chars(value.data(), end, result);
  if (error != std::errc{} || stop != end || !(result >= min && result <= max)) {
    throw option_error(source + ": '" + value + "' is not a number from " + number_text(min) + " to "
                       + number_text(max));
  }
  return result;
}

std::uint64_t parse_bytes(const std::string& value, const std::string& source) {
  std::uint64_t result = 0;
  const char* end = value.data() + value.size();
  auto [stop, error] = std::from_chars(value.data(), end, result);
  unsigned shift = 0;
  bool good = error == std::errc{} && stop != value.data();
  if (good && stop != end) {
    constexpr std::string_view suffixes = "KMGT";
    auto at = suffixes.find(*stop);
    good = at != std::string_view::npos && stop + 1 == end;
    shift = good ? 10 * (static_cast<unsigned>(at) + 1) : 0;
  }
  if (!good || (result << shift) >> shift != result) {
    throw option_error(source + ": '" + value
                       + "' is not a size in bytes (a number, optionally with K, M, G or T)");
  }
  return result << shift;
}

/// The shortest text that parse_bytes reads as this size.
std::string bytes_text(std::uint64_t value) {
  constexpr std::string_view suffixes = "KMGT";
  std::size_t at = 0;
  while (value != 0 && value % 1024 == 0 && at < suffixes.size()) {
    value /= 1024;
    ++at;
  }
  return std::to_string(value) + (at == 0 ? "" : std::string(1, suffixes[at - 1]));
}

/// A port as `option_parser::port` reads it.
std::string port_text(std::optional<std::uint16_t> port) {
  if (!port)
    return "0";
  return *port == 0 ? "any" : std::to_string(*port);
}

/// The entries of a list's value.
std::vector<std::string> parse_entries(const std::string& value, const std::string& source) {
  std::vector<std::string> entries;
  if (value.starts_with('[')) {
    auto parsed = nlohmann::json::parse(value, nullptr, /*allow_exceptions=*/false);
    bool strings = parsed.is_array() && std::all_of(parsed.begin(), parsed.end(), [](const auto& entry) {
                     return entry.is_string();
                   });
    if (!strings)
      throw option_error(source + ": '" + value + "' is not a JSON array of strings");
    return parsed.get<std::vector<std::string>>();
  }
  for (std::size_t begin = 0; begin < value.size();) {
    std::size_t end = std::min(value.find(',', begin), value.size());
    entries.push_back(value.substr(begin, end - begin));
    begin = end + 1;
  }
  return entries;
}

std::string json_value_text(const nlohmann::json& value, bool may_be_list, const std::string& source) {
  if (value.is_string())
    return value.get<std::string>();
  if (value.is_array() && may_be_list)
    return value.dump();
  if (value.is_number() || value.is_boolean())
    return value.dump();
  throw option_error(source + ": expected a string, a number or a boolean"
                     + (may_be_list ? ", or an array of strings" : ""));
}

} // namespace

const char* program_version() {
  return TROUPE_VERSION;
}

option_parser::option_parser(std::string program, std::string summary)
    : program_(std::move(program)), summary_(std::move(summary)) {
  text("config", "FILE",
       "read flags from this JSON object: {\"port\": 8000, ...}; command line and environment override it",
       &config_file_);
}

void option_parser::positional(std::string name, std::string help, std::string* target, entry_reader read) {
  positionals_.push_back({std::move(name), std::move(help), target, std::move(read)});
}

void option_parser::text(std::string name, std::string placeholder, std::string help, std::string* target) {
  add({std::move(name), std::move(placeholder), std::move(help),
       [target](const std::string& value, const std::string&) { *target = value; },
       [target] { return *target; }});
}

void option_parser::choice(std::string name, std::vector<std::string> values, std::string help,
                           std::string* target) {
  std::string placeholder;
  for (const auto& value : values)
    placeholder += (placeholder.empty() ? "" : "|") + value;
  auto assign = [target, values = std::move(values), placeholder](const std::string& value,
                                                                  const std::string& source) {
    if (std::find(values.begin(), values.end(), value) == values.end())
      throw option_error(source + ": '" + value + "' is not one of " + placeholder);
    *target = value;
  };
  add({std::move(name), placeholder, std::move(help), std::move(assign), [target] { return *target; }});
}

void option_parser::number(std::string name, std::string help, std::uint32_t* target, std::uint32_t min,
                           std::uint32_t max) {
  add({std::move(name), "N", std::move(help),
       [=](const std::string& value, const std::string& source) {
         *target = parse_number(value, source, min, max);
       },
       [target] { return std::to_string(*target); }});
}

void option_parser::port(std::string name, std::string help, std::optional<std::uint16_t>* target) {
  add({std::move(name), "PORT", std::move(help) + "; any: a free port; 0: none",
       [target](const std::string& value, const std::string& source) {
         if (value == "any") {
           *target = 0;
           return;
         }
         const auto number = parse_number(value, source, 0U, 65535U);
         *target = number == 0 ? std::nullopt : std::optional{static_cast<std::uint16_t>(number)};
       },
       [target] { return port_text(*target); }});
}

void option_parser::real(std::string name, std::string help, double* target, double min, double max) {
  add({std::move(name), "X", std::move(help),
       [=](const std::string& value, const std::string& source) {
         *target = parse_number(value, source, min, max);
       },
       [target] { return number_text(*target); }});
}

void option_parser::bytes(std::string name, std::string help, std::uint64_t* target) {
  help += "; in bytes, or with K, M, G or T for powers of 1024";
  add({std::move(name), "BYTES", std::move(help),
       [target](const std::string& value, const std::string& source) {
         *target = parse_bytes(value, source);
       },
       [target] { return bytes_text(*target); }});
}

void option_parser::toggle(std::string name, std::string help, bool* target) {
  add({std::move(name), "", std::move(help),
       [target](const std::string& value, const std::string& source) {
         if (value != "true" && value != "false" && value != "1" && value != "0")
           throw option_error(source + ": '" + value + "' is not true or false");
         *target = value == "true" || value == "1";
       },
       [target] { return std::string(*target ? "true" : "false"); }, true});
}

void option_parser::list(std::string name, std::string placeholder, std::string help,
                         std::vector<std::string>* target, entry_reader read) {
  // The source of the list's entries: a stronger source replaces the entries of a weaker one.
  auto held = std::make_shared<std::string>();
  auto assign = [target, held, read = std::move(read)](const std::string& value, const std::string& source) {
    if (std::exchange(*held, source) != source)
      target->clear();
    for (const std::string& entry : parse_entries(value, source))
      target->push_back(read(entry, source));
  };
  add({std::move(name), std::move(placeholder), std::move(help), std::move(assign),
       [target] { return nlohmann::json(*target).dump(); }, false, true});
}

void option_parser::add(option o) {
  if (!o.is_list)
    o.default_text = o.value();
  options_.push_back(std::move(o));
}

const option_parser::option* option_parser::find(std::string_view name) const {
  auto at = std::find_if(options_.begin(), options_.end(), [&](const option& o) { return o.name == name; });
  return at == options_.end() ? nullptr : &*at;
}

/// The toggle that `--no-NAME` turns off.
const option_parser::option* option_parser::find_negated(std::string_view word) const {
  constexpr std::string_view negation = "--no-";
  const auto* o = word.starts_with(negation) ? find(word.substr(negation.size())) : nullptr;
  return o != nullptr && o->is_toggle ? o : nullptr;
}

option_parser::outcome option_parser::parse(const std::vector<std::string>& arguments) {
  if (asks_for_description(arguments))
    throw description_answer{describe()};
  std::vector<std::pair<const option*, std::string>> from_command_line;
  std::vector<std::string> given;
  std::size_t num_positionals = 0;
  bool flags_ended = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (!flags_ended && word == "--") {
      flags_ended = true;
      continue;
    }
    if (!flags_ended && (word == "--help" || word == "-h")) {
      std::fputs(help().c_str(), stdout);
      return outcome::help;
    }
    if (!flags_ended && word == "--version") {
      std::printf("%s %s\n", program_.c_str(), program_version());
      return outcome::help;
    }
    if (flags_ended || word.empty() || word[0] != '-') {
      if (num_positionals == positionals_.size())
        throw option_error("unexpected argument '" + word + "'; see '" + program_ + " --help'");
      const auto& declared = positionals_[num_positionals++];
      *declared.target = declared.read ? declared.read(word, declared.name) : word;
      continue;
    }
    auto equals = word.find('=');
    std::string flag = word.substr(0, equals);
    const option* o = flag.starts_with("--") ? find(std::string_view{flag}.substr(2)) : nullptr;
    if (const auto* off = o == nullptr ? find_negated(word) : nullptr) {
      from_command_line.emplace_back(off, "false");
      given.push_back(off->name);
      continue;
    }
    if (o == nullptr)
      throw option_error("unknown flag '" + flag + "'; see '" + program_ + " --help'");
    std::string value;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (o->is_toggle) {
      bool has_value =
          i + 1 < arguments.size() && (arguments[i + 1] == "true" || arguments[i + 1] == "false");
      value = has_value ? arguments[++i] : "true";
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      throw option_error(flag + ": a value is missing");
    }
    from_command_line.emplace_back(o, value);
    given.push_back(o->name);
  }
  if (num_positionals < positionals_.size()) {
    throw option_error("the argument " + positionals_[num_positionals].name + " is missing; see '" + program_
                       + " --help'");
  }
  // The weakest first, so that the stronger sources overwrite.
  for (const auto& [o, value] : from_command_line)
    if (o->name == "config")
      config_file_ = value;
  const char* config_variable = std::getenv("TROUPE_CONFIG");
  if (config_file_.empty() && config_variable != nullptr)
    config_file_ = config_variable;
  if (!config_file_.empty())
    apply_config_file(config_file_, given);
  for (const auto& o : options_) {
    std::string variable = environment_name(o.name);
    const char* value = std::getenv(variable.c_str());
    if (value != nullptr && !is_service_link(variable, value)
        && std::find(given.begin(), given.end(), o.name) == given.end())
      o.assign(value, "environment variable " + variable);
  }
  for (const auto& [o, value] : from_command_line)
    o->assign(value, "--" + o->name);
  return outcome::run;
}

void option_parser::apply_config_file(const std::filesystem::path& path,
                                      const std::vector<std::string>& stronger) {
  std::ifstream in(path);
  if (!in)
    throw option_error("--config: cannot read " + path.string());
  nlohmann::json root =
      nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/true);
  if (!root.is_object())
    throw option_error("--config: " + path.string() + " is not a JSON object");
  for (const auto& [key, value] : root.items()) {
    const option* o = find(key);
    std::string source = path.string() + ": \"" + key + "\"";
    if (o == nullptr)
      throw option_error(source + " is not a flag of " + program_);
    if (std::find(stronger.begin(), stronger.end(), key) == stronger.end())
      o->assign(json_value_text(value, o->is_list, source), source);
  }
}

std::vector<std::string> option_parser::words() const {
  std::vector<std::string> words;
  for (const auto& o : options_)
    if (o.name != "config")
      words.insert(words.end(), {"--" + o.name, o.value()});
  return words;
}

std::string option_parser::help() const {
  std::string out = "usage: " + program_;
  for (const auto& p : positionals_)
    out += " " + p.name;
  out += " [flags]\n\n" + summary_ + "\n\n";
  for (const auto& p : positionals_)
    out += "  " + p.name + "\n      " + p.help + "\n";
  for (const auto& o : options_) {
    out += "  --" + o.name + (o.placeholder.empty() ? "" : " " + o.placeholder) + "\n      " + o.help;
    if (!o.default_text.empty())
      out += " (default: " + o.default_text + ")";
    out += "\n";
  }
  out += "\nEvery flag can also be given as an environment variable (--max-num-seqs: TROUPE_MAX_NUM_SEQS).\n";
  return out;
}

command_description option_parser::describe() const {
  command_description result{program_, summary_, summary_, {}, {}, {}, {}};
  for (const auto& p : positionals_)
    result.arguments.push_back({p.name, p.help});
  for (const auto& o : options_)
    result.options.push_back({o.name, o.placeholder, o.help, o.default_text, o.is_toggle});
  return result;
}

std::string without_brackets(const std::string& host) {
  bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

std::string host_port_text(const std::string& host, std::uint16_t port) {
  std::string plain = without_brackets(host);
  bool is_ipv6 = plain.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + plain + "]" : plain) + ":" + std::to_string(port);
}

host_port parse_host_port(const std::string& text, const std::string& flag) {
  auto colon = text.rfind(':');
  host_port result;
  bool good = colon != std::string::npos && colon > 0;
  if (good) {
    const char* end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data() + colon + 1, end, result.port);
    good = error == std::errc{} && stop == end;
    result.host = without_brackets(text.substr(0, colon));
  }
  if (!good || result.host.empty())
    throw option_error(flag + ": '" + text + "' is not of the form HOST:PORT");
  return result;
}

} // namespace troupe
