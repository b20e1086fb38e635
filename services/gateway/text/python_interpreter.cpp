#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <jinja_environment_source.hpp> // made of jinja_environment.py

#include "services/gateway/text/python_interpreter.hpp"
#include "services/gateway/text/text_error.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

namespace troupe::text {

namespace {

constexpr long longest_prompt = 64L << 20U; // characters

/// A reference that this code owns.
class object {
 public:
  explicit object(PyObject* owned = nullptr) noexcept : owned_(owned) {}

  object(object&& other) noexcept : owned_(std::exchange(other.owned_, nullptr)) {}

  object& operator=(object&& other) noexcept {
    std::swap(owned_, other.owned_);
    return *this;
  }

  object(const object&) = delete;
  object& operator=(const object&) = delete;

  ~object() { Py_XDECREF(owned_); }

  PyObject* get() const noexcept { return owned_; }

  explicit operator bool() const noexcept { return owned_ != nullptr; }

 private:
  PyObject* owned_;
};

/// Holds the interpreter's lock, from whatever thread.
class interpreter_lock {
 public:
  interpreter_lock() : state_(PyGILState_Ensure()) {}

  interpreter_lock(const interpreter_lock&) = delete;
  interpreter_lock& operator=(const interpreter_lock&) = delete;

  ~interpreter_lock() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

/// The pending exception as text; it is pending no more. The lock must be held.
std::string take_exception() {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const object owned_type(type);
  const object owned_value(value);
  const object owned_trace(trace);
  const object text(value == nullptr ? nullptr : PyObject_Str(value));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  const std::string name = type == nullptr ? "unknown error" : reinterpret_cast<PyTypeObject*>(type)->tp_name;
  PyErr_Clear();
  return utf8 == nullptr || *utf8 == '\0' ? name : name + ": " + utf8;
}

[[noreturn]] void fail_start(const std::string& what) {
  throw text_error("chat templates: the embedded Python cannot start: " + what);
}

void start_python() {
  if (Py_IsInitialized() != 0) {
    fail_start("another one runs in this process");
  }
  PyPreConfig early;
  PyPreConfig_InitIsolatedConfig(&early);
  early.utf8_mode = 1;
#if defined(__SANITIZE_ADDRESS__)
#  define TROUPE_PLAIN_MALLOC 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define TROUPE_PLAIN_MALLOC 1
#  endif
#endif
#ifdef TROUPE_PLAIN_MALLOC
  early.allocator = PYMEM_ALLOCATOR_MALLOC; // the leak checker does not look into Python's own arenas
#endif
  auto status = Py_PreInitialize(&early);
  if (PyStatus_Exception(status) != 0) {
    fail_start(status.err_msg == nullptr ? "pre-initialization failed" : status.err_msg);
  }
  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  config.install_signal_handlers = 0;
  config.write_bytecode = 0;
  // Where the library belongs to; otherwise the first `python3` in PATH would say where packages are.
  status = PyConfig_SetString(&config, &config.program_name, L"/usr/bin/python3");
  if (PyStatus_Exception(status) == 0) {
    status = Py_InitializeFromConfig(&config);
  }
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status) != 0) {
    fail_start(status.err_msg == nullptr ? "initialization failed" : status.err_msg);
  }
}

/// A str from UTF-8; empty, with an exception pending, when it is not valid.
object to_str(std::string_view utf8) {
  return object(PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "strict"));
}

} // namespace

struct python_interpreter::parts {
  object check_function;
  object render_function;
  object deadline_exception;

  // The render in progress, for the thread that ends it when it takes too long. Changed only under the
  // interpreter's lock, so that the exception cannot hit another render.
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t running = 0; // 0: none
  std::uint64_t last = 0;
  unsigned long thread = 0;
  std::chrono::milliseconds limit{};
  std::chrono::steady_clock::time_point deadline;

  void watch();
  void begin(std::chrono::milliseconds time_limit);
  void end();
};

void python_interpreter::parts::watch() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return running != 0; });
    const auto watched = running;
    const auto until = deadline;
    if (changed.wait_until(lock, until, [&] { return running != watched; })) {
      continue;
    }
    lock.unlock();
    {
      const interpreter_lock python;
      const std::scoped_lock again(mutex);
      if (running == watched) {
        PyThreadState_SetAsyncExc(thread, deadline_exception.get());
        deadline = std::chrono::steady_clock::now() + limit; // and once more, should it survive
      }
    }
    lock.lock();
  }
}

void python_interpreter::parts::begin(std::chrono::milliseconds time_limit) {
  const std::scoped_lock lock(mutex);
  running = ++last;
  thread = PyThread_get_thread_ident();
  limit = time_limit;
  deadline = std::chrono::steady_clock::now() + limit;
  changed.notify_all();
}

void python_interpreter::parts::end() {
  const std::scoped_lock lock(mutex);
  running = 0;
  PyThreadState_SetAsyncExc(thread,
                            nullptr); // one that came too late must not hit what runs next on this thread
  changed.notify_all();
}

python_interpreter::python_interpreter() : parts_(std::make_unique<parts>()) {
  start_python();
  {
    object code(Py_CompileString(jinja_environment_source, "jinja_environment.py", Py_file_input));
    object module(code ? PyImport_ExecCodeModule("troupe_jinja_environment", code.get()) : nullptr);
    if (module) {
      parts_->check_function = object(PyObject_GetAttrString(module.get(), "check"));
      parts_->render_function = object(PyObject_GetAttrString(module.get(), "render"));
      parts_->deadline_exception = object(PyObject_GetAttrString(module.get(), "DeadlineExceeded"));
    }
  }
  const bool ready = parts_->check_function && parts_->render_function && parts_->deadline_exception;
  const auto what = ready ? std::string() : take_exception();
  PyEval_SaveThread(); // whoever renders takes the lock
  if (!ready) {
    throw text_error(
        "chat templates: Jinja2 cannot be loaded into the embedded Python (Debian's python3-jinja2): "
        + what);
  }
  // Lives as long as the process, as the interpreter does.
  std::thread([watched = parts_.get()] { watched->watch(); }).detach();
}

python_interpreter& python_interpreter::instance() {
  static std::mutex mutex;
  static python_interpreter* started = nullptr;
  static std::string failure;
  const std::scoped_lock lock(mutex);
  if (!failure.empty()) {
    throw text_error(failure);
  }
  if (started == nullptr) {
    try {
      started = new python_interpreter; // never deleted, see above
    } catch (const text_error& e) {
      failure = e.what();
      throw;
    }
  }
  return *started;
}

namespace {

/// What a call of the Python side came to. The interpreter's lock must be held.
struct outcome {
  explicit outcome(object result) : pair(std::move(result)) {
    text = PyTuple_GetItem(pair.get(), 1);
    const char* utf8 = PyUnicode_AsUTF8(PyTuple_GetItem(pair.get(), 0));
    kind = utf8 == nullptr ? "" : utf8;
  }

  /// The text where it is one for people.
  std::string message() const {
    const char* utf8 = PyUnicode_AsUTF8(text);
    if (utf8 == nullptr) {
      PyErr_Clear();
      return "the chat template fails with a message that is not text";
    }
    return utf8;
  }

  object pair;
  std::string_view kind;
  PyObject* text = nullptr; // belongs to the pair
};

[[noreturn]] void fail_template(std::string_view origin, const std::string& what) {
  throw text_error(std::string(origin) + ": the chat template is not valid: " + what);
}

} // namespace

// One call at a time, so that the deadline counts from when it runs. Taken before the interpreter's lock.
std::unique_lock<std::timed_mutex> python_interpreter::take_turn(std::chrono::milliseconds patience) {
  static std::timed_mutex one_at_a_time;
  return {one_at_a_time, patience};
}

void python_interpreter::check(std::string_view source, std::string_view origin,
                               std::chrono::milliseconds time_limit) {
  const auto late = "compiling it takes more than " + std::to_string(time_limit.count()) + " ms";
  const auto turn = take_turn(time_limit);
  if (!turn.owns_lock()) {
    fail_template(origin, late);
  }
  const interpreter_lock python;
  const auto text = to_str(source);
  if (!text) {
    fail_template(origin, take_exception());
  }
  parts_->begin(time_limit);
  object result(PyObject_CallFunctionObjArgs(parts_->check_function.get(), text.get(), nullptr));
  parts_->end();
  if (!result) {
    const bool over = PyErr_ExceptionMatches(parts_->deadline_exception.get()) != 0;
    const auto what = take_exception();
    fail_template(origin, over ? late : what);
  }
  if (const outcome got(std::move(result)); got.kind != "valid") {
    fail_template(origin, got.message());
  }
}

std::string python_interpreter::render(const render_arguments& arguments, std::string_view origin) {
  const auto turn = take_turn(arguments.time_limit);
  if (!turn.owns_lock()) {
    throw template_error("other conversations have kept the chat template busy for "
                         + std::to_string(arguments.time_limit.count()) + " ms");
  }
  const interpreter_lock python;
  const auto source = to_str(arguments.source);
  if (!source) {
    fail_template(origin, take_exception());
  }
  const auto messages = to_str(arguments.messages);
  const auto tools = messages ? to_str(arguments.tools) : object();
  const auto variables = tools ? to_str(arguments.variables) : object();
  const auto extra = variables ? to_str(arguments.extra) : object();
  if (!extra) {
    throw template_error("the conversation is not valid UTF-8: " + take_exception());
  }
  parts_->begin(arguments.time_limit);
  object result(PyObject_CallFunction(parts_->render_function.get(), "OOOOOOl", source.get(), messages.get(),
                                      tools.get(), variables.get(), extra.get(),
                                      arguments.add_generation_prompt ? Py_True : Py_False, longest_prompt));
  parts_->end();
  if (!result) {
    const bool late = PyErr_ExceptionMatches(parts_->deadline_exception.get()) != 0;
    const auto what = take_exception();
    throw template_error(late ? "rendering the chat template takes more than "
                                    + std::to_string(arguments.time_limit.count()) + " ms"
                              : "the chat template cannot render this conversation: " + what);
  }
  const outcome got(std::move(result));
  if (got.kind == "prompt") {
    return {PyBytes_AsString(got.text), static_cast<std::size_t>(PyBytes_Size(got.text))};
  }
  if (got.kind == "template") {
    fail_template(origin, got.message());
  }
  throw template_error(got.message());
}

} // namespace troupe::text
