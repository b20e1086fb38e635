// Flags, environment and file: their precedence, and the texts of refusals.
#include "services/options/option_parser.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "services/options/role_options.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::ThrowsMessage;

struct values {
  std::string model;
  std::string host = "127.0.0.1";
  std::string dtype = "auto";
  std::uint32_t port = 8000;
  std::uint64_t memory = 0;
  double ratio = 0.5;
  bool exact = true;
  std::vector<std::string> origins;
};

option_parser make_parser(values& v) {
  option_parser parser("troupe serve", "Serves a model.");
  parser.positional("MODEL_DIR", "the model", &v.model);
  parser.text("host", "HOST", "address", &v.host);
  parser.choice("dtype", {"auto", "float32"}, "type", &v.dtype);
  parser.number("port", "port", &v.port, 0, 65535);
  parser.bytes("kv-cache-memory", "memory", &v.memory);
  parser.real("ratio", "ratio", &v.ratio, 0, 1);
  parser.toggle("exact", "exactness", &v.exact);
  parser.list("origins", "ORIGIN", "origins", &v.origins,
              [](const std::string& entry, const std::string& source) {
                if (entry.empty())
                  throw option_error(source + ": an empty entry");
                return entry;
              });
  return parser;
}

std::string refusal(const std::vector<std::string>& arguments) {
  values v;
  try {
    make_parser(v).parse(arguments);
  } catch (const option_error& e) {
    return e.what();
  }
  return "accepted";
}

class option_files : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("troupe-options-" + std::to_string(getpid()) + ".json");
  }

  void TearDown() override {
    std::filesystem::remove(path_);
    unsetenv("TROUPE_PORT");
    unsetenv("TROUPE_DTYPE");
    unsetenv("TROUPE_CONFIG");
    unsetenv("TROUPE_EXPERT_WORKERS");
    unsetenv("TROUPE_ORIGINS");
    unsetenv("TROUPE_SERVICE_HOST");
  }

  void write(const std::string& text) { std::ofstream(path_) << text; }

  std::filesystem::path path_;
};

TEST(option_parser, assigns_every_kind_of_flag) {
  values v;
  EXPECT_EQ(make_parser(v).parse({"models/demo", "--host=::1", "--dtype", "float32", "--port", "0", "--ratio",
                                  "0.25", "--kv-cache-memory", "3M", "--exact", "false"}),
            option_parser::outcome::run);
  EXPECT_EQ(v.model, "models/demo");
  EXPECT_EQ(v.host, "::1");
  EXPECT_EQ(v.dtype, "float32");
  EXPECT_EQ(v.port, 0U);
  EXPECT_EQ(v.ratio, 0.25);
  EXPECT_EQ(v.memory, 3U << 20);
  EXPECT_FALSE(v.exact);
}

// `troupe up` passes every flag on as two words, even with an empty value.
TEST(option_parser, a_value_may_be_empty) {
  values two_words;
  make_parser(two_words).parse({"--host", "", "model"});
  EXPECT_EQ(two_words.host, "");
  EXPECT_EQ(two_words.model, "model");
  values one;
  make_parser(one).parse({"--host=", "model"});
  EXPECT_EQ(one.host, "");
}

TEST(option_parser, a_toggle_needs_no_value) {
  values v;
  v.exact = false;
  make_parser(v).parse({"--exact", "model"});
  EXPECT_TRUE(v.exact);
  EXPECT_EQ(v.model, "model");
}

TEST(option_parser, a_list_takes_its_flag_more_than_once_commas_and_arrays) {
  auto origins = [](const std::vector<std::string>& arguments) {
    values v;
    std::vector<std::string> all{"m"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    make_parser(v).parse(all);
    return v.origins;
  };
  EXPECT_THAT(origins({"--origins", "a", "--origins=b"}), ElementsAre("a", "b"));
  EXPECT_THAT(origins({"--origins", "a,b", "--origins", "c"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(origins({"--origins", R"(["a", "b,c"])"}), ElementsAre("a", "b,c"));
  EXPECT_THAT(origins({"--origins", ""}), IsEmpty());
  EXPECT_THAT(origins({"--origins", "[]"}), IsEmpty());
  EXPECT_THAT(refusal({"m", "--origins", "[1]"}),
              HasSubstr("--origins: '[1]' is not a JSON array of strings"));
  EXPECT_THAT(refusal({"m", "--origins", "a,,b"}), HasSubstr("--origins: an empty entry"));
}

TEST_F(option_files, a_list_of_a_stronger_source_replaces_one_of_a_weaker) {
  write(R"({"origins": ["f", "g"]})");
  values file;
  make_parser(file).parse({"m", "--config", path_.string()});
  EXPECT_THAT(file.origins, ElementsAre("f", "g"));
  setenv("TROUPE_ORIGINS", "e", 1);
  values environment;
  make_parser(environment).parse({"m", "--config", path_.string()});
  EXPECT_THAT(environment.origins, ElementsAre("e"));
  values flags;
  make_parser(flags).parse({"m", "--config", path_.string(), "--origins", "x", "--origins", "y"});
  EXPECT_THAT(flags.origins, ElementsAre("x", "y"));
}

TEST_F(option_files, a_variable_that_kubernetes_sets_for_a_service_is_no_flag) {
  setenv("TROUPE_PORT", "tcp://10.0.0.1:8000", 1);
  values v;
  EXPECT_EQ(make_parser(v).parse({"m"}), option_parser::outcome::run);
  EXPECT_EQ(v.port, 8000U);
  write(R"({"port": 17})");
  make_parser(v).parse({"m", "--config", path_.string()});
  EXPECT_EQ(v.port, 17U);
}

TEST(option_parser, prints_its_version) {
  values v;
  testing::internal::CaptureStdout();
  EXPECT_EQ(make_parser(v).parse({"--version"}), option_parser::outcome::help);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), std::string("troupe serve ") + program_version() + "\n");
  EXPECT_THAT(program_version(), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

TEST(option_parser, a_number_may_be_without_bound) {
  double rate = std::numeric_limits<double>::infinity();
  auto make = [&] {
    option_parser parser("test", "");
    parser.real("rate", "rate", &rate, 0, std::numeric_limits<double>::infinity());
    return parser;
  };
  EXPECT_THAT(make().help(), HasSubstr("rate (default: inf)"));
  make().parse({"--rate", "2.5"});
  EXPECT_EQ(rate, 2.5);
  make().parse({"--rate", "inf"});
  EXPECT_TRUE(std::isinf(rate));
  EXPECT_THAT(
      [&] {
        make().parse({"--rate", "-1"});
      },
      ThrowsMessage<option_error>("--rate: '-1' is not a number from 0.0 to inf"));
}

TEST(option_parser, names_what_it_refuses) {
  EXPECT_THAT(refusal({}), HasSubstr("MODEL_DIR is missing"));
  EXPECT_THAT(refusal({"m", "extra"}), HasSubstr("unexpected argument 'extra'"));
  EXPECT_THAT(refusal({"m", "--prot", "1"}), HasSubstr("unknown flag '--prot'"));
  EXPECT_THAT(refusal({"m", "--port"}), HasSubstr("--port: a value is missing"));
  EXPECT_THAT(refusal({"m", "--port", "65536"}),
              HasSubstr("--port: '65536' is not a number from 0 to 65535"));
  EXPECT_THAT(refusal({"m", "--port", "-1"}), HasSubstr("--port: '-1' is not a number"));
  EXPECT_THAT(refusal({"m", "--port", "80x"}), HasSubstr("--port: '80x'"));
  EXPECT_THAT(refusal({"m", "--dtype", "float16"}), HasSubstr("'float16' is not one of auto|float32"));
  EXPECT_THAT(refusal({"m", "--kv-cache-memory", "3Q"}), HasSubstr("--kv-cache-memory: '3Q' is not a size"));
  EXPECT_THAT(refusal({"m", "--kv-cache-memory", "99999999999T"}), HasSubstr("is not a size"));
  EXPECT_THAT(refusal({"m", "--exact=maybe"}), HasSubstr("'maybe' is not true or false"));
  EXPECT_THAT(refusal({"m", "--ratio", "nan"}), HasSubstr("--ratio: 'nan'"));
  EXPECT_THAT(refusal({"m", "-p", "1"}), HasSubstr("unknown flag '-p'"));
}

TEST_F(option_files, flags_win_over_environment_and_environment_over_file) {
  write(R"({"port": 1, "dtype": "float32", "host": "file", "exact": false})");
  setenv("TROUPE_PORT", "2", 1);
  setenv("TROUPE_DTYPE", "auto", 1);
  values v;
  make_parser(v).parse({"m", "--port", "3", "--config", path_.string()});
  EXPECT_EQ(v.port, 3U);
  EXPECT_EQ(v.dtype, "auto");
  EXPECT_EQ(v.host, "file");
  EXPECT_FALSE(v.exact);
}

TEST_F(option_files, the_file_can_be_named_by_the_environment) {
  write(R"({"port": 17})");
  setenv("TROUPE_CONFIG", path_.c_str(), 1);
  values v;
  make_parser(v).parse({"m"});
  EXPECT_EQ(v.port, 17U);
}

TEST_F(option_files, a_bad_file_is_named_with_its_key) {
  write(R"({"prot": 1})");
  EXPECT_THAT(refusal({"m", "--config", path_.string()}),
              HasSubstr(path_.string() + ": \"prot\" is not a flag"));
  write(R"({"port": [1]})");
  EXPECT_THAT(refusal({"m", "--config", path_.string()}), HasSubstr("\"port\": expected a string, a number"));
  write(R"({"port": )");
  EXPECT_THAT(refusal({"m", "--config", path_.string()}), HasSubstr("is not a JSON object"));
  EXPECT_THAT(refusal({"m", "--config", path_.string() + ".absent"}), HasSubstr("cannot read"));
}

TEST_F(option_files, a_bad_environment_variable_is_named) {
  setenv("TROUPE_PORT", "eighty", 1);
  EXPECT_THAT(refusal({"m"}), HasSubstr("environment variable TROUPE_PORT: 'eighty'"));
}

TEST_F(option_files, where_expert_workers_are_fixed_neither_flag_nor_environment_changes_them) {
  setenv("TROUPE_EXPERT_WORKERS", "4", 1);
  auto parse = [](expert_worker_count count, const std::vector<std::string>& arguments) {
    scheduler_options options;
    option_parser parser("test", "");
    options.declare(parser, count);
    parser.parse(arguments);
    return options.expert_workers;
  };
  EXPECT_EQ(parse(expert_worker_count::fixed, {}), 1U);
  EXPECT_THROW(parse(expert_worker_count::fixed, {"--expert-workers", "2"}), option_error);
  for (auto count : {expert_worker_count::awaited, expert_worker_count::started}) {
    EXPECT_EQ(parse(count, {}), 4U);
    EXPECT_EQ(parse(count, {"--expert-workers", "2"}), 2U);
  }
}

TEST(option_parser, help_lists_every_flag_with_its_default) {
  values v;
  std::string help = make_parser(v).help();
  EXPECT_THAT(help, HasSubstr("usage: troupe serve MODEL_DIR [flags]"));
  EXPECT_THAT(help, HasSubstr("--host HOST\n      address (default: 127.0.0.1)"));
  EXPECT_THAT(help, HasSubstr("--dtype auto|float32"));
  EXPECT_THAT(help, HasSubstr("--port N\n      port (default: 8000)"));
  v.memory = std::uint64_t{3} << 29;
  EXPECT_THAT(
      make_parser(v).help(),
      HasSubstr("--kv-cache-memory BYTES\n      memory; in bytes, or with K, M, G or T for powers of 1024 "
                "(default: 1536M)"));
}

TEST(host_port, splits_at_the_last_colon) {
  EXPECT_EQ(parse_host_port("[::1]:80", "--listen").host, "::1");
  EXPECT_EQ(parse_host_port("10.0.0.1:7000", "--listen").port, 7000);
  for (const char* bad : {"", ":1", "host", "host:", "host:x", "host:70000"})
    EXPECT_THROW(parse_host_port(bad, "--listen"), option_error) << bad;
}

TEST(host_port, is_written_with_brackets_around_an_ipv6_address) {
  EXPECT_EQ(host_port_text("::1", 80), "[::1]:80");
  EXPECT_EQ(host_port_text("[::1]", 80), "[::1]:80");
  EXPECT_EQ(host_port_text("127.0.0.1", 80), "127.0.0.1:80");
  EXPECT_EQ(host_port_text("localhost", 80), "localhost:80");
  EXPECT_EQ(without_brackets("[::1]"), "::1");
  EXPECT_EQ(without_brackets("::1"), "::1");
  EXPECT_EQ(without_brackets("[]"), "[]");
}

TEST(cluster_options, several_schedulers_are_listed_and_each_is_checked) {
  auto schedulers = [](const std::vector<std::string>& arguments) {
    cluster_options options;
    option_parser parser("test", "");
    options.declare(parser, /*is_scheduler=*/false, /*is_gateway=*/false);
    parser.parse(arguments);
    return options.schedulers;
  };
  EXPECT_THAT(schedulers({"--scheduler", "10.0.0.1:7000"}), ElementsAre("10.0.0.1:7000"));
  EXPECT_THAT(schedulers({"--scheduler", "10.0.0.1:7000,[::1]:7001"}),
              ElementsAre("10.0.0.1:7000", "[::1]:7001"));
  EXPECT_THAT(schedulers({"--scheduler", "a:1", "--scheduler", "b:2"}), ElementsAre("a:1", "b:2"));
  for (const char* bad : {"10.0.0.1", "a:1,b", "a:x", ":7000"}) {
    EXPECT_THAT(
        [&] {
          schedulers({"--scheduler", bad});
        },
        ThrowsMessage<option_error>(HasSubstr("--scheduler")))
        << bad;
  }
  EXPECT_THAT(
      [&] {
        schedulers({"--scheduler", "a:1,b:0"});
      },
      ThrowsMessage<option_error>("--scheduler: 'b:0' has port 0, which nobody can dial"));
}

TEST(cluster_options, a_metrics_port_is_a_number_any_or_none) {
  const auto port = [](const std::vector<std::string>& arguments) {
    cluster_options options;
    option_parser parser("test", "");
    options.declare(parser, /*is_scheduler=*/false, /*is_gateway=*/false);
    parser.parse(arguments);
    return options.metrics_port;
  };
  EXPECT_EQ(port({}), std::nullopt);
  EXPECT_EQ(port({"--metrics-port", "0"}), std::nullopt);
  EXPECT_EQ(port({"--metrics-port", "any"}), std::uint16_t{0});
  EXPECT_EQ(port({"--metrics-port", "7080"}), std::uint16_t{7080});
  EXPECT_EQ(port({"--metrics-port", "any", "--metrics-port", "7080"}), std::uint16_t{7080})
      << "a restart appends";
  for (const char* bad : {"65536", "-1", "some", ""})
    EXPECT_THAT(
        [&] {
          port({"--metrics-port", bad});
        },
        ThrowsMessage<option_error>(HasSubstr("--metrics-port")))
        << bad;
}

TEST(scheduler_options, a_standby_needs_a_directory_that_it_shares) {
  auto check = [](const std::vector<std::string>& arguments) {
    scheduler_options options;
    option_parser parser("test", "");
    options.declare(parser);
    parser.parse(arguments);
    options.check();
    return options.standby;
  };
  EXPECT_FALSE(check({}));
  EXPECT_TRUE(check({"--standby", "--state-dir", "/shared/state"}));
  EXPECT_THAT([&] { check({"--standby"}); },
              ThrowsMessage<option_error>(HasSubstr("--standby: --state-dir is missing")));
}

TEST(scheduler_options, the_planner_is_on_and_its_numbers_have_bounds) {
  auto parsed = [](const std::vector<std::string>& arguments) {
    scheduler_options options;
    option_parser parser("test", "");
    options.declare(parser);
    parser.parse(arguments);
    return std::tuple(options.planner, options.planner_imbalance, options.planner_spare,
                      options.planner_utilization);
  };
  EXPECT_EQ(parsed({}), std::tuple("on", 1.15, 0.25, 0.6));
  EXPECT_EQ(parsed({"--planner", "off", "--planner-imbalance", "1.5", "--planner-spare", "0",
                    "--planner-utilization", "1"}),
            std::tuple("off", 1.5, 0.0, 1.0));
  for (const auto& [flag, value] :
       {std::pair{"--planner", "maybe"}, std::pair{"--planner-imbalance", "0.9"},
        std::pair{"--planner-imbalance", "high"}, std::pair{"--planner-spare", "-1"},
        std::pair{"--planner-utilization", "0"}, std::pair{"--planner-utilization", "1.1"}})
    EXPECT_THAT(([&, flag = flag, value = value] {
                  parsed({flag, value});
                }),
                ThrowsMessage<option_error>(HasSubstr(flag)))
        << value;
}

TEST(gateway_options, origins_are_as_browsers_write_them) {
  auto origins = [](const std::string& value) {
    gateway_options options;
    option_parser parser("test", "");
    options.declare(parser);
    parser.parse({"--allowed-origins", value});
    return options.allowed_origins;
  };
  EXPECT_THAT(origins("https://App.Example,http://localhost:3000"),
              ElementsAre("https://app.example", "http://localhost:3000"));
  EXPECT_THAT(origins("*"), ElementsAre("*"));
  EXPECT_THAT(origins("null"), ElementsAre("null"));
  for (const char* bad : {"app.example", "https://app.example/", "https://app.example/chat", "https://",
                          "://x", "https://*.example", "https://a b"}) {
    EXPECT_THAT([&] { origins(bad); }, ThrowsMessage<option_error>(HasSubstr(
                                           "--allowed-origins: '" + std::string(bad) + "' is no origin")));
  }
}

} // namespace
} // namespace troupe
