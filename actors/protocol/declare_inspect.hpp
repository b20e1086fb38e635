// Declares the functions by which CAF writes and reads message structures. They are defined elsewhere,
// because CAF's serializers cost every source that includes them seconds of compile time.
//
// Each structure that travels needs three overloads: CAF 0.17 calls no other inspectors (binary ones and ours
// use their base's). Trap: CAF takes a structure without a matching `inspect` for one without fields, writes
// nothing and reports success. `TROUPE_DEFINE_INSPECT` therefore asserts that all three are declared.
#pragma once

namespace caf {

class deserializer;
class error;
class serializer;

namespace detail {

class stringification_inspector;

} // namespace detail

} // namespace caf

/// Stands beside the structure, in its namespace. `actors/protocol/message_layouts.cpp` defines what this
/// declares, with the `lay_out` in the `*_layout.hpp` beside the header.
#define TROUPE_DECLARE_INSPECT(type)                                                                         \
  caf::error inspect(caf::serializer& f, type& x);                                                           \
  caf::error inspect(caf::deserializer& f, type& x);                                                         \
  void inspect(caf::detail::stringification_inspector& f, type& x);
