#include "actors/scheduler/cluster_store.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "tests/unit/actors/placement_edits.hpp"

namespace troupe {
namespace {

stored_cluster sample_cluster() {
  return {.identity = {"model \"a\"", "cpu/float32", "cuda/float32", {2, 0}},
          .experts = {3, 4, {shared_layer({(3ULL << 32U) + 4, {{{{11}, {12}}}, {}}}), shared_layer({1, {}})}},
          .workers = {{{11}, worker_role::expert, "expert-0", "10.0.0.1:7000"},
                      {{1}, worker_role::attention, "attention-0", ""}}};
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
  EXPECT_FALSE(std::filesystem::exists(directory + "/placement.new"));
}

TEST_F(cluster_store_test, the_placement_alone_gives_its_term) {
  const cluster_store store{directory};
  store.save(sample_cluster());
  EXPECT_EQ(store.load().term, 3U);
}

TEST_F(cluster_store_test, every_damaged_byte_is_noticed) {
  const auto text = render(sample_cluster());
  for (size_t at = 0; at < text.size(); ++at) {
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

TEST_F(cluster_store_test, a_half_written_successor_changes_nothing) {
  const cluster_store store{directory};
  store.save(sample_cluster());
  std::ofstream{directory + "/placement.new"} << "troupe-pla";
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
