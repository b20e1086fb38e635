#include "services/gateway/http/content_coding.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include <zlib.h>

#include "services/gateway/openai/api_error.hpp"

namespace troupe::http {

namespace {

using openai::api_error;
using openai::invalid_request;

constexpr std::size_t step_bytes = 64 << 10;

const char* name_of(content_coding coding) {
  return coding == content_coding::gzip ? "gzip" : "deflate";
}

/// The data of `deflate` have zlib's frame: the first two bytes of RFC 1950 have a checksum.
bool has_zlib_frame(std::string_view coded) {
  if (coded.size() < 2)
    return false;
  const unsigned first = static_cast<unsigned char>(coded[0]);
  const unsigned second = static_cast<unsigned char>(coded[1]);
  return (first & 15U) == Z_DEFLATED && (first << 8 | second) % 31 == 0;
}

class inflater {
 public:
  explicit inflater(int window_bits) {
    if (inflateInit2(&stream_, window_bits) != Z_OK)
      throw std::runtime_error("no memory to decode a request body");
  }

  ~inflater() { inflateEnd(&stream_); }

  inflater(const inflater&) = delete;
  inflater& operator=(const inflater&) = delete;

  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

int window_bits_of(content_coding coding, std::string_view coded) {
  if (coding == content_coding::gzip)
    return MAX_WBITS + 16;
  return has_zlib_frame(coded) ? MAX_WBITS : -MAX_WBITS;
}

api_error bad_data(content_coding coding, const char* what) {
  return invalid_request(std::string("the request body is not ") + name_of(coding)
                         + " data as Content-Encoding says: " + what);
}

} // namespace

std::optional<content_coding> content_coding_of(std::string_view header) {
  std::string name;
  for (const char c : header)
    if (c != ' ' && c != '\t')
      name += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (name.empty() || name == "identity")
    return content_coding::identity;
  if (name == "gzip" || name == "x-gzip")
    return content_coding::gzip;
  if (name == "deflate")
    return content_coding::deflate;
  return std::nullopt;
}

std::string decode_content(std::string_view coded, content_coding coding, std::size_t limit) {
  if (coding == content_coding::identity)
    return std::string(coded);
  inflater one{window_bits_of(coding, coded)};
  z_stream& stream = one.stream();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(coded.data())); // zlib only reads it
  stream.avail_in = static_cast<uInt>(coded.size()); // bodies are bounded far below 4 GiB
  std::string decoded;
  std::array<char, step_bytes> step{};
  for (;;) {
    stream.next_out = reinterpret_cast<Bytef*>(step.data());
    stream.avail_out = static_cast<uInt>(step.size());
    const int status = inflate(&stream, Z_NO_FLUSH);
    const std::size_t bytes = step.size() - stream.avail_out;
    if (decoded.size() + bytes > limit)
      throw api_error(413, "invalid_request_error",
                      "the request body is larger than " + std::to_string(limit)
                          + " bytes once it is decoded");
    decoded.append(step.data(), bytes);
    if (status == Z_STREAM_END) {
      if (stream.avail_in == 0)
        return decoded;
      if (coding != content_coding::gzip)
        throw bad_data(coding, "bytes follow its end");
      inflateReset(&stream); // further members of a gzip file belong to the same content
    } else if (status == Z_BUF_ERROR || (status == Z_OK && bytes == 0 && stream.avail_in == 0)) {
      throw bad_data(coding, "its end is missing");
    } else if (status == Z_MEM_ERROR) {
      throw std::runtime_error("no memory to decode a request body");
    } else if (status != Z_OK) {
      throw bad_data(coding, "it is damaged");
    }
  }
}

} // namespace troupe::http
