"""URLs that hold a secret are refused, in words that do not repeat it, and others are not."""

import pytest

from dssl.base.errors import ParameterError
from dssl.base.urls import hosts_alone, require_no_secret


@pytest.mark.parametrize("url", [
    "https://user:hush@host/points.csv", "http://hush@host:8080/points.csv", "https://user:hu/sh@host/points.csv",
    "https://host/points.csv?X-Amz-Signature=hush", "https://host/p.csv?v=2&x-goog-credential=hush",
    "https://acc.blob.core.windows.net/c/p.csv?sv=2024&sig=hush", "https://host/p.csv?access_token=hush",
    "https://host/p.csv?Policy=a&Signature=hush&Key-Pair-Id=b", "https://host/p.csv?api_key=hush",
    "https://host/p.csv?v=1#token=hush", "s3://KEY:hush@bucket/p.csv", "s3://bucket/p.csv?token=hush",
    "az://container/p.csv?v=1&sig=hush", "s3://bucket#hush", "s3://bucket?hush", "https://user:hush@[host/p.csv"])
def test_a_secret_is_refused_and_not_repeated(url):
    with pytest.raises(ParameterError, match="credentials never belong in a URL") as error:
        require_no_secret(url)
    assert "hush" not in str(error.value)
    assert "hu/sh" not in str(error.value)


@pytest.mark.parametrize("url", [
    "https://host/points.csv", "http://127.0.0.1:9/points.csv", "http://[::1]:9/points.csv", "https://host/@scope/p.csv",
    "https://host/p.csv?version=3&download=1", "https://host/p.csv?author=x&monkey=1", "file:///data/a@b/p.csv",
    "s3://bucket/day=*/part-?.csv", "s3://bucket/part-[0-9].csv", "gs://bucket/a@b.csv"])
def test_other_urls_are_not_refused(url):
    require_no_secret(url)


def test_of_urls_in_messages_the_hosts_are_left():
    text = "Redirection to url 'ftp://user:hush@host:21/p.csv?sig=hush' is not allowed, nor https://host/a?b=c"
    assert hosts_alone(text) == "Redirection to url 'ftp://host:21' is not allowed, nor https://host"
