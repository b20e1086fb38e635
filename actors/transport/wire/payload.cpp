#include "actors/transport/wire/payload.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <caf/deserializer.hpp>
#include <caf/error.hpp>
#include <caf/sec.hpp>
#include <caf/serializer.hpp>

#include "actors/transport/wire/wire_context.hpp"

namespace troupe {

payload payload::allocate(std::size_t num_bytes) {
  payload result;
  if (num_bytes > 0)
    result = payload{buffer_pool::instance().allocate(num_bytes), 0, num_bytes};
  return result;
}

payload payload::copy_of(std::span<const std::byte> bytes) {
  auto result = allocate(bytes.size());
  if (!bytes.empty())
    std::memcpy(result.mutable_data(), bytes.data(), bytes.size());
  return result;
}

payload::payload(buffer_ptr memory, std::size_t offset, std::size_t length)
    : memory_(std::move(memory)), offset_(offset), length_(length) {}

std::byte* payload::mutable_data() {
  if (memory_ && memory_->references.load(std::memory_order_acquire) > 1)
    *this = copy_of(bytes());
  return memory_ ? memory_->data() + offset_ : nullptr;
}

payload payload::slice(std::size_t offset, std::size_t length) const {
  if (offset > length_ || length > length_ - offset)
    throw std::out_of_range("payload slice [" + std::to_string(offset) + ", +" + std::to_string(length)
                            + ") of " + std::to_string(length_) + " bytes");
  if (length == 0)
    return {};
  return {memory_, offset_ + offset, length};
}

bool operator==(const payload& lhs, const payload& rhs) {
  return lhs.length_ == rhs.length_
         && (lhs.length_ == 0 || std::memcmp(lhs.data(), rhs.data(), lhs.length_) == 0);
}

caf::error inspect(caf::serializer& sink, const payload& x) {
  std::uint64_t num_bytes = x.size();
  if (auto err = sink(num_bytes))
    return err;
  if (num_bytes == 0)
    return caf::none;
  if (auto* wire = dynamic_cast<wire_context*>(sink.context())) {
    wire->attach(x);
    return caf::none;
  }
  // CAF's serializer takes a mutable pointer and only reads from it.
  return sink.apply_raw(num_bytes, const_cast<std::byte*>(x.data()));
}

caf::error inspect(caf::deserializer& source, payload& x) {
  std::uint64_t num_bytes = 0;
  if (auto err = source(num_bytes))
    return err;
  x = payload{};
  if (num_bytes == 0)
    return caf::none;
  if (auto* wire = dynamic_cast<wire_context*>(source.context()))
    return wire->detach(num_bytes, x) ? caf::none : caf::make_error(caf::sec::end_of_stream);
  // A length is only a claim: grow with the bytes that really arrive instead of allocating it up front.
  constexpr std::uint64_t step = std::uint64_t{1} << 20;
  payload result;
  for (std::uint64_t done = 0; done < num_bytes;) {
    const auto chunk = std::min(num_bytes - done, std::max(step, done));
    auto grown = payload::allocate(done + chunk);
    if (done > 0)
      std::memcpy(grown.mutable_data(), result.data(), done);
    if (auto err = source.apply_raw(chunk, grown.mutable_data() + done))
      return err;
    result = std::move(grown);
    done += chunk;
  }
  x = std::move(result);
  return caf::none;
}

std::string to_string(const payload& x) {
  return "payload[" + std::to_string(x.size()) + "]";
}

} // namespace troupe
