#include "services/gateway/http/request_target.hpp"

#include <algorithm>

namespace troupe::http {

namespace {

/// Removes a scheme, in any case, from the front. @returns false when there is another one, or none
bool take_scheme(std::string_view& target, std::string_view scheme) {
  const auto same = [](char sent, char known) {
    return (sent >= 'A' && sent <= 'Z' ? sent | 0x20 : sent) == known;
  };
  if (target.size() < scheme.size()
      || !std::equal(scheme.begin(), scheme.end(), target.begin(),
                     [&](char known, char sent) { return same(sent, known); }))
    return false;
  target.remove_prefix(scheme.size());
  return true;
}

} // namespace

std::string_view path_of_target(std::string_view target) {
  if (take_scheme(target, "http://") || take_scheme(target, "https://")) {
    const std::size_t authority = std::min(target.find_first_of("/?"), target.size());
    if (authority == 0)
      return {};
    target.remove_prefix(authority);
    if (!target.starts_with('/'))
      return "/"; // an empty path means the root
  }
  return target.substr(0, target.find('?'));
}

std::string canonical_path(std::string path) {
  path.erase(std::unique(path.begin(), path.end(), [](char a, char b) { return a == '/' && b == '/'; }),
             path.end());
  if (path.size() > 1 && path.ends_with('/'))
    path.pop_back();
  for (const std::string_view known : {"/chat/completions", "/completions", "/models"})
    if (path == known || (path.starts_with(known) && path[known.size()] == '/'))
      return "/v1" + path;
  return path;
}

std::string_view query_of_target(std::string_view target) {
  const std::size_t mark = target.find('?');
  return mark == std::string_view::npos ? std::string_view{} : target.substr(mark + 1);
}

std::optional<std::string_view> parameter_of(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(one.size() + 1, query.size()));
    const std::size_t equals = std::min(one.find('='), one.size());
    if (one.substr(0, equals) == name)
      return one.substr(std::min(equals + 1, one.size()));
  }
  return std::nullopt;
}

bool percent_decode(std::string_view encoded, std::string& decoded) {
  const auto value_of = [](char c) {
    if (c >= '0' && c <= '9')
      return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  decoded.clear();
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    if (encoded[i] != '%') {
      decoded += encoded[i];
      continue;
    }
    if (i + 2 >= encoded.size())
      return false;
    const int high = value_of(encoded[i + 1]);
    const int low = value_of(encoded[i + 2]);
    if (high < 0 || low < 0)
      return false;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

} // namespace troupe::http
