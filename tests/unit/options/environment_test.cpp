// Environment variables that look like flags and are none.
#include "services/options/environment.hpp"

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/options/role_options.hpp"

namespace troupe {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

/// Sets variables for the life of a test.
class environment_test : public ::testing::Test {
 protected:
  void set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    names_.push_back(name);
  }

  void TearDown() override {
    for (const auto& name : names_)
      unsetenv(name.c_str());
  }

  unread_variables find() const {
    gateway_options options;
    option_parser parser("test", "");
    options.declare(parser);
    return find_unread_variables(parser);
  }

 private:
  std::vector<std::string> names_;
};

// What Kubernetes 1.33 sets for a Service named `troupe` with the port `http` 8000.
const std::map<std::string, std::string> service_troupe{
    {"TROUPE_SERVICE_HOST", "10.0.0.1"},
    {"TROUPE_SERVICE_PORT", "8000"},
    {"TROUPE_SERVICE_PORT_HTTP", "8000"},
    {"TROUPE_PORT", "tcp://10.0.0.1:8000"},
    {"TROUPE_PORT_8000_TCP", "tcp://10.0.0.1:8000"},
    {"TROUPE_PORT_8000_TCP_PROTO", "tcp"},
    {"TROUPE_PORT_8000_TCP_PORT", "8000"},
    {"TROUPE_PORT_8000_TCP_ADDR", "10.0.0.1"},
};

TEST_F(environment_test, services_of_kubernetes_are_told_apart_from_flags) {
  for (const auto& [name, value] : service_troupe)
    EXPECT_TRUE(is_service_link(name, value)) << name;
  // A Service named troupe-metrics would set --metrics-port.
  EXPECT_TRUE(is_service_link("TROUPE_METRICS_PORT", "tcp://10.0.0.1:9090"));
  EXPECT_TRUE(is_service_link("TROUPE_DNS_PORT_53_UDP_ADDR", "10.0.0.1"));
  EXPECT_FALSE(is_service_link("TROUPE_PORT", "8000"));
  EXPECT_FALSE(is_service_link("TROUPE_PORT", "eighty"));
  EXPECT_FALSE(is_service_link("TROUPE_DATA_PORTS", "20000-20099"));
  EXPECT_FALSE(is_service_link("TROUPE_HOST", "tcp://10.0.0.1:8000"));
  EXPECT_FALSE(is_service_link("TROUPE_PORT__TCP", "x"));
}

TEST_F(environment_test, what_is_not_read_is_named_in_one_line_of_a_kind) {
  EXPECT_THAT(find().notes(), IsEmpty());
  for (const auto& [name, value] : service_troupe)
    set(name, value);
  set("TROUPE_HOST", "127.0.0.1");   // a flag of this program
  set("TROUPE_MAX_NUM_SEQS", "4");   // of others
  set("TROUPE_EXPERT_WORKERS", "4"); // of others
  set("TROUPE_GATEWAYS", "2");       // of `troupe up` alone
  set("TROUPE_SPECIAL_TOKENS", "1"); // of `troupe tokenize`
  set("TROUPE_FUZZ_SECONDS", "5");   // of tests/run.sh, as the next two
  set("TROUPE_FUZZ_SEED", "7");
  set("TROUPE_TEST_JOBS", "2");
  set("TROUPE_MAX_NUM_SEQUENCES", "4");
  set("TROUPE_DTYP", "auto");
  const auto found = find();
  EXPECT_THAT(found.unknown, UnorderedElementsAre("TROUPE_MAX_NUM_SEQUENCES", "TROUPE_DTYP"));
  EXPECT_EQ(found.service_links.size(), service_troupe.size());
  EXPECT_EQ(found.notes().size(), 2U);
  EXPECT_EQ((unread_variables{{"TROUPE_PORT", "TROUPE_SERVICE_HOST"}, {"TROUPE_DTYP"}}.notes()),
            (std::vector<std::string>{"ignored, since Kubernetes sets them for a Service: TROUPE_PORT, "
                                      "TROUPE_SERVICE_HOST",
                                      "no flag is set by TROUPE_DTYP; misspelt?"}));
  found.remove();
  EXPECT_THAT(find().notes(), IsEmpty());
  EXPECT_STREQ(std::getenv("TROUPE_HOST"), "127.0.0.1");
}

} // namespace
} // namespace troupe
