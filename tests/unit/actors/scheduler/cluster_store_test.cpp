#include "actors/scheduler/cluster_store.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "actors/state/durable_file.hpp"
#include "actors/state/file_format.hpp"
#include "tests/unit/actors/placement_edits.hpp"

namespace troupe {
namespace {

stored_cluster sample_cluster() {
  return {.identity = {"model \"a\"", "cpu/float32", "cuda/float32", {2, 0}},
          .experts = {3, 4, {shared_layer({(3ULL << 32U) + 4, {{{{11}, {12}}}, {}}}), shared_layer({1, {}})}},
          .workers = {{{11}, worker_role::expert, "expert-0", "10.0.0.1:7000"},
                      {{1}, worker_role::attention, "attention-0", ""}},
          .traced_ppm = 10'000};
}

std::string read(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

class cluster_store_test : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    directory = ::testing::TempDir() + "troupe-store-" + info->name();
    std::filesystem::remove_all(directory);
  }

  void TearDown() override { std::filesystem::remove_all(directory); }

  std::string directory;
};

TEST_F(cluster_store_test, an_empty_directory_is_a_first_start) {
  const auto recovered = cluster_store{directory + "/deep"}.load();
  EXPECT_EQ(recovered.term, 0U);
  EXPECT_FALSE(recovered.cluster);
  EXPECT_TRUE(recovered.problems.empty());
}

TEST_F(cluster_store_test, gives_back_what_was_saved) {
  const cluster_store store{directory};
  store.save_term(7);
  store.save(sample_cluster());
  const auto recovered = store.load();
  EXPECT_EQ(recovered.term, 7U);
  ASSERT_TRUE(recovered.cluster);
  EXPECT_EQ(*recovered.cluster, sample_cluster());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{directory}, {}), 2) << "nothing else";
}

TEST_F(cluster_store_test, the_placement_alone_gives_its_term) {
  const cluster_store store{directory};
  store.save(sample_cluster());
  EXPECT_EQ(store.load().term, 3U);
}

TEST_F(cluster_store_test, every_damaged_byte_is_noticed) {
  const auto text = render(sample_cluster());
  for (std::size_t at = 0; at < text.size(); ++at) {
    auto damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_THROW(parse_stored_cluster(damaged), std::runtime_error) << at;
    EXPECT_THROW(parse_stored_cluster(text.substr(0, at)), std::runtime_error) << at;
  }
  EXPECT_EQ(parse_stored_cluster(text), sample_cluster());
}

TEST_F(cluster_store_test, a_damaged_file_is_named_once_and_the_other_still_used) {
  const cluster_store store{directory};
  store.save_term(7);
  store.save(sample_cluster());
  std::ofstream{directory + "/placement", std::ios::app} << "more";
  auto recovered = store.load();
  EXPECT_EQ(recovered.term, 7U);
  EXPECT_FALSE(recovered.cluster);
  ASSERT_EQ(recovered.problems.size(), 1U);
  EXPECT_EQ(recovered.problems[0], "the stored placement '" + directory
                                       + "/placement' is not used: the checksum does not match the content");
  store.save(sample_cluster());
  std::ofstream{directory + "/term"} << "7";
  recovered = store.load();
  EXPECT_EQ(recovered.term, 3U);
  ASSERT_EQ(recovered.problems.size(), 1U);
}

/// What `work` throws as `later_format`; empty when it throws nothing.
template <class Work>
std::string refusal_of(Work work) {
  try {
    work();
  } catch (const later_format& refused) {
    return refused.what();
  }
  return {};
}

TEST_F(cluster_store_test, files_of_a_later_version_are_refused_and_left_alone) {
  const cluster_store store{directory};
  store.save_term(7);
  store.save(sample_cluster());
  EXPECT_EQ(refusal_of([&] { store.load(); }), "");
  for (const std::string file : {"term", "placement"}) {
    const auto path = directory + "/" + file;
    const auto before = read(path);
    std::ofstream{path} << "troupe-" + file + " 3\nwhatever\n";
    const auto refusal = refusal_of([&] { store.load(); });
    EXPECT_NE(refusal.find(path), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("its format is 3"), std::string::npos) << refusal;
    EXPECT_EQ(read(path), "troupe-" + file + " 3\nwhatever\n");
    std::ofstream{path} << before;
  }
}

TEST_F(cluster_store_test, a_later_version_may_add_lines_at_the_end) {
  const auto text = render(sample_cluster());
  const auto body = text.substr(0, text.rfind("checksum ")) + "novelty 1 2\n";
  std::ostringstream sum;
  sum << "checksum " << std::hex << checksum_of(body) << '\n';
  EXPECT_EQ(parse_stored_cluster(body + sum.str()), sample_cluster());
}

TEST_F(cluster_store_test, a_half_written_successor_changes_nothing) {
  const cluster_store store{directory};
  store.save(sample_cluster());
  std::ofstream{directory + "/placement.new-abcdef"} << "troupe-pla";
  EXPECT_EQ(*store.load().cluster, sample_cluster());
  EXPECT_FALSE(std::filesystem::exists(directory + "/placement.new-abcdef")) << "it is cleared away";
}

TEST_F(cluster_store_test, a_disk_that_is_full_leaves_what_was_there) {
  const cluster_store store{directory};
  store.save(sample_cluster());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN); // then a write beyond the limit is an error
  const rlimit small{16, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(store.save(sample_cluster()), std::runtime_error);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{directory}, {}), 1) << "and nothing beside it";
  ASSERT_TRUE(store.load().cluster);
  EXPECT_EQ(*store.load().cluster, sample_cluster());
}

TEST_F(cluster_store_test, a_place_that_cannot_be_written_is_an_error_at_once) {
  std::ofstream{directory} << "a file";
  EXPECT_THROW(cluster_store{directory}, std::runtime_error);
}

TEST_F(cluster_store_test, the_file_is_for_people) {
  const cluster_store store{directory};
  store.save(sample_cluster());
  EXPECT_NE(read(directory + "/placement").find("worker 11 2 \"expert-0\" \"10.0.0.1:7000\"\n"),
            std::string::npos);
}

TEST_F(cluster_store_test, a_save_replaces_the_file_and_writes_into_none_that_somebody_reads) {
  const cluster_store store{directory};
  store.save(sample_cluster());
  const auto before = read(directory + "/placement");
  std::filesystem::create_hard_link(directory + "/placement", directory + "/reader");
  auto next = sample_cluster();
  next.experts.epoch = 5;
  store.save(next);
  EXPECT_EQ(read(directory + "/reader"), before) << "as a scheduler would that died half-way";
  EXPECT_EQ(store.load().cluster->experts.epoch, 5U);
}

} // namespace
} // namespace troupe
