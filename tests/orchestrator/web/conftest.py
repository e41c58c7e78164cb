"""One Chromium for all tests of this folder. Where there is none a test is skipped with the reason; with CI=true it fails."""

import os
from collections.abc import Iterator

import pytest

from tests.browser.chromium import Chromium, NoSuchBrowser, chromium, path_of_chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    try:
        path_of_chromium()
    except NoSuchBrowser as error:
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            pytest.fail(str(error))
        pytest.skip(str(error))
    with chromium() as found:
        yield found
