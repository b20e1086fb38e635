// Files of certificates and keys: what is accepted, and the errors for operators.
#include "services/gateway/http/tls_identity.hpp"

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/options/option_parser.hpp"
#include "tests/unit/http/test_certificate.hpp"

namespace troupe::http_test {

namespace {

using http::tls_identity;
using std::chrono::hours;
using std::chrono::system_clock;
namespace fs = std::filesystem;

class tls_identity_test : public testing::Test {
 protected:
  tls_identity_test() {
    std::string pattern = (fs::temp_directory_path() / "troupe-identity-XXXXXX").string();
    folder = mkdtemp(pattern.data());
    pair = make_certificate(folder, "gateway");
  }

  ~tls_identity_test() override { fs::remove_all(folder); }

  /// The error for these two files; empty if they are accepted.
  static std::string error_of(const fs::path& certificate, const fs::path& key) {
    try {
      tls_identity::load(certificate, key);
      return "";
    } catch (const option_error& error) {
      return error.what();
    }
  }

  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name) << text;
    fs::permissions(folder / name, fs::perms::owner_read | fs::perms::owner_write);
    return folder / name;
  }

  static std::string text_of(const fs::path& file) {
    std::ifstream in{file};
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path folder;
  certificate_files pair;
};

} // namespace

TEST_F(tls_identity_test, says_whose_it_is_and_until_when) {
  const auto before = system_clock::now();
  const auto files = make_certificate(folder, "api.example", hours{24 * 60});
  const auto identity = tls_identity::load(files.certificate, files.key);
  EXPECT_EQ(identity->subject(), "CN = api.example");
  EXPECT_LE(identity->not_before(), before);
  EXPECT_GT(identity->not_after(), before + hours{24 * 60 - 1});
  EXPECT_LT(identity->not_after(), system_clock::now() + hours{24 * 60 + 1});
  EXPECT_THAT(identity->description(),
              testing::MatchesRegex("the certificate of CN = api.example, valid until 20[0-9-]+T[0-9:]+Z"));
}

TEST_F(tls_identity_test, a_chain_may_follow_and_other_text_lie_between) {
  const auto root = make_certificate(folder, "root");
  const fs::path chain = write("chain.pem", "the server\n" + text_of(pair.certificate) + "its root\n"
                                                + text_of(root.certificate));
  EXPECT_EQ(error_of(chain, pair.key), "");
  EXPECT_EQ(tls_identity::load(chain, pair.key)->subject(), "CN = gateway");
}

TEST_F(tls_identity_test, files_that_cannot_be_read_are_named) {
  const fs::path none = folder / "none.pem";
  EXPECT_EQ(error_of(none, pair.key),
            "--tls-cert-file: " + none.string() + " cannot be read: No such file or directory");
  EXPECT_EQ(error_of(pair.certificate, none),
            "--tls-key-file: " + none.string() + " cannot be read: No such file or directory");
  EXPECT_THAT(error_of(folder, pair.key),
              testing::StartsWith("--tls-cert-file: " + folder.string() + " cannot be read"));
}

TEST_F(tls_identity_test, files_of_something_else_are_named) {
  EXPECT_THAT(error_of(pair.key, pair.key),
              testing::StartsWith("--tls-cert-file: " + pair.key.string() + " holds no certificate"));
  EXPECT_THAT(
      error_of(pair.certificate, write("no.key", "no key")),
      testing::StartsWith("--tls-key-file: " + (folder / "no.key").string() + " holds no private key"));
  const std::string whole = text_of(pair.certificate);
  const fs::path damaged =
      write("damaged.pem", whole + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  EXPECT_THAT(error_of(damaged, pair.key),
              testing::StartsWith("--tls-cert-file: " + damaged.string()
                                  + " is malformed: certificate 2 cannot be read"));
}

TEST_F(tls_identity_test, a_key_that_others_can_read_is_refused) {
  fs::permissions(pair.key, fs::perms::group_read, fs::perm_options::add);
  EXPECT_EQ(error_of(pair.certificate, pair.key),
            "--tls-key-file: " + pair.key.string() + " is open to other users; chmod 600 it");
}

TEST_F(tls_identity_test, a_key_with_a_passphrase_is_refused) {
  const auto files = make_certificate(folder, "secret", hours{24}, hours{-1}, "open sesame");
  EXPECT_THAT(error_of(files.certificate, files.key),
              testing::StartsWith("--tls-key-file: " + files.key.string() + " is protected by a passphrase"));
}

TEST_F(tls_identity_test, a_key_of_another_certificate_is_refused) {
  const auto other = make_certificate(folder, "other");
  EXPECT_EQ(error_of(pair.certificate, other.key),
            "--tls-key-file: " + other.key.string() + " is not the key of the certificate in "
                + pair.certificate.string() + "; give the two files of one pair");
}

TEST_F(tls_identity_test, warns_of_certificates_that_are_not_valid_or_not_for_long) {
  const auto now = system_clock::now();
  const auto warning_of = [&](hours to, hours from = hours{-1}) {
    const auto files = make_certificate(folder, "dated", to, from);
    return tls_identity::load(files.certificate, files.key)->warning(now);
  };
  EXPECT_EQ(warning_of(hours{24 * 15}), "");
  EXPECT_THAT(
      warning_of(hours{24 * 13}),
      testing::MatchesRegex("the certificate of CN = dated expires at 20[^ ]+Z; renew it and send SIGHUP"));
  EXPECT_THAT(
      warning_of(hours{-1}, hours{-2}),
      testing::MatchesRegex("the certificate of CN = dated expired at 20[^ ]+Z: clients refuse it; renew "
                            "it and send SIGHUP"));
  EXPECT_THAT(
      warning_of(hours{24 * 30}, hours{24}),
      testing::MatchesRegex("the certificate of CN = dated is not valid before 20[^ ]+Z: clients refuse "
                            "it until then; check the clock"));
  const auto expired = make_certificate(folder, "expired", hours{-1}, hours{-2});
  EXPECT_TRUE(tls_identity::load(expired.certificate, expired.key)->has_expired(now));
}

} // namespace troupe::http_test
