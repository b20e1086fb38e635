#include "actors/transport/wire/extensible.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/deep_to_string.hpp>
#include <caf/scoped_execution_unit.hpp>
#include <gtest/gtest.h>

#include "actors/transport/wire/wire_context.hpp"
#include "actors/transport/wire/wire_deserializer.hpp"

namespace troupe {
namespace {

// The same structures in two versions of a program.
struct old_part {
  std::uint32_t number = 1;
};

struct new_part {
  std::uint32_t number = 1;
  std::string added = "default";
};

struct old_whole {
  std::vector<old_part> parts;
  std::string name;
};

struct new_whole {
  std::vector<new_part> parts;
  std::string name;
  std::uint64_t added = 77;
  std::vector<std::string> added_later{"one"};
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, old_part& x) {
  return extensible(f, "part", x.number);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, new_part& x) {
  return extensible(f, "part", x.number, x.added);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, old_whole& x) {
  return extensible(f, "whole", x.parts, x.name);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, new_whole& x) {
  return extensible(f, "whole", x.parts, x.name, x.added, x.added_later);
}

// A structure that ends in a payload, and the same before that.
struct with_payload {
  std::uint32_t number = 0;
  payload bytes;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, with_payload& x) {
  return extensible(f, "part", x.number, x.bytes);
}

class extensible_test : public testing::Test {
 protected:
  template <class T>
  std::vector<char> written(T value) {
    std::vector<char> bytes;
    caf::binary_serializer sink{sys, bytes};
    EXPECT_FALSE(sink(value));
    return bytes;
  }

  /// Reads with both deserializers, which must agree; nothing may be left over.
  template <class T>
  T read(const std::vector<char>& bytes) {
    T value;
    wire_deserializer source{&context, std::as_bytes(std::span(bytes))};
    EXPECT_FALSE(source(value));
    EXPECT_EQ(source.remaining(), 0U);
    T again;
    caf::binary_deserializer plain{sys, bytes};
    EXPECT_FALSE(plain(again));
    EXPECT_EQ(plain.remaining(), 0U);
    EXPECT_EQ(written(value), written(again));
    return value;
  }

  template <class T>
  bool is_refused(const std::vector<char>& bytes) {
    T value;
    caf::binary_deserializer plain{sys, bytes};
    const bool plain_refuses = static_cast<bool>(plain(value));
    wire_deserializer source{&context, std::as_bytes(std::span(bytes))};
    bool refuses = false;
    try {
      T again;
      refuses = static_cast<bool>(source(again));
    } catch (const malformed_message&) {
      refuses = true;
    }
    EXPECT_EQ(plain_refuses, refuses);
    return refuses;
  }

  caf::actor_system_config config;
  caf::actor_system sys{config};
  caf::scoped_execution_unit context{&sys};
};

TEST_F(extensible_test, comes_back_as_it_was) {
  const auto back = read<new_whole>(written(new_whole{{{3, "three"}, {4, "four"}}, "name", 5, {"six"}}));
  ASSERT_EQ(back.parts.size(), 2U);
  EXPECT_EQ(back.parts[1].number, 4U);
  EXPECT_EQ(back.parts[1].added, "four");
  EXPECT_EQ(back.name, "name");
  EXPECT_EQ(back.added, 5U);
  EXPECT_EQ(back.added_later, std::vector<std::string>{"six"});
}

TEST_F(extensible_test, an_older_reader_skips_what_it_does_not_know_at_every_depth) {
  const auto back = read<old_whole>(written(new_whole{{{3, "three"}, {4, "four"}}, "name", 5, {"six"}}));
  ASSERT_EQ(back.parts.size(), 2U);
  EXPECT_EQ(back.parts[0].number, 3U);
  EXPECT_EQ(back.parts[1].number, 4U);
  EXPECT_EQ(back.name, "name");
}

TEST_F(extensible_test, a_newer_reader_has_defaults_for_what_was_not_sent) {
  const auto back = read<new_whole>(written(old_whole{{{3}, {4}}, "name"}));
  ASSERT_EQ(back.parts.size(), 2U);
  EXPECT_EQ(back.parts[1].number, 4U);
  EXPECT_EQ(back.parts[1].added, "default");
  EXPECT_EQ(back.name, "name");
  EXPECT_EQ(back.added, 77U);
  EXPECT_EQ(back.added_later, std::vector<std::string>{"one"});
}

TEST_F(extensible_test, a_structure_that_ends_inside_of_a_field_is_refused) {
  auto bytes = written(old_part{5});
  ASSERT_EQ(bytes.size(), 8U);
  for (char length = 1; length < 4; ++length) {
    bytes[3] = length;
    // The following bytes would suffice for the field, but are not part of the structure.
    EXPECT_TRUE(is_refused<old_part>(bytes)) << static_cast<int>(length);
  }
}

TEST_F(extensible_test, a_length_behind_the_end_of_the_message_is_refused) {
  auto bytes = written(old_whole{{{3}}, "name"});
  for (const int more : {1, 100}) {
    auto longer = bytes;
    longer[3] = static_cast<char>(longer[3] + more);
    EXPECT_TRUE(is_refused<old_whole>(longer)) << more;
  }
  bytes[0] = static_cast<char>(0xFF);
  EXPECT_TRUE(is_refused<old_whole>(bytes));
}

TEST_F(extensible_test, a_payload_that_is_not_known_leaves_the_rest_readable) {
  wire_context out{&sys};
  std::vector<char> bytes;
  caf::binary_serializer sink{&out, bytes};
  with_payload sent{7, payload::copy_of(std::as_bytes(std::span{"bytes"}))};
  ASSERT_FALSE(sink(sent));
  ASSERT_EQ(out.attached().size(), 1U);
  wire_context in{&sys};
  in.arrived(out.attached().front());
  wire_deserializer source{&in, std::as_bytes(std::span(bytes))};
  old_part back;
  ASSERT_FALSE(source(back));
  EXPECT_EQ(back.number, 7U);
  EXPECT_EQ(source.remaining(), 0U);
}

TEST_F(extensible_test, people_see_the_fields_alone) {
  EXPECT_EQ(caf::deep_to_string(new_part{3, "x"}), "part(3, \"x\")");
}

} // namespace
} // namespace troupe
