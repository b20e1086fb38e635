// Which flags of `troupe up` reach the processes that it starts.
#include "services/troupe/up_flags.hpp"

#include <map>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe {
namespace {

using ::testing::ElementsAre;

using flag_values = std::map<std::string, std::string>;

/// Of "--name value" pairs.
flag_values values_in(const std::vector<std::string>& words) {
  flag_values values;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2)
    values[words[i].substr(2)] = words[i + 1];
  return values;
}

/// A value that the flag may have, other than its default, as `words()` writes it.
std::string another_value(const option_description& flag) {
  const std::map<std::string, std::string> by_placeholder{
      {"N", "25"}, // more threads and ports than one process has by default
      {"X", "1.0"},
      {"BYTES", "3M"},
      {"PORT", "7080"},
      {"ADDRESS", R"(["10.0.0.0/8"])"},
      {"HOST", R"(["example.com"])"},
      {"ORIGIN", R"(["https://example.com"])"}};
  if (flag.is_toggle)
    return flag.default_text == "true" ? "false" : "true";
  if (flag.placeholder == "HOST" && !flag.default_text.empty())
    return "::1";
  if (const auto found = by_placeholder.find(flag.placeholder); found != by_placeholder.end())
    return found->second;
  std::istringstream words(flag.placeholder);
  for (std::string word; flag.placeholder.find('|') != std::string::npos && std::getline(words, word, '|');)
    if (word != flag.default_text && (word[0] < 'A' || word[0] > 'Z'))
      return word;
  return "some-" + flag.name;
}

/// `troupe up` with another value for each flag.
class changed_flags {
 public:
  changed_flags() {
    option_parser parser("troupe up", "");
    flags_.declare(parser);
    std::vector<std::string> words{"."};
    for (const auto& flag : parser.describe().options) {
      if (flag.name == "config")
        continue;
      values_[flag.name] =
          flag.name == "micro-batches" || flag.name == "schedulers" ? "4" : another_value(flag);
      words.insert(words.end(), {"--" + flag.name, values_[flag.name]});
    }
    parser.parse(words);
  }

  const up_flags& flags() const { return flags_; }

  /// Expects of each flag that both the role and `troupe up` have that the role gets it, unless it is among
  /// `own`, and nothing that the role would refuse.
  template <class Declare>
  void expect_reach(const std::vector<std::string>& words, const Declare& declare,
                    const std::set<std::string>& own) const {
    option_parser role("role", "");
    declare(role);
    EXPECT_EQ(role.parse(words), option_parser::outcome::run);
    const auto passed = values_in(words);
    for (const auto& [name, value] : values_)
      if (role.has(name) && !own.contains(name))
        EXPECT_EQ(passed.contains(name) ? passed.at(name) : "nothing", value) << name;
  }

 private:
  up_flags flags_;
  flag_values values_;
};

/// What a worker's --drain-timeout means is another thing than what a gateway's does.
const std::set<std::string> own_of_workers{"threads", "cores", "drain-timeout", "reload-interval",
                                           // which local_cluster passes on
                                           "shared-memory", "metrics-prefix"};

template <class Role>
auto declare_worker(Role& role) {
  return [&role](option_parser& parser) {
    static model_options model;
    static cluster_options cluster;
    static log_options logs;
    static trace_options traces;
    model.declare(parser);
    role.declare(parser);
    cluster.declare(parser, /*is_scheduler=*/false, /*is_gateway=*/false);
    logs.declare(parser);
    traces.declare(parser);
  };
}

TEST(up_flags, each_flag_of_an_expert_worker_reaches_it) {
  expert_options got;
  const changed_flags changed;
  changed.expect_reach(changed.flags().expert_words(0), declare_worker(got), own_of_workers);
  EXPECT_EQ(got.expert_memory, 3U << 20);
}

TEST(up_flags, each_flag_of_an_attention_worker_reaches_it) {
  attention_options got;
  const changed_flags changed;
  changed.expect_reach(changed.flags().attention_words(0), declare_worker(got), own_of_workers);
  EXPECT_EQ(got.max_num_seqs, 25U);
}

TEST(up_flags, each_flag_of_a_gateway_reaches_it) {
  model_options model;
  gateway_options got;
  cluster_options cluster;
  log_options logs;
  trace_options traces;
  const auto declare = [&](option_parser& parser) {
    model.declare(parser);
    got.declare(parser);
    cluster.declare(parser, /*is_scheduler=*/false, /*is_gateway=*/true);
    logs.declare(parser);
    traces.declare(parser);
  };
  const changed_flags changed;
  changed.expect_reach(changed.flags().gateway_words(0), declare, {"threads", "cores", "shared-memory"});
  EXPECT_EQ(model.threads, 1U);
  EXPECT_EQ(model.cores, "any");
  EXPECT_THAT(got.allowed_origins, ElementsAre("https://example.com"));
  changed.expect_reach(changed.flags().gateway_words(2), declare,
                       {"threads", "cores", "shared-memory", "port", "management-port"});
  EXPECT_EQ(got.port, 27U);
  EXPECT_EQ(got.management_port, 27U);
}

TEST(up_flags, each_flag_of_a_scheduler_reaches_it) {
  scheduler_options got;
  cluster_options cluster;
  log_options logs;
  trace_options traces;
  const auto declare = [&](option_parser& parser) {
    got.declare(parser);
    cluster.declare(parser, /*is_scheduler=*/true, /*is_gateway=*/false);
    logs.declare(parser);
    traces.declare(parser);
  };
  const changed_flags changed;
  // The name is the first of several.
  changed.expect_reach(changed.flags().scheduler_words(), declare,
                       {"reload-interval", "shared-memory", "metrics-prefix", "served-model-name"});
  EXPECT_TRUE(got.standby);
  EXPECT_EQ(got.planner_imbalance, 1.0);
}

TEST(up_flags, ports_that_are_counted_up_end_at_65535) {
  up_flags flags;
  flags.up.gateways = 3;
  flags.gateway.port = 65533;
  flags.check_ports();
  flags.gateway.port = 0;
  flags.check_ports();
  flags.gateway.port = 65534;
  EXPECT_THROW(flags.check_ports(), option_error);
}

} // namespace
} // namespace troupe
