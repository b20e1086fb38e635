#include "actors/transport/wire/authentication.hpp"

#include <memory>
#include <stdexcept>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

namespace troupe::wire {

digest hmac_sha256(std::string_view key, std::initializer_list<std::span<const std::byte>> parts) {
  struct release {
    void operator()(EVP_MAC* ptr) const { EVP_MAC_free(ptr); }

    void operator()(EVP_MAC_CTX* ptr) const { EVP_MAC_CTX_free(ptr); }
  };

  const std::unique_ptr<EVP_MAC, release> mac{EVP_MAC_fetch(nullptr, "HMAC", nullptr)};
  const std::unique_ptr<EVP_MAC_CTX, release> context{mac ? EVP_MAC_CTX_new(mac.get()) : nullptr};
  char hash[] = "SHA256";
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("digest", hash, 0),
                               OSSL_PARAM_construct_end()};
  bool ok =
      context
      && EVP_MAC_init(context.get(), reinterpret_cast<const unsigned char*>(key.data()), key.size(), params)
             == 1;
  for (const auto& part : parts)
    ok = ok
         && EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(part.data()), part.size())
                == 1;
  digest result{};
  std::size_t length = 0;
  ok =
      ok
      && EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(result.data()), &length, result.size())
             == 1
      && length == result.size();
  if (!ok)
    throw std::runtime_error("transport: HMAC-SHA256 is not available in the crypto library");
  return result;
}

digest sha256(std::span<const std::byte> bytes) {
  digest result{};
  static_assert(sizeof result == SHA256_DIGEST_LENGTH);
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(result.data()));
  return result;
}

bool equal_digests(const digest& lhs, const digest& rhs) {
  return CRYPTO_memcmp(lhs.data(), rhs.data(), lhs.size()) == 0;
}

void fill_random(std::span<std::byte> out) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size())) != 1)
    throw std::runtime_error("transport: no random bytes");
}

} // namespace troupe::wire
