"""URLs as users write them. Specs, records, reports and messages repeat them, so none may contain a secret."""

import ipaddress
import re
from urllib.parse import parse_qsl

from .errors import DsslError, ParameterError, require

STORES = ("s3", "gs", "az")  # schemes of object stores
# Names of query parameters, without - and _, that sign a request or identify the caller, on Amazon, Google and Azure.
SECRET = re.compile("^x?(amz|goog)|sig$|signature|credential|token|secret|passw|pwd|apikey|accesskey|^key$|^auth$|"
                    "^authorization|jwt")
QUERY = re.compile(r"[?#][\w.%-]*=")  # unlike a `?` that stands for any character of a name


def is_url(text: str) -> bool:
    """Return whether a text is a URL and not a path."""
    return "://" in text


def is_loopback(host: str) -> bool:
    """Return whether a name or address always means this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_object_url(text: str) -> bool:
    """Return whether a text is a URL in an object store."""
    return is_url(text) and text.partition("://")[0] in STORES


def require_no_secret(url: str, error: type[DsslError] = ParameterError) -> None:
    """Raise `error` if a URL contains a user, a password or a signature; the message never repeats a secret."""
    scheme, _, location = url.partition("://")
    host, path = re.split(r"(?=[/?#])", location, maxsplit=1) if re.search("[/?#]", location) else (location, "")
    why = "credentials never belong in a URL, which is written into records and logs"
    if scheme in STORES:
        require(not set("@:") & set(host) and not QUERY.search(path) and not path.startswith(("?", "#")), error=error,
                what=f"a {scheme}:// URL with more than a bucket and a path", why=why,
                fix="set them in the environment, such as AWS_ACCESS_KEY_ID, or use the machine's role")
        return
    fix = "download the file and give its path, or read it from an object store, with credentials in the environment"
    require("@" not in host, f"a {scheme}:// URL with a user or a password", why=why, fix=fix, error=error)
    port = host.rpartition("]")[2].partition(":")[2]
    require(not port or port.isdecimal(), f"a {scheme}:// URL whose port is no number", error=error,
            why="a password with a slash in it looks like that, and " + why, fix=fix)
    queries = re.split("[?#]", path, maxsplit=1)[1:]
    names = [name for name, _ in parse_qsl(queries[0].replace("#", "&").replace("?", "&"), keep_blank_values=True)] \
        if queries else []
    secret = [name for name in names if SECRET.search(re.sub("[-_]", "", name.lower()))]
    require(not secret, f"a URL of {host} with the parameter {', '.join(secret)}", why=why, fix=fix, error=error)


def hosts_alone(text: str) -> str:
    """Return another library's message with its URLs, which may be signed, cut after their hosts."""
    return re.sub(r"(\w+://)(?:[^/@\s]*@)?([^/?#\s'\"]+)[^\s'\"]*", r"\1\2", text)
