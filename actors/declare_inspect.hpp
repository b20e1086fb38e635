// Messages are structures here, and written and read elsewhere: senders need no more than a declaration, and
// CAF's serializers cost every source that includes them seconds.
//
// Three overloads for each structure that travels: CAF 0.17 calls no other inspectors (binary ones and ours
// go by their base), and to it a structure without a matching `inspect` may be one without fields: it writes
// nothing and reports success. So `TROUPE_DEFINE_INSPECT` asserts that all three were declared.
#pragma once

namespace caf {

class deserializer;
class error;
class serializer;

namespace detail {

class stringification_inspector;

} // namespace detail

} // namespace caf

/// Beside the structure, in its namespace. `actors/message_layouts.cpp` defines what this declares, by the
/// `lay_out` of the `*_layout.hpp` beside the header.
#define TROUPE_DECLARE_INSPECT(type)                                                                         \
  caf::error inspect(caf::serializer& f, type& x);                                                           \
  caf::error inspect(caf::deserializer& f, type& x);                                                         \
  void inspect(caf::detail::stringification_inspector& f, type& x);
