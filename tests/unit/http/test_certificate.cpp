#include "tests/unit/http/test_certificate.hpp"

#include <cstring>
#include <memory>
#include <stdexcept>

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace troupe::http_test {

namespace {

void require_done(bool done, const char* what) {
  if (!done)
    throw std::runtime_error(std::string("test certificate: ") + what);
}

void add_extension(X509* certificate, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, void (*)(X509_EXTENSION*)> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()), X509_EXTENSION_free);
  require_done(extension && X509_add_ext(certificate, extension.get(), -1) == 1, "extension");
}

template <class Write>
void write_file(const std::filesystem::path& file, Write&& write) {
  const std::unique_ptr<BIO, int (*)(BIO*)> out(BIO_new_file(file.c_str(), "w"), BIO_free);
  require_done(out && write(out.get()) == 1, "cannot write");
  std::filesystem::permissions(file,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

} // namespace

certificate_files make_certificate(const std::filesystem::path& folder, const std::string& name,
                                   std::chrono::seconds to, std::chrono::seconds from,
                                   const char* passphrase) {
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(X509_new(), X509_free);
  require_done(key && certificate, "no memory");
  X509* const one = certificate.get();
  X509_set_version(one, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(one), 1);
  X509_gmtime_adj(X509_getm_notBefore(one), from.count());
  X509_gmtime_adj(X509_getm_notAfter(one), to.count());
  X509_NAME* const subject = X509_get_subject_name(one);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(one, subject);
  X509_set_pubkey(one, key.get());
  add_extension(one, NID_subject_alt_name, "DNS:" + name + ",IP:127.0.0.1");
  add_extension(one, NID_basic_constraints, "critical,CA:TRUE");
  require_done(X509_sign(one, key.get(), EVP_sha256()) > 0, "cannot sign");
  certificate_files files{folder / (name + ".pem"), folder / (name + ".key")};
  write_file(files.certificate, [&](BIO* out) { return PEM_write_bio_X509(out, one); });
  write_file(files.key, [&](BIO* out) {
    return PEM_write_bio_PKCS8PrivateKey(
        out, key.get(), passphrase == nullptr ? nullptr : EVP_aes_256_cbc(), passphrase,
        passphrase == nullptr ? 0 : static_cast<int>(std::strlen(passphrase)), nullptr, nullptr);
  });
  return files;
}

} // namespace troupe::http_test
