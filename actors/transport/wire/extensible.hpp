// How structures travel to which later versions of the program may append fields.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/deserializer.hpp>
#include <caf/error.hpp>
#include <caf/meta/type_name.hpp>
#include <caf/sec.hpp>
#include <caf/serializer.hpp>

#include "actors/transport/wire/wire_deserializer.hpp"

namespace troupe {

namespace wire {

/// Writes the length of a structure in front of its fields, in 4 bytes.
class extensible_writer {
 public:
  /// @errors throws `std::logic_error` unless `sink` is CAF's binary serializer, which can go back
  explicit extensible_writer(caf::serializer& sink);

  /// After the last field.
  /// @errors throws `std::length_error` beyond 4 GiB
  caf::error finish();

 private:
  caf::binary_serializer& sink_;
  std::size_t start_;
};

/// Reads a structure no further than its length says, and all of that.
class extensible_reader {
 public:
  /// @errors throws `std::logic_error` unless `source` is a wire_deserializer or CAF's binary one
  explicit extensible_reader(caf::deserializer& source);

  /// Before the first field.
  caf::error begin();

  /// False when the sender has written no further field: it, and those behind it, keep their defaults.
  bool has_more() const { return remaining() > end_; }

  /// After each field: true when it has gone on behind the structure's end.
  bool has_overrun() const { return remaining() < end_; }

  /// After the last field: skips those that this version does not know.
  caf::error finish();

 private:
  std::size_t remaining() const { return wire_ != nullptr ? wire_->remaining() : binary_->remaining(); }

  caf::deserializer& source_;
  wire_deserializer* wire_;
  caf::binary_deserializer* binary_;
  std::size_t end_ = 0; ///< bytes of the source that lie behind the structure
};

} // namespace wire

/// In an `inspect`, instead of `f(caf::meta::type_name(name), fields...)`: writes the fields behind their
/// length. A reader that knows fewer fields skips the others; one that knows more leaves them as they are in
/// the fresh object that it reads into. So fields may be appended, and only that: none may change its type,
/// its place or its meaning, and none may be taken out. A field with a payload may be appended only where the
/// structure ends its message, since payloads travel one behind another beside it.
///
/// An inspector with a `begin_extensible(name)` and `end_extensible()` gets the fields between these two.
template <class Inspector, class... Fields>
typename Inspector::result_type extensible(Inspector& f, const char* name, Fields&&... fields) {
  if constexpr (std::is_base_of_v<caf::serializer, Inspector>) {
    wire::extensible_writer structure{f};
    if (auto err = f(std::forward<Fields>(fields)...))
      return err;
    return structure.finish();
  } else if constexpr (std::is_base_of_v<caf::deserializer, Inspector>) {
    wire::extensible_reader structure{f};
    auto err = structure.begin();
    const auto read = [&](auto&& field) {
      if (err || !structure.has_more())
        return;
      err = f(field);
      if (structure.has_overrun())
        err = caf::sec::end_of_stream;
    };
    (read(std::forward<Fields>(fields)), ...);
    return err ? err : structure.finish();
  } else if constexpr (requires { f.begin_extensible(name); }) {
    f.begin_extensible(name);
    f(std::forward<Fields>(fields)...);
    return f.end_extensible();
  } else {
    return f(caf::meta::type_name(name), std::forward<Fields>(fields)...);
  }
}

} // namespace troupe
