"""The Jinja environment and the variables that transformers' apply_chat_template gives to chat templates.

Runs inside a template process (main.cpp): every outcome is a pair of kind and text. Kinds: "prompt", "request"
(the conversation is refused), "template" (the template itself is not valid), "valid".
"""

import datetime
import importlib
import json
import warnings

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

# What Jinja2 and Python would import when a template first needs it: by then no file can be opened.
for name in (
    "jinja2.constants", "jinja2.debug", "pprint", "textwrap", "traceback", "unicodedata", "encodings.ascii", "encodings.cp1252",
    "encodings.latin_1", "encodings.raw_unicode_escape", "encodings.unicode_escape", "encodings.utf_16", "encodings.utf_32",
):
    importlib.import_module(name)
warnings.simplefilter("ignore")  # a warning would read the template's source from a file


class Generation(jinja2.ext.Extension):
    """{% generation %} … {% endgeneration %} marks what the assistant wrote, for training; here its body counts."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class Refused(jinja2.exceptions.TemplateError):
    """What a template's raise_exception raises: its text is meant for the caller."""


def raise_exception(message):
    raise Refused(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    # Jinja's own escapes HTML.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(form):
    return datetime.datetime.now().strftime(form)


environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
)
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception
environment.globals["strftime_now"] = strftime_now

# By their source, those that are to be kept: the model's own. One that comes with a request is compiled for it alone.
kept = {}


def parse(name, text, kind):
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{name}: not valid JSON: {error}") from None
    if not isinstance(value, kind):
        raise Refused(f"{name}: {'an array' if kind is list else 'an object'} is expected")
    return value


OUT_OF_MEMORY = "it takes more memory than chat templates may have"


def one_line(error):
    return f"{type(error).__name__}: {error}"


def compiled(source):
    """The template and None; or None and what is wrong with the template itself, with its line where there is one."""
    if source in kept:
        return kept[source], None
    try:
        return environment.from_string(source), None
    except jinja2.exceptions.TemplateSyntaxError as error:
        return None, f"line {error.lineno}: {error.message}"
    except MemoryError:
        return None, OUT_OF_MEMORY
    except Exception as error:
        return None, one_line(error)


def check(source):
    template, flaw = compiled(source)
    if flaw is not None:
        return "template", flaw
    kept[source] = template
    return "valid", ""


def render(source, keep, messages, tools, variables, extra, add_generation_prompt, longest):
    template, flaw = compiled(source)
    if flaw is not None:
        return "template", flaw
    if keep:
        kept[source] = template
    try:
        given = {
            "messages": parse("messages", messages, list),
            "tools": None if tools in ("", "null") else parse("tools", tools, list),
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        if given["tools"] == []:
            given["tools"] = None
        chosen = {**json.loads(variables), **(parse("chat_template_kwargs", extra, dict) if extra else {})}
        for name in ("messages", "tools", "add_generation_prompt"):
            if name in chosen:
                raise Refused(f"chat_template_kwargs: '{name}' has its own place in the request")
        prompt = template.render({**given, **chosen})
        # Before it is encoded, which takes its room once more.
        prompt = prompt.encode("utf-8") if len(prompt) <= longest else None
        if prompt is None or len(prompt) > longest:
            return "request", f"the rendered prompt is over {longest >> 20} MiB"
        return "prompt", prompt
    except Refused as error:
        return "request", str(error)
    except UnicodeEncodeError:
        return "request", "the conversation has half of a surrogate pair, which is no character"
    except MemoryError:
        return "request", f"the chat template cannot render this conversation: {OUT_OF_MEMORY}"
    except Exception as error:
        return "request", f"the chat template cannot render this conversation: {one_line(error)}"


# The time zone and the codec of error messages are read now, while files can be.
assert render("{{ strftime_now('%Y') }}{{ messages | tojson }}", False, "[]", "", "{}", "", True, 99)[0] == "prompt"
