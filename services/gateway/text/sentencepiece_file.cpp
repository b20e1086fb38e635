#include "services/gateway/text/sentencepiece_file.hpp"

#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/unicode.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

namespace troupe::text {

namespace {

/// A field of a protobuf message: a number, or bytes.
struct message_field {
  std::uint64_t number = 0;
  std::uint64_t value = 0;
  std::string_view bytes;
};

/// Reads the fields of one protobuf message.
class message_reader {
 public:
  explicit message_reader(std::string_view bytes) : rest_(bytes) {}

  std::optional<message_field> next() {
    if (rest_.empty())
      return std::nullopt;
    const auto key = varint();
    message_field out{.number = key >> 3U, .value = 0, .bytes = {}};
    switch (key & 7U) {
    case 0:
      out.value = varint();
      break;
    case 1:
      out.bytes = take(8);
      break;
    case 2:
      out.bytes = take(varint());
      break;
    case 5:
      out.bytes = take(4);
      break;
    default:
      throw text_error("it is no message of protobuf");
    }
    return out;
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(take(1).front());
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80)
        return value;
    }
    throw text_error("it is no message of protobuf");
  }

  std::string_view take(std::uint64_t size) {
    if (size > rest_.size())
      throw text_error("it is cut off");
    const auto out = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return out;
  }

  std::string_view rest_;
};

float float_of(std::string_view bytes) {
  static_assert(std::endian::native == std::endian::little);
  float value = 0;
  if (bytes.size() != sizeof(value))
    throw text_error("a score is no number of 32 bits");
  std::memcpy(&value, bytes.data(), sizeof(value));
  if (!std::isfinite(value))
    throw text_error("a score is not finite");
  return value;
}

sentencepiece_model::piece read_piece(std::string_view bytes) {
  sentencepiece_model::piece out;
  message_reader fields(bytes);
  while (const auto field = fields.next()) {
    if (field->number == 1) {
      out.text = field->bytes;
    } else if (field->number == 2) {
      out.score = float_of(field->bytes);
    } else if (field->number == 3) {
      if (field->value < 1 || field->value > 6)
        throw text_error("a piece is of the unknown kind " + std::to_string(field->value));
      out.what = static_cast<sentencepiece_model::kind>(field->value);
    }
  }
  if (out.text.empty() || scan_utf8(out.text).valid != out.text.size())
    throw text_error("a piece is empty or not valid UTF-8");
  return out;
}

void read_trainer(std::string_view bytes, sentencepiece_model& model) {
  message_reader fields(bytes);
  while (const auto field = fields.next())
    if (field->number == 3)
      model.model_type = field->value;
    else if (field->number == 24)
      model.whitespace_is_suffix = field->value != 0;
    else if (field->number == 35)
      model.byte_fallback = field->value != 0;
}

void read_normalizer(std::string_view bytes, sentencepiece_model& model) {
  message_reader fields(bytes);
  while (const auto field = fields.next())
    if (field->number == 2)
      model.charsmap = field->bytes;
    else if (field->number == 3)
      model.add_dummy_prefix = field->value != 0;
    else if (field->number == 4)
      model.remove_extra_whitespaces = field->value != 0;
    else if (field->number == 5)
      model.escape_whitespaces = field->value != 0;
}

} // namespace

sentencepiece_model read_sentencepiece(std::string_view bytes, const std::string& file) {
  sentencepiece_model model;
  try {
    message_reader fields(bytes);
    while (const auto field = fields.next())
      if (field->number == 1)
        model.pieces.push_back(read_piece(field->bytes));
      else if (field->number == 2)
        read_trainer(field->bytes, model);
      else if (field->number == 3)
        read_normalizer(field->bytes, model);
    if (model.pieces.empty())
      throw text_error("it has no pieces");
  } catch (const text_error& e) {
    throw text_error(file + ": not a SentencePiece model: " + e.what());
  }
  return model;
}

} // namespace troupe::text
