// A message for many receivers that is encoded once for all of them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <caf/error.hpp>
#include <caf/fwd.hpp>

namespace troupe {

/// An immutable value, and its bytes after the first encoding. Copies share both: a receiver in this process
/// costs a pointer, each remote one a copy of the bytes. On the wire it is the plain value, read with the
/// receiver's bounds.
///
/// `T` is default-constructible and comparable, and plain data: its bytes are the same for every peer, so it
/// holds no actor handle and no payload.
template <class T>
class encoded_once {
 public:
  encoded_once() : encoded_once(T{}) {}

  explicit encoded_once(T value) : shared_(std::make_shared<shared>(std::move(value))) {}

  const T& operator*() const { return shared_->value; }

  const T* operator->() const { return &shared_->value; }

  friend bool operator==(const encoded_once& left, const encoded_once& right) {
    return left.shared_ == right.shared_ || *left == *right;
  }

  /// Writes the bytes of the value. The first call encodes it.
  /// @threads any
  caf::error save(caf::serializer& sink) const;

 private:
  struct shared {
    explicit shared(T what) : value(std::move(what)) {}

    T value; // CAF's serializers take mutable references but only read
    std::once_flag is_encoded;
    std::vector<char> bytes;
    caf::error failure;
  };

  std::shared_ptr<shared> shared_;
};

// Defined in encoded_once_layout.hpp and instantiated in message_layouts.cpp.

template <class T>
caf::error inspect(caf::serializer& sink, const encoded_once<T>& x);

template <class T>
caf::error inspect(caf::deserializer& source, encoded_once<T>& x);

template <class T>
std::string to_string(const encoded_once<T>& x);

} // namespace troupe
