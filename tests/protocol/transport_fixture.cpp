#include "tests/protocol/transport_fixture.hpp"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/response_promise.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/transport/fabric/socket.hpp"

extern char** environ;

namespace troupe::test {

namespace {

struct server_state {
  static inline const char* name = "test-server";
  std::uint64_t taken = 0;
  std::uint64_t last = 0;
  std::uint64_t disordered = 0;
  std::vector<caf::typed_response_promise<batch>> kept;
};

server_actor::behavior_type serve(server_actor::stateful_pointer<server_state> self) {
  return {
      [](batch& x) {
        ++x.id;
        return std::move(x);
      },
      [self](caf::put_atom, const batch& x) {
        auto& state = self->state;
        const bool follows =
            x.id == state.last + 1 && std::all_of(x.parts.begin(), x.parts.end(), [&x](const auto& part) {
              return part == patterned(part.size(), x.id);
            });
        state.disordered += follows ? 0 : 1;
        state.last = x.id;
        ++state.taken;
      },
      [self](caf::get_atom) { return std::make_tuple(self->state.taken, self->state.disordered); },
      [self](caf::pending_atom, const batch&) {
        auto promise = self->make_response_promise<batch>();
        self->state.kept.push_back(promise);
        return promise;
      },
      [](caf::forward_atom, const caf::actor& whom, std::int32_t x) { caf::anon_send(whom, x + 1); },
      [self](caf::close_atom) { self->quit(caf::exit_reason::user_shutdown); },
  };
}

} // namespace

server_actor spawn_server(caf::actor_system& sys) {
  return sys.spawn(serve);
}

payload patterned(std::size_t num_bytes, std::uint64_t seed) {
  auto result = payload::allocate(num_bytes);
  auto* to = result.mutable_data();
  // Cheap, and any lost, moved or swapped byte is noticed.
  for (std::size_t i = 0; i < num_bytes; ++i)
    to[i] = static_cast<std::byte>((i * 131 + (i >> 8) + seed * 29) & 0xFF);
  return result;
}

system_config::system_config() {
  configure_transport(*this);
  add_message_types<caf::id_block::transport_test>();
  set("scheduler.policy", caf::atom("sharing"));
  set("scheduler.max-threads", 2);
}

transport_options loopback_options() {
  transport_options result;
  result.listen = "127.0.0.1:0";
  result.secret = "correct horse battery staple";
  result.net_devices = "lo";
  result.handshake_deadline = patience;
  result.resolve_deadline = patience;
  result.silence = 2 * patience;
  return result;
}

std::uint16_t unused_ports(std::uint16_t count) {
  // By process id, so that parallel tests do not collide.
  constexpr std::uint16_t lowest = 20'000;
  constexpr std::uint16_t highest = 32'000;
  const auto step = static_cast<std::uint16_t>((highest - lowest) / count);
  const auto start = static_cast<std::uint16_t>(getpid() % step);
  for (std::uint16_t i = 0; i < step; ++i) {
    const auto first = static_cast<std::uint16_t>(lowest + (start + i) % step * count);
    std::uint16_t held = 0;
    try {
      for (; held < count; ++held)
        wire::listen_on({"127.0.0.1", static_cast<std::uint16_t>(first + held)});
      return first;
    } catch (const std::runtime_error&) {
      // In use: the next ones.
    }
  }
  throw std::runtime_error("no unused ports");
}

struct node::journal {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> lines;
};

node::node(transport_options options) : log(std::make_shared<journal>()), system(config) {
  options.log = [log = log](const char* event, const std::string& text) {
    std::lock_guard guard{log->mutex};
    log->lines.push_back(std::string{event} + ": " + text);
    log->changed.notify_all();
  };
  net = std::make_unique<transport>(system, std::move(options));
}

node::~node() {
  // Remaining actors would keep the system from ending.
  net.reset();
}

caf::expected<caf::strong_actor_ptr> node::resolve(const std::string& endpoint, const std::string& name) {
  caf::scoped_actor self{system};
  caf::expected<caf::strong_actor_ptr> result = caf::sec::runtime_error;
  self->request(net->actor(), patience, caf::resolve_atom_v, endpoint, name)
      .receive([&](caf::strong_actor_ptr& found) { result = std::move(found); },
               [&](caf::error& err) { result = std::move(err); });
  return result;
}

server_actor node::server_at(const std::string& endpoint, const std::string& name) {
  auto found = resolve(endpoint, name);
  if (!found)
    throw std::runtime_error("cannot resolve " + name + " at " + endpoint + ": "
                             + system.render(found.error()));
  return caf::actor_cast<server_actor>(*found);
}

std::vector<std::string> node::lines() const {
  std::lock_guard guard{log->mutex};
  return log->lines;
}

bool node::logged(const std::string& part) const {
  const auto all = lines();
  return std::any_of(all.begin(), all.end(),
                     [&part](const auto& line) { return line.find(part) != std::string::npos; });
}

bool node::await_line(const std::string& part) const {
  std::unique_lock guard{log->mutex};
  return log->changed.wait_for(guard, patience, [&] {
    return std::any_of(log->lines.begin(), log->lines.end(),
                       [&part](const auto& line) { return line.find(part) != std::string::npos; });
  });
}

bool node::await_lines(std::size_t count) const {
  std::unique_lock guard{log->mutex};
  return log->changed.wait_for(guard, patience, [&] { return log->lines.size() >= count; });
}

child::child(const std::vector<std::string>& args) {
  int from_child[2];
  int to_child[2];
  if (pipe2(from_child, O_CLOEXEC) != 0 || pipe2(to_child, O_CLOEXEC) != 0)
    throw std::runtime_error("pipe2 failed");
  std::vector<std::string> owned{TROUPE_TRANSPORT_NODE};
  owned.insert(owned.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (auto& arg : owned)
    argv.push_back(arg.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_child[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from_child[1], STDOUT_FILENO);
  // Otherwise UCX's sockets are inherited, and connections outlive their closing.
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  const auto err = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(to_child[0]);
  ::close(from_child[1]);
  // The child ends with this end of the pipe, whatever happens to the test.
  stdin_ = to_child[1];
  if (err != 0)
    throw std::runtime_error(std::string{"cannot start "} + argv[0]);
  char c = 0;
  while (::read(from_child[0], &c, 1) == 1 && c != '\n')
    endpoint_ += c;
  ::close(from_child[0]);
  if (endpoint_.empty())
    throw std::runtime_error(std::string{argv[0]} + " told no endpoint");
}

child::~child() {
  kill();
  ::close(stdin_);
}

std::vector<std::uint16_t> child::listening_ports() const {
  const auto process = "/proc/" + std::to_string(pid_);
  std::set<std::string> sockets;
  for (const auto& fd : std::filesystem::directory_iterator{process + "/fd"}) {
    // "socket:[INODE]"; a descriptor may be closed meanwhile.
    std::error_code gone;
    sockets.insert(std::filesystem::read_symlink(fd, gone).string());
  }
  std::vector<std::uint16_t> result;
  std::ifstream table{process + "/net/tcp"};
  std::string line;
  while (std::getline(table, line)) {
    // slot, local address, remote address, state (0A listens), 5 more, inode
    std::istringstream words{line};
    const std::vector<std::string> fields{std::istream_iterator<std::string>{words}, {}};
    if (fields.size() < 10 || fields[3] != "0A" || !sockets.contains("socket:[" + fields[9] + "]"))
      continue;
    const auto port = std::stoul(fields[1].substr(fields[1].find(':') + 1), nullptr, 16);
    result.push_back(static_cast<std::uint16_t>(port));
  }
  return result;
}

void child::stop() const {
  ::kill(pid_, SIGSTOP);
  while (waitpid(pid_, nullptr, WUNTRACED) < 0 && errno == EINTR) {
  }
}

void child::resume() const {
  ::kill(pid_, SIGCONT);
}

void child::kill() {
  if (pid_ <= 0)
    return;
  ::kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

} // namespace troupe::test
