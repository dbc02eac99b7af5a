"""Uses the pages of a gateway in a browser: `pages.py TEST ARGUMENTS`. Fails where a page does not do as it should."""

import json
import sys
import urllib.request
from typing import Any

from devtools import Browser

DOCUMENTS = [
    ("weirs", "Weirs", "A weir is a low dam across a river. It raises the water and lets it flow over its crest."),
    ("locks", "Locks", "A lock lifts boats between stretches of water of different levels."),
    ("mills", "Water mills", "A water mill is driven by a wheel that the river turns."),
    ("eels", "Eels", "Eels swim to the sea when they are grown; a ladder helps them past an obstacle."),
    ("gauges", "Gauges", "A gauge shows the level of a river at one place, every quarter of an hour."),
    ("bridges", "Bridges", "A bridge of stone stands for centuries if the river does not wash out its piers."),
    ("müsli", None, "Zum Frühstück gibt es Müsli mit Äpfeln und Nüssen."),
]


def send(gateway: str, path: str, body: Any) -> Any:
    """Sends JSON to a gateway and reads the JSON of its reply."""
    request = urllib.request.Request(gateway + path, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


def ingest(gateway: str) -> None:
    """Sends the documents and waits until they are searchable."""
    documents = [
        {"id": id, "text": text, "metadata": {"place": number}} | ({"title": title} if title else {})
        for number, (id, title, text) in enumerate(DOCUMENTS)
    ]
    job = send(gateway, "/v1/ingest?wait=true", {"documents": documents})
    assert job["status"] == "completed", job


def expect(seen: Any, expected: Any) -> None:
    """Fails with both values if they differ."""
    assert seen == expected, f"{seen!r} is not {expected!r}"


def search_for(browser: Browser, query: str) -> None:
    """Types a query and presses Enter."""
    browser.fill("#query", query)
    browser.press("Enter", 13)
    browser.wait(f"document.title === {json.dumps(query + ' – Weir')}")
    browser.wait("document.querySelector('#reply:not([aria-busy])')?.childElementCount > 0")


def result_titles(browser: Browser) -> list[str]:
    """The titles of the results, of which there is at least one."""
    browser.wait("document.querySelector('.results h3')")
    return browser.texts(".results h3")


def start(gateway: str) -> None:
    """The page at `/`: an empty gateway, results, corrections, nothing relevant, errors, pages, a shared address."""
    with Browser() as browser:
        browser.open(gateway + "/")
        assert f"weir ingest FOLDER --url {gateway}" in browser.text("#empty")
        assert f"curl -s '{gateway}/v1/ingest?wait=true'" in browser.text("#empty")
        expect(browser.run("document.querySelector('#form').hidden"), True)

        # the page notices the documents by itself
        ingest(gateway)
        browser.wait("document.querySelector('#form').hidden === false")
        expect(browser.text("#state"), "7 documents in 1 collection.")
        expect(browser.texts("#collection option"), ["default (7)"])
        expect(browser.run("document.querySelector('#key').hidden"), True)

        search_for(browser, "what is a weir")
        expect(result_titles(browser)[0], "Weirs")
        first = browser.text(".results li")
        assert "% relevant" in first and "cited from weirs, bytes 0 to 88" in first and "place: 0" in first, first
        assert "weir" in browser.texts(".results li:first-child mark"), "the snippet marks the words of the query"
        expect(browser.run("document.querySelector('#nothing')"), None)
        expect(browser.run("Number(document.querySelector('.results [role=meter]').ariaValueNow) > 0.2"), True)
        browser.click(".results li:first-child summary")
        why = browser.text(".results li:first-child table")
        assert "by words (BM25)\t1\t" in why and "by meaning (cosine)\t1\t" in why, why
        assert "similar results\t\t\t0." in why and "exact name" not in why, why
        browser.click(".results li:first-child details:nth-child(2) summary")
        expect(browser.text(".results .document mark"), DOCUMENTS[0][2])

        # pages of results
        expect(browser.run("document.querySelectorAll('.results > li').length"), 5)
        browser.run("document.querySelector('.pages button:last-child').click()")
        browser.wait("document.querySelectorAll('.results > li').length === 2")
        expect(browser.run("location.hash"), "#q=what+is+a+weir&offset=5")
        browser.run("history.back()")
        browser.wait("document.querySelectorAll('.results > li').length === 5")

        # bytes are not characters
        search_for(browser, "Müsli Äpfeln")
        expect(result_titles(browser)[0], "müsli")
        assert "Müsli" in browser.texts(".results li:first-child mark")

        search_for(browser, "who built the brigde")
        assert "searched for bridge" in browser.text("#corrections"), browser.text("#corrections")

        search_for(browser, "who built the bridge -l")
        expect(browser.text("#reading"), "Searched as words, not as operators: -l.")

        search_for(browser, "jazz guitar chords")
        assert "Nothing relevant" in browser.text("#nothing")
        expect(browser.run("document.querySelectorAll('.results > li').length"), 5)

        # an address that someone shared, with a collection that does not exist
        browser.open(gateway + "/#q=weir&mode=lexical&top_k=3")
        browser.wait("document.querySelector('.results > li')")
        form = "Object.fromEntries(new FormData(document.querySelector('#form')))"
        expect(browser.run(form), {"q": "weir", "collection": "default", "mode": "lexical", "top_k": "3"})
        browser.open(gateway + "/#q=weir&collection=absent")
        error = browser.text(".notice.error")
        assert "No such collection" in error and "List the collections with GET /v1/collections" in error, error
        assert "`" not in browser.run("document.body.innerText")

        # near-duplicates are one result, which tells of the others and leads to them
        languages = ["German", "Danish", "Welsh", "Thai", "Czech", "Greek", "Latin"]
        packs = [{"id": one, "text": f"{one} language package for the browser"} for one in languages]
        send(gateway, "/v1/ingest?wait=true", {"documents": packs})
        browser.open(gateway + "/#q=weir")
        browser.wait("document.querySelector('.results > li')")
        search_for(browser, "language package for the browser")
        copies = browser.text(".results .copies")
        assert copies.startswith("6 nearly identical results: ") and "and 1 more. Show all" in copies, copies
        expect(len([title for title in result_titles(browser) if title in languages]), 1)
        browser.click(".results .copies a")
        browser.wait("document.querySelectorAll('.results > li').length === 5 && !document.querySelector('.copies')")
        assert set(result_titles(browser)) <= set(languages), result_titles(browser)

        # nothing is wider than a small telephone
        browser.open(gateway + "/#q=what+is+a+weir")
        browser.resize(360)
        browser.wait("document.querySelector('.results > li')")
        browser.run("for (const details of document.querySelectorAll('details')) details.open = true")
        browser.wait("document.querySelector('.results .document')")
        expect(browser.run("document.documentElement.scrollWidth - document.documentElement.clientWidth"), 0)
        expect(browser.errors, [])


def key(gateway: str) -> None:
    """A gateway that asks for a key: the field appears, and the key is sent from then on."""
    with Browser() as browser:
        browser.open(gateway + "/")
        browser.wait("!document.querySelector('#form').hidden")
        # there are no keys yet: replies are refused here as they will be
        refused = {"title": "The API key is missing", "detail": "Send a valid key.", "code": "invalid_api_key"}
        browser.run(f"""window.realFetch = fetch, window.fetch = (path, options) =>
            new Headers(options.headers).get('authorization') === 'Bearer k 1' ? realFetch(path, options)
            : Promise.resolve(new Response(JSON.stringify({json.dumps(refused)}), {{status: 401}}))""")
        search_for(browser, "weir")
        assert "The API key is missing" in browser.text(".notice.error")
        browser.fill("#key input", "k 1")
        browser.press("Enter", 13)
        browser.wait("document.querySelector('.results > li') && document.querySelector('#key').hidden")
        expect(browser.run("[...Object.values(sessionStorage), localStorage.length, document.cookie]"), ["k 1", 0, ""])
        expect(browser.errors, [])


def docs(gateway: str) -> None:
    """The page at `/docs`: its examples are sent from their forms, and a route is tried with other values."""
    with Browser() as browser:
        browser.open(gateway + "/docs")
        browser.wait("document.querySelectorAll('details.route').length > 30")
        groups = browser.texts("#groups h2")
        expect(groups[:5], ["Ingest", "Search", "Language models", "Documents", "Collections"])
        expect(browser.run("document.querySelector('header a[href=\"/\"]').innerText"), "Search page")

        routes = ["post-v1-ingest", "post-v1-search", "get-v1-jobs-id", "get-v1-collections-name-documents"]
        for route in [*routes, "post-v1-embeddings"]:
            browser.open(f"{gateway}/docs#{route}")
            browser.wait(f"document.querySelector('#{route}[open] form')")
            # names of this gateway, such as the id of a job, are filled in
            browser.wait(f"!document.querySelector('#{route}').innerText.includes('JOB_ID')")
            browser.wait(f"[...document.querySelectorAll('#{route} input')].every((input) => input.value !== 'JOB_ID')")
            browser.click(f"#{route} button.main")
            status = browser.text(f"#{route} output .status")
            assert status.startswith("20"), f"{route}: {browser.text(f'#{route} output')}"
            assert browser.text(f"#{route} .copied pre").startswith("curl -s"), route

        browser.open(gateway + "/docs#post-v1-search")
        browser.wait("document.querySelector('#post-v1-search .fields')")
        fields = browser.texts("#post-v1-search h3 ~ .fields > div > dt > code")
        expect(fields[:5], ["query", "collection", "top_k", "mode", "filter"])
        browser.fill("#post-v1-search textarea", json.dumps({"query": "boats", "collection": "notes", "top_k": 0}))
        browser.click("#post-v1-search button.main")
        expect(browser.text("#post-v1-search output .status"), "400 Bad Request")
        assert "top_k is 0" in browser.text("#post-v1-search output pre")

        browser.run("for (const details of document.querySelectorAll('details')) details.open = true")
        shown = "[...document.querySelectorAll('summary, p, dd, dt')].map((node) => node.innerText)"
        expect([text for text in browser.run(shown) if "`" in text], [])
        browser.resize(360)
        expect(browser.run("document.documentElement.scrollWidth - document.documentElement.clientWidth"), 0)
        expect(browser.errors, [])


def call_from_page(browser: Browser, gateway: str, options: str) -> str:
    """What a page sees of a call to the gateway: `status id-of-the-first-result`, or `refused`."""
    url = json.dumps(gateway + "/v1/search")
    return browser.run(f"""fetch({url}, {{method: 'POST', body: '{{"query": "weir", "mode": "lexical"}}', {options}}})
        .then(async (reply) => `${{reply.status}} ${{(await reply.json()).results?.[0]?.id}}`, () => 'refused')""")


def cors(closed: str, opened: str, port: str) -> None:
    """A page of `http://app.example`, which is served at `port`, calls a gateway that does not list its origin and one that does."""
    for gateway in (closed, opened):
        ingest(gateway)
    with_preflight = "headers: {'content-type': 'application/json', 'x-request-id': 'from-a-page'}"
    without = "headers: {'content-type': 'text/plain'}"
    form = "headers: {'content-type': 'application/x-www-form-urlencoded'}"
    with Browser("--host-resolver-rules=MAP app.example 127.0.0.1") as browser:
        browser.open(f"http://app.example:{port}/")
        browser.wait("document.title === 'app'")
        expect(browser.run("location.origin"), f"http://app.example:{port}")
        for options in (with_preflight, without, form):
            expect(call_from_page(browser, closed, options), "refused")
        # a page needs no permission to send a form, so the gateway itself has to refuse it
        url = json.dumps(closed + "/v1/ingest?wait=true")
        body = json.dumps('{"documents": [{"id": "planted", "text": "planted"}]}')
        browser.run(f"fetch({url}, {{method: 'POST', mode: 'no-cors', body: {body}, {form}}}).then(() => 0)")
        with urllib.request.urlopen(closed + "/healthz") as reply:
            expect(json.load(reply)["document_count"], len(DOCUMENTS))

        expect(call_from_page(browser, opened, with_preflight), "200 weirs")
        expect(call_from_page(browser, opened, form), "200 weirs")
        # an error is readable too, and so are the headers of a reply
        expect(call_from_page(browser, opened, without), "415 undefined")
        header = f"fetch({json.dumps(opened)} + '/healthz').then((reply) => reply.headers.get('x-request-id') !== null)"
        expect(browser.run(header), True)
        # the methods of the API pass the preflight
        url = json.dumps(opened + "/v1/collections/default")
        expect(browser.run(f"fetch({url}, {{method: 'DELETE'}}).then((reply) => reply.status)"), 200)

        browser.open(f"http://other.localhost:{port}/")
        browser.wait("document.title === 'app'")
        expect(call_from_page(browser, opened, with_preflight), "refused")


if __name__ == "__main__":
    test, *arguments = sys.argv[1:]
    {"start": start, "key": key, "docs": docs, "cors": cors}[test](*arguments)
