#include "services/gateway/http/tls_identity.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <vector>

#include <boost/asio/ssl/context.hpp>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "services/options/option_parser.hpp"
#include "services/options/private_file.hpp"

namespace troupe::http {

namespace {

using std::chrono::system_clock;

/// Certificates are renewed some weeks before they expire: after this time it seems forgotten.
constexpr auto warn_before = std::chrono::hours{24 * 14};
/// Larger than any PEM file of a chain, which has a few KiB.
constexpr std::size_t max_file_bytes = 1 << 20;

/// Ciphers of TLS 1.2. All ciphers of 1.3 have forward secrecy and authenticated encryption.
constexpr const char* ciphers = "ECDHE+AESGCM:ECDHE+CHACHA20";

struct openssl_deleter {
  void operator()(BIO* one) const { BIO_free(one); }

  void operator()(X509* one) const { X509_free(one); }

  void operator()(EVP_PKEY* one) const { EVP_PKEY_free(one); }
};

using bio = std::unique_ptr<BIO, openssl_deleter>;
using certificate = std::unique_ptr<X509, openssl_deleter>;
using private_key = std::unique_ptr<EVP_PKEY, openssl_deleter>;

option_error wrong(const char* flag, const std::filesystem::path& file, const std::string& what) {
  return option_error(std::string("--") + flag + ": " + file.string() + " " + what);
}

/// The error of the last call of OpenSSL.
std::string openssl_reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "unknown reason" : reason;
}

std::string read_pem(const char* flag, const std::filesystem::path& file) {
  errno = 0;
  std::ifstream in{file, std::ios::binary};
  std::string text(max_file_bytes + 1, '\0');
  if (in)
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad())
    throw wrong(flag, file,
                std::string("cannot be read") + (errno == 0 ? "" : std::string(": ") + std::strerror(errno)));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > max_file_bytes)
    throw wrong(flag, file, "is larger than 1 MiB: it is no PEM file of a certificate or key");
  return text;
}

bio reader_of(const std::string& text) {
  return bio{BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))};
}

/// The server's own certificate first.
std::vector<certificate> read_chain(const std::filesystem::path& file) {
  constexpr auto flag = "tls-cert-file";
  const std::string text = read_pem(flag, file);
  const bio in = reader_of(text);
  std::vector<certificate> chain;
  ERR_clear_error();
  while (certificate next{PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr)})
    chain.push_back(std::move(next));
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!at_end)
    throw wrong(flag, file,
                "is malformed: certificate " + std::to_string(chain.size() + 1) + " cannot be read ("
                    + openssl_reason() + ")");
  ERR_clear_error();
  if (chain.empty())
    throw wrong(flag, file,
                "holds no certificate; it must be PEM (\"-----BEGIN CERTIFICATE-----\"), the server's own "
                "first, then those between it and the root");
  return chain;
}

/// Replaces OpenSSL's prompt at the terminal.
int note_passphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

private_key read_key(const std::filesystem::path& file) {
  constexpr auto flag = "tls-key-file";
  const std::string text = read_pem(flag, file);
  if (is_open_to_others(file))
    throw wrong(flag, file, "is open to other users; chmod 600 it");
  const bio in = reader_of(text);
  bool asked = false;
  ERR_clear_error();
  private_key key{PEM_read_bio_PrivateKey(in.get(), nullptr, note_passphrase, &asked)};
  if (asked)
    throw wrong(flag, file,
                "is protected by a passphrase, for which nobody is there to be asked; write it without one: "
                "openssl pkey -in OLD -out NEW");
  if (!key)
    throw wrong(flag, file,
                "holds no private key in PEM (\"-----BEGIN PRIVATE KEY-----\"): " + openssl_reason());
  return key;
}

system_clock::time_point time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1)
    return {};
  return system_clock::from_time_t(timegm(&parts));
}

std::string text_of(const X509_NAME* name) {
  const bio out{BIO_new(BIO_s_mem())};
  X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : "no subject";
}

/// Clients that offer protocols must offer HTTP/1.1 (RFC 7301); clients may offer none.
int select_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                    const unsigned char* offered, unsigned int offered_size, void*) {
  static constexpr unsigned char served[] = "\x08http/1.1";
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, chosen_size, served, sizeof served - 1, offered, offered_size)
      != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

void set_rules(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(context, ciphers);
  // Otherwise a client could make the server compute handshakes endlessly within one connection.
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); // tickets hold what resumption needs
  SSL_CTX_set_alpn_select_cb(context, select_protocol, nullptr);
}

std::string date_text(system_clock::time_point time) {
  const std::time_t seconds = system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

} // namespace

tls_identity::tls_identity()
    : context_(std::make_unique<boost::asio::ssl::context>(boost::asio::ssl::context::tls_server)) {}

tls_identity::~tls_identity() = default;

std::shared_ptr<const tls_identity> tls_identity::load(const std::filesystem::path& certificate_file,
                                                       const std::filesystem::path& key_file) {
  const std::vector<certificate> chain = read_chain(certificate_file);
  const private_key key = read_key(key_file);
  X509* own = chain.front().get();
  if (X509_check_private_key(own, key.get()) != 1) {
    ERR_clear_error();
    throw wrong("tls-key-file", key_file,
                "is not the key of the certificate in " + certificate_file.string()
                    + "; give the two files of one pair");
  }
  std::shared_ptr<tls_identity> result(new tls_identity);
  SSL_CTX* context = result->context_->native_handle();
  set_rules(context);
  bool taken = SSL_CTX_use_certificate(context, own) == 1;
  for (std::size_t i = 1; taken && i < chain.size(); ++i)
    taken = SSL_CTX_add1_chain_cert(context, chain[i].get()) == 1;
  if (!taken || SSL_CTX_use_PrivateKey(context, key.get()) != 1)
    throw wrong("tls-cert-file", certificate_file,
                "is not accepted by OpenSSL: " + openssl_reason()
                    + "; use an ECDSA key, or RSA of at least 2048 bits");
  result->subject_ = text_of(X509_get_subject_name(own));
  result->not_before_ = time_of(X509_get0_notBefore(own));
  result->not_after_ = time_of(X509_get0_notAfter(own));
  return result;
}

std::string tls_identity::description() const {
  return "the certificate of " + subject_ + ", valid until " + date_text(not_after_);
}

std::string tls_identity::warning(system_clock::time_point now) const {
  if (has_expired(now))
    return "the certificate of " + subject_ + " expired at " + date_text(not_after_)
           + ": clients refuse it; renew it and send SIGHUP";
  if (now < not_before_)
    return "the certificate of " + subject_ + " is not valid before " + date_text(not_before_)
           + ": clients refuse it until then; check the clock";
  if (now + warn_before >= not_after_)
    return "the certificate of " + subject_ + " expires at " + date_text(not_after_)
           + "; renew it and send SIGHUP";
  return {};
}

} // namespace troupe::http
