// Shell completion: the scripts are run by the shells themselves, if installed.
#include "services/manual/completion.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/manual/value_kinds.hpp"

namespace troupe::manual {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

option_description option(std::string name, std::string placeholder) {
  return {std::move(name), std::move(placeholder), "it's [what]: it \"says\"; more", "", false};
}

programs_type programs() {
  command_description serve{"troupe serve", "serve a model", "", {{"MODEL_DIR", "the model"}}, {}, {}, ""};
  serve.options = {
      option("config", "FILE"),           option("cache", "DIR"), option("dtype", "auto|float32|bfloat16"),
      option("access-log", "FILE|-|off"), option("port", "N"),    {"standby", "", "waits", "", true}};
  command_description move{"troupe placement move", "move one", "", {}, {option("layer", "N")}, {}, ""};
  command_description assign{"troupe placement assign", "assign", "", {{"FILE", "a file"}}, {}, {}, ""};
  command_description placement{"troupe placement",     "placement",    "", {},
                                {option("url", "URL")}, {move, assign}, ""};
  command_description status{"troupe status", "status", "", {}, {}, {}, ""};
  command_description troupe{"troupe", "all of it", "", {}, {}, {serve, status, placement}, ""};
  return {troupe, {"troupe-load", "asks", "", {}, {option("mode", "on|off")}, {}, ""}};
}

/// A folder with two files and a folder in it, with the scripts.
class completion : public ::testing::Test {
 protected:
  completion() {
    std::string pattern = (std::filesystem::temp_directory_path() / "troupe-completion-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("no folder");
    folder_ = pattern;
    std::filesystem::create_directories(folder_ / "home" / "a folder");
    std::ofstream(folder_ / "home" / "a file.json") << "{}";
    std::ofstream(folder_ / "home" / "other.json") << "{}";
    std::ofstream(folder_ / "bash") << bash_completion(programs());
    std::ofstream(folder_ / "zsh") << zsh_completion(programs());
    std::ofstream(folder_ / "fish") << fish_completion(programs());
  }

  ~completion() override { std::filesystem::remove_all(folder_); }

  /// The lines that a shell prints.
  /// @param script  its text; a file, since words of it have quotes
  std::vector<std::string> lines_of(const std::string& shell, const std::string& script) const {
    std::ofstream(folder_ / "script") << script;
    FILE* const pipe = ::popen((shell + " " + (folder_ / "script").string() + " 2>&1").c_str(), "r");
    if (pipe == nullptr)
      throw std::runtime_error("no " + shell);
    std::string output;
    std::array<char, 4096> part{};
    while (std::fgets(part.data(), part.size(), pipe) != nullptr)
      output += part.data();
    EXPECT_EQ(::pclose(pipe), 0) << output;
    std::istringstream in(output);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);)
      lines.push_back(line);
    return lines;
  }

  /// Bash's offers after these words, of which the last one is incomplete.
  std::vector<std::string> offered(const std::vector<std::string>& words) const {
    std::string typed;
    for (const std::string& word : words)
      typed += " " + quoted(word);
    return lines_of("bash",
                    "set -eu\ncd " + quoted((folder_ / "home").string()) + "\n. ../bash\nCOMP_WORDS=(" + typed
                        + ")\nCOMP_CWORD=" + std::to_string(words.size() - 1)
                        + "\n_troupe_complete\nfor one in \"${COMPREPLY[@]}\"; do echo \"$one\"; done\n");
  }

  /// With CI=true the shell must be installed: otherwise a missing test would go unnoticed.
  static bool is_here(const std::string& shell) {
    const bool is_found = std::system(("command -v " + shell + " > /dev/null").c_str()) == 0;
    const char* const ci = std::getenv("CI");
    EXPECT_TRUE(is_found || ci == nullptr || std::string(ci) != "true")
        << shell << " is missing: run deploy/install-deps.sh test";
    return is_found;
  }

  std::filesystem::path folder_;
};

TEST_F(completion, bash_offers_commands_first) {
  EXPECT_THAT(offered({"troupe", ""}), ElementsAre("serve", "status", "placement"));
  EXPECT_THAT(offered({"troupe", "s"}), ElementsAre("serve", "status"));
  EXPECT_THAT(offered({"/usr/bin/troupe", "se"}), ElementsAre("serve"));
  EXPECT_THAT(offered({"troupe", "placement", ""}), ElementsAre("move", "assign"));
  EXPECT_THAT(offered({"troupe", "serve", "s"}), IsEmpty()) << "that is another command's place";
}

TEST_F(completion, bash_offers_the_flags_of_the_command) {
  EXPECT_THAT(offered({"troupe", "serve", "--"}),
              ElementsAre("--config", "--cache", "--dtype", "--access-log", "--port", "--standby", "--help",
                          "--version"));
  EXPECT_THAT(offered({"troupe", "serve", "model", "--port", "1", "--d"}), ElementsAre("--dtype"));
  EXPECT_THAT(offered({"troupe", "placement", "--u"}), ElementsAre("--url"));
  EXPECT_THAT(offered({"troupe", "placement", "move", "--l"}), ElementsAre("--layer"));
  EXPECT_THAT(offered({"troupe-load", "--m"}), ElementsAre("--mode"));
}

TEST_F(completion, bash_offers_what_a_flag_takes) {
  EXPECT_THAT(offered({"troupe", "serve", "--dtype", ""}), ElementsAre("auto", "float32", "bfloat16"));
  EXPECT_THAT(offered({"troupe", "serve", "--dtype", "b"}), ElementsAre("bfloat16"));
  EXPECT_THAT(offered({"troupe", "serve", "--dtype", "=", "b"}), ElementsAre("bfloat16"));
  EXPECT_THAT(offered({"troupe", "serve", "--dtype", "="}), ElementsAre("auto", "float32", "bfloat16"));
  EXPECT_THAT(offered({"troupe", "serve", "--config", "o"}), ElementsAre("other.json"));
  EXPECT_THAT(offered({"troupe", "serve", "--config", "a"}),
              ::testing::UnorderedElementsAre("a file.json", "a folder"));
  EXPECT_THAT(offered({"troupe", "serve", "--cache", "a"}), ElementsAre("a folder"));
  EXPECT_THAT(offered({"troupe", "serve", "--access-log", "o"}), ElementsAre("off", "other.json"));
  EXPECT_THAT(offered({"troupe", "serve", "--port", ""}), IsEmpty());
  EXPECT_THAT(offered({"troupe", "serve", "--standby", "--po"}), ElementsAre("--port"));
}

TEST_F(completion, bash_offers_what_an_argument_can_be) {
  EXPECT_THAT(offered({"troupe", "serve", ""}), ElementsAre("a folder"));
  EXPECT_THAT(offered({"troupe", "placement", "assign", "o"}), ElementsAre("other.json"));
  EXPECT_THAT(offered({"troupe", "status", ""}), IsEmpty());
}

TEST_F(completion, zsh_can_read_its_script) {
  if (!is_here("zsh"))
    GTEST_SKIP() << "needs zsh";
  EXPECT_THAT(lines_of("zsh -n " + (folder_ / "zsh").string(), ""), IsEmpty());
}

TEST_F(completion, fish_offers_commands_flags_and_values) {
  if (!is_here("fish"))
    GTEST_SKIP() << "needs fish";
  const auto offers = [this](const std::string& line) {
    std::vector<std::string> words;
    for (const std::string& one :
         lines_of("env HOME=" + folder_.string() + " fish", "source " + (folder_ / "fish").string() + "\ncd "
                                                                + (folder_ / "home").string()
                                                                + "\ncomplete -C " + quoted(line) + "\n"))
      words.push_back(one.substr(0, one.find('\t')));
    return words;
  };
  EXPECT_THAT(offers("troupe s"), ElementsAre("serve", "status"));
  EXPECT_THAT(offers("troupe placement m"), ElementsAre("move"));
  EXPECT_THAT(offers("troupe serve --dt"), ElementsAre("--dtype"));
  EXPECT_THAT(offers("troupe serve --dtype f"), ElementsAre("float32"));
  EXPECT_THAT(offers("troupe status --dt"), IsEmpty());
  EXPECT_THAT(offers("troupe-load --mode o"), ::testing::UnorderedElementsAre("on", "off"));
}

TEST(value_kinds, are_what_placeholders_say) {
  EXPECT_THAT(kind_of_value("auto|cpu|cuda[:N]").words, ElementsAre("auto", "cpu", "cuda"));
  EXPECT_THAT(kind_of_value("LIST|any|auto").words, ElementsAre("any", "auto"));
  EXPECT_TRUE(kind_of_value("FILE|-|off").files);
  EXPECT_TRUE(kind_of_value("MODEL_DIR").folders);
  EXPECT_TRUE(kind_of_value("FILE|DIR").folders);
  for (const char* unknown : {"N", "HOST:PORT", "LO:HI", ""}) {
    const auto kind = kind_of_value(unknown);
    EXPECT_TRUE(kind.words.empty() && !kind.files && !kind.folders) << unknown;
  }
}

TEST(short_help, is_the_first_clause) {
  EXPECT_EQ(short_help("a file; read again"), "a file");
  const std::string cut = short_help(std::string(10, 'a') + " " + std::string(80, 'b'));
  EXPECT_EQ(cut, std::string(10, 'a') + " ...");
  EXPECT_EQ(short_help(std::string(72, 'a') + " b"), std::string(72, 'a') + " ...") << "the word fits";
}

TEST(short_help, cuts_a_single_long_word) {
  EXPECT_EQ(short_help(std::string(80, 'a')), std::string(72, 'a') + " ...");
  std::string euros;
  for (int i = 0; i < 80; ++i)
    euros += "\u20ac";
  EXPECT_EQ(short_help(euros), euros.substr(0, 72 * 3) + " ...") << "between characters";
}

} // namespace
} // namespace troupe::manual
