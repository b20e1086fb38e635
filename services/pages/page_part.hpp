// How a page's structs name their fields, once for writing and reading.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>

/// Behind the members of a struct, all of which it names in the order of the page. A std::optional is left
/// out while it has no value. A member that is missing keeps its default, since an earlier or later release
/// may have written the page; `decode` wants the first member of the page itself.
#define TROUPE_PAGE_PART(...)                                                                                \
  static constexpr const char* names = #__VA_ARGS__;                                                         \
  auto fields() {                                                                                            \
    return std::tie(__VA_ARGS__);                                                                            \
  }                                                                                                          \
  auto fields() const {                                                                                      \
    return std::tie(__VA_ARGS__);                                                                            \
  }

namespace troupe::pages {

/// Written as null while it has no value.
template <class T>
struct nullable : std::optional<T> {
  using std::optional<T>::optional;
};

template <class T>
concept page_part = requires {
  T::names;
};

/// Bytes that are not UTF-8 are replaced.
template <page_part T>
std::string encode(const T& page);

/// @throws std::runtime_error "COMPLAINT: TEXT", with at most `shown` bytes of the text, if it is no such
/// page
template <page_part T>
T decode(const std::string& text, const std::string& complaint, std::size_t shown = 300);

} // namespace troupe::pages
