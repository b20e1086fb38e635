"""The part of PromQL that the tests need: the series that an expression reads."""
import re

KEYWORDS = {"and", "or", "unless", "bool", "by", "without", "on", "ignoring", "group_left", "group_right", "offset", "inf", "nan"}
LABEL_LISTS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
SELECTOR = re.compile(r"(?<![\w:.])([a-zA-Z_:][\w:]*)\s*(\{(?:[^}\"]|\"(?:[^\"\\]|\\.)*\")*\})?(?!\s*\()(?![\w:])")
STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"")


def selectors(expression):
    """@returns the selectors of an expression, as a list of (name, selector without a range)"""
    text = LABEL_LISTS.sub(" ", re.sub(r"\[[^\]]*\]", " ", expression))
    result = []
    for found in SELECTOR.finditer(text):
        name, matchers = found.group(1), found.group(2) or ""
        if name.lower() not in KEYWORDS:
            result.append((name, name + matchers))
    return result


def family_of(name):
    """The family of a series of a histogram, or the name itself."""
    return re.sub(r"_(bucket|sum|count)$", "", name)


def of_panels(dashboard):
    """@returns [(title of the panel, expression)] of a dashboard, with its variables filled in"""
    result = []
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"].replace("$__rate_interval", "5m").replace('job=~"$job"', 'job=~".+"')
            assert "$" not in expression, f"{panel['title']}: an unknown variable in {expression}"
            result.append((panel["title"], expression))
    return result
