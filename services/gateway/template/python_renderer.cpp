#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <jinja_environment_source.hpp> // generated from jinja_environment.py

#include "services/gateway/template/python_renderer.hpp"

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace troupe::text {

namespace {

/// An owned reference.
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

/// Clears the pending exception and returns its text.
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
  throw std::runtime_error("chat templates: the embedded Python cannot start: " + what);
}

void start_python() {
  if (Py_IsInitialized() != 0)
    fail_start("another one runs in this process");
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
  early.allocator = PYMEM_ALLOCATOR_MALLOC; // the leak checker cannot see into Python's own arenas
#endif
  auto status = Py_PreInitialize(&early);
  if (PyStatus_Exception(status) != 0)
    fail_start(status.err_msg == nullptr ? "pre-initialization failed" : status.err_msg);
  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  config.install_signal_handlers = 0;
  config.write_bytecode = 0;
  // The library's own interpreter; otherwise the first `python3` in PATH decides where packages are searched.
  status = PyConfig_SetString(&config, &config.program_name, L"/usr/bin/python3");
  if (PyStatus_Exception(status) == 0)
    status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status) != 0)
    fail_start(status.err_msg == nullptr ? "initialization failed" : status.err_msg);
}

/// A str from UTF-8; if that is malformed, empty with an exception pending.
object to_str(std::string_view utf8) {
  return object(PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "strict"));
}

/// Reads kind and text from the result of a Python function.
template_answer read_answer(const object& pair) {
  const char* kind = PyUnicode_AsUTF8(PyTuple_GetItem(pair.get(), 0));
  PyObject* text = PyTuple_GetItem(pair.get(), 1); // borrowed from the pair
  template_answer out{kind == nullptr ? "" : kind, {}};
  if (PyBytes_Check(text)) {
    out.text.assign(PyBytes_AsString(text), static_cast<std::size_t>(PyBytes_Size(text)));
    return out;
  }
  constexpr Py_ssize_t longest_refusal = 64L << 10U;
  Py_ssize_t size = 0;
  const char* utf8 = PyUnicode_AsUTF8AndSize(text, &size);
  if (utf8 == nullptr) {
    PyErr_Clear();
    out.text = "the chat template fails with a message that is not text";
  } else if (size > longest_refusal) {
    out.text = "the chat template fails with a message of over 64 KiB";
  } else {
    out.text.assign(utf8, static_cast<std::size_t>(size));
  }
  return out;
}

/// A function of the Python side; it lives as long as the process.
PyObject* function_of(PyObject* module, const char* name) {
  PyObject* found = module == nullptr ? nullptr : PyObject_GetAttrString(module, name);
  if (found == nullptr) {
    throw std::runtime_error(
        "chat templates: Jinja2 cannot be loaded into the embedded Python (Debian's python3-jinja2): "
        + take_exception());
  }
  return found;
}

PyObject* check_function = nullptr;
PyObject* probe_function = nullptr;
PyObject* render_function = nullptr;

/// Calls a Python function that examines a template alone.
template_answer judge(PyObject* function, const template_message& request) {
  const auto source = to_str(request[2]);
  if (!source)
    return {"template", take_exception()};
  const auto variables = to_str(request[5]);
  if (!variables)
    return {"template", take_exception()};
  const object pair(PyObject_CallFunctionObjArgs(function, source.get(), variables.get(), nullptr));
  return pair ? read_answer(pair) : template_answer{"template", take_exception()};
}

template_answer render(const template_message& request) {
  const auto source = to_str(request[2]);
  if (!source)
    return {"template", take_exception()};
  const auto messages = to_str(request[3]);
  const auto tools = messages ? to_str(request[4]) : object();
  const auto variables = tools ? to_str(request[5]) : object();
  const auto extra = variables ? to_str(request[6]) : object();
  if (!extra)
    return {"request", "the conversation is not valid UTF-8: " + take_exception()};
  const object pair(
      PyObject_CallFunction(render_function, "OOOOOOOl", source.get(), request[1] == "1" ? Py_True : Py_False,
                            messages.get(), tools.get(), variables.get(), extra.get(),
                            request[7] == "1" ? Py_True : Py_False, static_cast<long>(longest_prompt)));
  return pair ? read_answer(pair) : template_answer{"request", take_exception()};
}

} // namespace

python_renderer::python_renderer() {
  start_python();
  const object code(Py_CompileString(jinja_environment_source, "jinja_environment.py", Py_file_input));
  const object module(code ? PyImport_ExecCodeModule("troupe_jinja_environment", code.get()) : nullptr);
  check_function = function_of(module.get(), "check");
  probe_function = function_of(module.get(), "probe");
  render_function = function_of(module.get(), "render");
}

template_answer python_renderer::answer(const template_message& request) const {
  if (request[0] == "render")
    return render(request);
  return judge(request[0] == "check" ? check_function : probe_function, request);
}

} // namespace troupe::text
