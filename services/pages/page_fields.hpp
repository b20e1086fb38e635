// Goes through the fields that a page's struct names.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>

#include "services/pages/page_part.hpp"

namespace troupe::pages {

/// Calls `use` with the name and the value of each field.
template <class T, class Use>
void for_each_field(T& part, Use use) {
  std::string_view names = T::names; // "a, b, c"
  const auto next = [&names] {
    const std::string name(names.substr(0, names.find(',')));
    names.remove_prefix(std::min(names.size(), name.size() + 2));
    return name;
  };
  std::apply([&](auto&... value) { (use(next(), value), ...); }, part.fields());
}

} // namespace troupe::pages
