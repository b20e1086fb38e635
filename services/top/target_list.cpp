#include "services/top/target_list.hpp"

#include <cstddef>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace troupe::top {

namespace {

using nlohmann::json;

/// Hands characters over and counts the lines that have begun.
class counting_iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  counting_iterator(const char* at, std::size_t* line) : at_(at), line_(line) {}

  reference operator*() const { return *at_; }

  counting_iterator& operator++() {
    *line_ += *at_ == '\n' ? 1 : 0;
    ++at_;
    return *this;
  }

  counting_iterator operator++(int) {
    counting_iterator before = *this;
    ++*this;
    return before;
  }

  bool operator==(const counting_iterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  std::size_t* line_;
};

/// The JSON, in which each address of `targets` is {"address": ..., "line": ...}.
/// @throws std::runtime_error that names the line where it stops being JSON
json with_lines(const std::string& text, const std::string& file) {
  std::size_t line = 1;
  std::string member; // of the group that is being read
  const auto note_line = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 2) {
      member = parsed.get<std::string>();
    } else if (event == json::parse_event_t::value && depth == 3 && member == "targets"
               && parsed.is_string()) {
      json address = json::object();
      address["address"] = parsed;
      address["line"] = line;
      parsed = std::move(address);
    }
    return true;
  };
  json groups = json::parse(counting_iterator(text.data(), &line),
                            counting_iterator(text.data() + text.size(), &line), note_line,
                            /*allow_exceptions=*/false);
  if (groups.is_discarded())
    throw std::runtime_error(file + ":" + std::to_string(line) + ": this is no JSON");
  return groups;
}

} // namespace

std::vector<target> parse_targets(const std::string& text, const std::string& file) {
  const json groups = with_lines(text, file);
  std::vector<target> found;
  try {
    if (!groups.is_array())
      throw std::runtime_error("no array");
    for (const json& group : groups) {
      const json labels = group.value("labels", json::object());
      for (const json& one : group.at("targets")) {
        const std::string address = one.at("address");
        found.push_back({labels.value("role", ""), labels.value("process", address),
                         labels.value("__scheme__", "http") + "://" + address,
                         file + ":" + std::to_string(one.at("line").get<std::size_t>())});
      }
    }
  } catch (const std::exception&) {
    throw std::runtime_error(
        file
        + R"(: it is no list of targets; write [{"targets": ["HOST:PORT"], "labels": {"role": "expert", )"
          R"("process": "expert-0"}}, ...], as 'troupe up' does in its --run-dir)");
  }
  return found;
}

std::vector<target> read_targets(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw std::runtime_error("--targets: cannot read " + file);
  try {
    return parse_targets(std::string(std::istreambuf_iterator<char>(in), {}), file);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(std::string("--targets: ") + error.what());
  }
}

} // namespace troupe::top
