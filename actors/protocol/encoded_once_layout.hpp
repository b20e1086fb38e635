// How an encoded_once lies on the wire: as its value.
#pragma once

#include <mutex>
#include <string>
#include <utility>

#include <caf/binary_serializer.hpp>
#include <caf/deep_to_string.hpp>
#include <caf/deserializer.hpp>
#include <caf/error.hpp>
#include <caf/serializer.hpp>

#include "actors/protocol/encoded_once.hpp"

namespace troupe {

template <class T>
caf::error encoded_once<T>::save(caf::serializer& sink) const {
  auto& to = *shared_;
  std::call_once(to.is_encoded, [&to] {
    caf::binary_serializer encoder{nullptr, to.bytes};
    to.failure = encoder(to.value);
  });
  if (to.failure)
    return to.failure;
  return sink.apply_raw(to.bytes.size(), to.bytes.data());
}

template <class T>
caf::error inspect(caf::serializer& sink, const encoded_once<T>& x) {
  return x.save(sink);
}

template <class T>
caf::error inspect(caf::deserializer& source, encoded_once<T>& x) {
  T value;
  if (auto err = source(value))
    return err;
  x = encoded_once<T>{std::move(value)};
  return caf::none;
}

template <class T>
std::string to_string(const encoded_once<T>& x) {
  return caf::deep_to_string(*x);
}

} // namespace troupe
