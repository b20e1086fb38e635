#include "actors/transport/wire/wire_deserializer.hpp"

#include <span>
#include <string>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/config_value.hpp>
#include <caf/error.hpp>
#include <caf/message.hpp>
#include <caf/scoped_execution_unit.hpp>
#include <caf/sec.hpp>
#include <gtest/gtest.h>

namespace troupe {
namespace {

class wire_deserializer_test : public testing::Test {
 protected:
  template <class T>
  std::vector<char> written(T value) {
    std::vector<char> bytes;
    caf::binary_serializer sink{sys, bytes};
    EXPECT_FALSE(sink(value));
    return bytes;
  }

  template <class T>
  T read(const std::vector<char>& bytes) {
    wire_deserializer source{&context, std::as_bytes(std::span(bytes))};
    T value;
    EXPECT_FALSE(source(value));
    EXPECT_EQ(source.remaining(), 0U);
    return value;
  }

  // A message whose only value is of the type called `type`, and that value's bytes.
  static std::vector<char> message_of(const std::string& type, const std::string& value) {
    const std::string name = "@<>+" + type;
    const std::string all = std::string(2, '\0') + static_cast<char>(name.size()) + name + value;
    return {all.begin(), all.end()};
  }

  // Why `load` is refused.
  template <class Load>
  static std::string refusal(const Load& load) {
    try {
      const caf::error err = load();
      return caf::to_string(err);
    } catch (const malformed_message& refused) {
      return refused.what();
    }
  }

  caf::actor_system_config config;
  caf::actor_system sys{config};
  caf::scoped_execution_unit context{&sys};
};

TEST_F(wire_deserializer_test, reads_what_cafs_serializer_writes) {
  const auto message =
      caf::make_message(std::int8_t{-1}, std::uint16_t{2}, std::int32_t{-3}, std::uint64_t{4}, 0.5F, 0.25,
                        std::string("five"), std::u16string(u"six"), true);
  const auto back = read<caf::message>(written(message));
  EXPECT_EQ(caf::to_string(back), caf::to_string(message));
  const std::vector<bool> bools(1000, true);
  EXPECT_EQ(read<std::vector<bool>>(written(bools)), bools);
  EXPECT_TRUE(read<caf::message>(written(caf::message{})).empty());
}

TEST_F(wire_deserializer_test, reads_many_errors_with_and_without_a_context) {
  const std::vector<caf::error> errors{caf::make_error(caf::sec::bad_function_call, "why"),
                                       caf::sec::end_of_stream, caf::error{}};
  std::vector<caf::error> many;
  for (std::size_t i = 0; i < 4 * wire_deserializer::max_depth; ++i)
    many.insert(many.end(), errors.begin(), errors.end());
  EXPECT_EQ(read<std::vector<caf::error>>(written(many)), many);
}

TEST_F(wire_deserializer_test, refuses_a_sequence_without_end) {
  // 1.7 thousand million messages, of which CAF would make as many empty ones.
  const auto bytes = message_of("std::vector<@message>", "\xfe\xdc\xba\x98\x06");
  wire_deserializer source{&context, std::as_bytes(std::span(bytes))};
  caf::message message;
  EXPECT_EQ(refusal([&] { return message.load(source); }), "a sequence is longer than its message");
}

TEST_F(wire_deserializer_test, refuses_messages_that_end_early_inside_of_a_sequence) {
  const auto bytes = message_of("std::vector<@message>", std::string("\x05\0\0\x03@<>\0", 8));
  wire_deserializer source{&context, std::as_bytes(std::span(bytes))};
  caf::message message;
  EXPECT_EQ(refusal([&] { return message.load(source); }), "a message ends before its content");
}

TEST_F(wire_deserializer_test, refuses_lists_inside_of_lists_without_end) {
  // Configuration values: "a list of one", again and again.
  std::string lists;
  const auto type = [&] {
    const auto bytes = written(caf::config_value{std::vector<caf::config_value>{}});
    return std::string(bytes.begin(), bytes.end() - 1);
  }();
  for (std::size_t i = 0; i < 100'000; ++i)
    lists += type + '\1';
  wire_deserializer source{&context, std::as_bytes(std::span(lists))};
  caf::config_value value;
  EXPECT_EQ(refusal([&] { return source(value); }),
            "sequences or messages lie deeper in one another than any sender puts them");
}

TEST_F(wire_deserializer_test, refuses_messages_inside_of_messages_without_end) {
  auto bytes = written(caf::message{});
  for (std::size_t i = 0; i < wire_deserializer::max_depth; ++i)
    bytes = message_of("@message", std::string(bytes.begin(), bytes.end()));
  wire_deserializer source{&context, std::as_bytes(std::span(bytes))};
  caf::message message;
  EXPECT_EQ(refusal([&] { return message.load(source); }),
            "sequences or messages lie deeper in one another than any sender puts them");
}

} // namespace
} // namespace troupe
