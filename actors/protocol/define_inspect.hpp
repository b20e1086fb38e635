// Defines what `TROUPE_DECLARE_INSPECT` declares, from the `lay_out` of the structure.
#pragma once

#include <type_traits>

#include <caf/deserializer.hpp>
#include <caf/detail/stringification_inspector.hpp>
#include <caf/detail/type_traits.hpp>
#include <caf/error.hpp>
#include <caf/serializer.hpp>

namespace troupe {

/// Whether CAF finds an `inspect` of the structure for each of its inspectors.
template <class T>
concept inspected = caf::detail::is_inspectable<caf::serializer, T>::value && caf::detail::is_inspectable<
    caf::deserializer, T>::value && caf::detail::is_inspectable<caf::detail::stringification_inspector,
                                                                T>::value;

} // namespace troupe

#define TROUPE_DEFINE_INSPECT(type)                                                                          \
  static_assert(::troupe::inspected<type>, "it lacks TROUPE_DECLARE_INSPECT in its header");                 \
  caf::error inspect(caf::serializer& f, type& x) {                                                          \
    return lay_out(f, x);                                                                                    \
  }                                                                                                          \
  caf::error inspect(caf::deserializer& f, type& x) {                                                        \
    return lay_out(f, x);                                                                                    \
  }                                                                                                          \
  void inspect(caf::detail::stringification_inspector& f, type& x) {                                         \
    lay_out(f, x);                                                                                           \
  }
