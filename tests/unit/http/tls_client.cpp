#include "tests/unit/http/tls_client.hpp"

#include <cerrno>
#include <stdexcept>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

namespace troupe::http_test {

namespace {

void require(bool done, const char* what) {
  if (!done)
    throw std::runtime_error(std::string("TLS client: ") + what);
}

} // namespace

void tls_client::context_deleter::operator()(ssl_ctx_st* one) const {
  SSL_CTX_free(one);
}

void tls_client::engine_deleter::operator()(ssl_st* one) const {
  SSL_free(one);
}

tls_client::tls_client(std::uint16_t port, const tls_client_options& options)
    : raw_client(port, options.receive_buffer_bytes), context_(SSL_CTX_new(TLS_client_method())) {
  require(context_ != nullptr, "no context");
  if (!options.trusted.empty()) {
    require(SSL_CTX_load_verify_file(context_.get(), options.trusted.c_str()) == 1,
            "no certificate to trust");
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  }
  if (options.version != 0) {
    // Old versions need ciphers that the library no longer offers by default.
    SSL_CTX_set_cipher_list(context_.get(), "ALL:@SECLEVEL=0");
    require(SSL_CTX_set_min_proto_version(context_.get(), options.version) == 1
                && SSL_CTX_set_max_proto_version(context_.get(), options.version) == 1,
            "no such version");
  }
  if (!options.alpn.empty())
    SSL_CTX_set_alpn_protos(context_.get(), reinterpret_cast<const unsigned char*>(options.alpn.data()),
                            static_cast<unsigned>(options.alpn.size()));
  engine_.reset(SSL_new(context_.get()));
  require(engine_ != nullptr, "no engine");
  SSL_set_bio(engine_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_set_connect_state(engine_.get());
}

tls_client::~tls_client() = default;

std::string tls_client::take_records() {
  BIO* const out = SSL_get_wbio(engine_.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);
  std::string records(bytes, static_cast<std::size_t>(size));
  BIO_reset(out);
  return records;
}

bool tls_client::flush() {
  return send_sealed(take_records());
}

bool tls_client::feed() {
  char bytes[16384];
  const ssize_t got = raw_client::receive(bytes, sizeof bytes);
  return got > 0 && BIO_write(SSL_get_rbio(engine_.get()), bytes, static_cast<int>(got)) == got;
}

bool tls_client::shake_hands() {
  for (;;) {
    ERR_clear_error();
    const int result = SSL_do_handshake(engine_.get());
    const int error = SSL_get_error(engine_.get(), result);
    const bool flushed = flush();
    if (result == 1)
      return flushed;
    if (!flushed || error != SSL_ERROR_WANT_READ || !feed())
      return false;
  }
}

std::string tls_client::server_name() const {
  const std::unique_ptr<X509, void (*)(X509*)> shown(SSL_get1_peer_certificate(engine_.get()), X509_free);
  char name[256] = "";
  if (shown)
    X509_NAME_get_text_by_NID(X509_get_subject_name(shown.get()), NID_commonName, name, sizeof name);
  return name;
}

std::string tls_client::version() const {
  return SSL_get_version(engine_.get());
}

std::string tls_client::chosen_protocol() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(engine_.get(), &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

bool tls_client::was_told_the_end() const {
  return (SSL_get_shutdown(engine_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
}

std::string tls_client::seal(std::string_view bytes) {
  require(SSL_write(engine_.get(), bytes.data(), static_cast<int>(bytes.size()))
              == static_cast<int>(bytes.size()),
          "cannot seal");
  return take_records();
}

bool tls_client::send_sealed(std::string_view record) {
  while (!record.empty()) {
    const ssize_t sent = raw_client::transmit(record.data(), record.size());
    if (sent <= 0)
      return false;
    record.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool tls_client::say_the_end() {
  return SSL_shutdown(engine_.get()) >= 0 && flush();
}

ssize_t tls_client::receive(char* bytes, std::size_t most) {
  for (;;) {
    ERR_clear_error();
    const int got = SSL_read(engine_.get(), bytes, static_cast<int>(most));
    if (got > 0)
      return got;
    const int error = SSL_get_error(engine_.get(), got);
    if (error == SSL_ERROR_ZERO_RETURN)
      return 0;
    errno = ECONNRESET; // an unannounced end
    if (error != SSL_ERROR_WANT_READ || !feed())
      return -1;
  }
}

ssize_t tls_client::transmit(const char* bytes, std::size_t count) {
  return send_sealed(seal({bytes, count})) ? static_cast<ssize_t>(count) : -1;
}

} // namespace troupe::http_test
