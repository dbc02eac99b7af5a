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
        expect(browser.run("location.search"), "?q=what+is+a+weir&offset=5")
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
        browser.open(gateway + "/?q=weir&mode=lexical&top_k=3")
        browser.wait("document.querySelector('.results > li')")
        form = "Object.fromEntries(new FormData(document.querySelector('#form')))"
        expect(browser.run(form), {"q": "weir", "collection": "default", "mode": "lexical", "top_k": "3"})
        browser.run("window.isOld = true, location.reload()")
        browser.wait("!window.isOld && document.querySelector('.results > li')")
        expect(browser.run(form), {"q": "weir", "collection": "default", "mode": "lexical", "top_k": "3"})
        # addresses of before had the search behind `#`
        browser.open(gateway + "/#q=weir&mode=lexical")
        browser.wait("document.querySelector('.results > li')")
        expect(browser.run(form), {"q": "weir", "collection": "default", "mode": "lexical", "top_k": "5"})
        browser.open(gateway + "/?q=weir&collection=absent")
        error = browser.text(".notice.error")
        assert "No such collection" in error and "List the collections with GET /v1/collections" in error, error
        assert "`" not in browser.run("document.body.innerText")

        # near-duplicates are one result, which tells of the others and leads to them
        languages = ["German", "Danish", "Welsh", "Thai", "Czech", "Greek", "Latin"]
        packs = [{"id": one, "text": f"{one} language package for the browser"} for one in languages]
        send(gateway, "/v1/ingest?wait=true", {"documents": packs})
        browser.open(gateway + "/?q=weir")
        browser.wait("document.querySelector('.results > li')")
        search_for(browser, "language package for the browser")
        copies = browser.text(".results .copies")
        assert copies.startswith("6 nearly identical results: ") and "and 1 more. Show all" in copies, copies
        expect(len([title for title in result_titles(browser) if title in languages]), 1)
        browser.click(".results .copies a")
        browser.wait("document.querySelectorAll('.results > li').length === 5 && !document.querySelector('.copies')")
        assert set(result_titles(browser)) <= set(languages), result_titles(browser)

        # nothing is wider than a small telephone
        browser.open(gateway + "/?q=what+is+a+weir")
        browser.resize(360)
        browser.wait("document.querySelector('.results > li')")
        browser.run("for (const details of document.querySelectorAll('details')) details.open = true")
        browser.wait("document.querySelector('.results .document')")
        expect(browser.run("document.documentElement.scrollWidth - document.documentElement.clientWidth"), 0)
        expect(browser.errors, [])


DROP = """(() => {
  const data = new DataTransfer();
  data.items.add(new File(['# A weir\\n\\nA weir is a low dam.'], 'weir.md'));
  data.items.add(new File(['MZ\\0\\u0001'], 'tool.exe'));
  document.dispatchEvent(new DragEvent('dragover', { dataTransfer: data, bubbles: true, cancelable: true }));
  const isOver = document.querySelector('#drop').classList.contains('is-over');
  document.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
  return isOver;
})()"""


def upload(gateway: str) -> None:
    """Files that are dropped on the page at `/`: each with its end, and then they are found."""
    with Browser() as browser:
        browser.open(gateway + "/")
        browser.wait("document.readyState === 'complete' && document.querySelector('#into') !== null")
        browser.fill("#into", "notes")
        expect(browser.run(DROP), True)
        expect(browser.run("document.querySelector('#drop').classList.contains('is-over')"), False)
        browser.wait("document.querySelectorAll('#uploads .done, #uploads .failed').length === 2")
        expect(browser.text("#uploads .done .name"), "weir.md")
        assert "searchable" in browser.text("#uploads .done"), browser.text("#uploads")
        failed = browser.text("#uploads .failed")
        assert "tool.exe" in failed and "programs are not read" in failed and "unsupported_format" in failed, failed
        # the page shows the search box without being loaded again
        browser.wait("document.querySelector('#form').hidden === false")
        search_for(browser, "low dam")
        expect(result_titles(browser)[0], "weir")
        browser.click(".results li:first-child details:nth-child(2) summary")
        browser.wait("document.querySelector('.results .document')")
        expect(browser.texts(".results .more button"), ["Save weir.md"])
        expect(browser.run("document.querySelector('#choose').tabIndex"), 0)


def key(gateway: str, valid: str, narrow: str) -> None:
    """A gateway with keys: the page says what a key is, says so of a wrong one, and keeps a valid one in the tab alone."""
    with Browser() as browser:
        browser.open(gateway + "/?q=weir")
        browser.wait("!document.querySelector('#key').hidden")
        about = browser.text("#key")
        for part in ("asks for an API key", "begins with weir_", "weir keys create", "until this tab is closed"):
            assert part in about, about
        # nothing is wrong yet, and the field has the focus
        expect(browser.run("[...document.querySelectorAll('.notice.error')].length"), 0)
        expect(browser.run("document.querySelector('.problem').innerText"), "")
        expect(browser.run("[document.activeElement.id, document.activeElement.type]"), ["key-field", "password"])
        expect(browser.run("document.querySelector('#form').hidden"), True)

        browser.fill("#key-field", "weir_0000000000000000000000000000000000000000000")
        browser.press("Enter", 13)
        assert "does not accept this key" in browser.text("#key [role=alert]")
        expect(browser.run("document.querySelector('#key-field').value"), "")
        expect(browser.run("sessionStorage.length"), 0)

        browser.fill("#key-field", narrow)
        browser.press("Enter", 13)
        browser.wait("document.querySelector('#key [role=alert]')?.innerText.includes('not allowed')")

        browser.fill("#key-field", f" {valid} ")
        browser.press("Enter", 13)
        browser.wait("document.querySelector('.results > li') && document.querySelector('#key').hidden")
        expect(browser.run("[...Object.values(sessionStorage), localStorage.length, document.cookie]"), [valid, 0, ""])
        search_for(browser, "low dam")
        expect(browser.run("location.search"), "?q=low+dam")
        assert valid not in browser.run("location.href + document.documentElement.outerHTML")

        browser.run("window.isOld = true, location.reload()")
        browser.wait("!window.isOld && document.querySelector('.results > li')")
        browser.click("#key-kept button")
        browser.wait("!document.querySelector('#key').hidden && sessionStorage.length === 0")
        expect(browser.errors, [])


MARKDOWN = """# Weir *manual*
A **weir** is a [low dam](https://example.org/dam), see [the API](/docs) or https://example.org/weirs.
- one `code <b>`
- two
  1. inner
> a quote
# Table
| gate | width |
|---|---|
| **one** | 2 m |
```sh
weir serve <now>
```"""

# Each of them would change the page if it were more than text.
HOSTILE = """# Hostile weir
<script>window.attacked = 1</script><img src=x onerror="window.attacked = 2"><svg onload="window.attacked = 3">
[a](javascript:window.attacked=4) [b](JaVaScRiPt:window.attacked=5) [c](&#106;avascript:window.attacked=6)
[d](data:text/html,<script>parent.attacked=7</script>) [e](vbscript:x) [f](file:///etc/passwd) [g](java&Tab;script:x)
![h](javascript:window.attacked=8) <javascript:window.attacked=9> [i](https://example.org/" onclick="window.attacked=10)
[j](\u0001javascript:window.attacked=11) <a href="javascript:window.attacked=12">k</a>"""

# More than the page renders, in ways that cost a parser most.
FLOODS = {
    "quotes": ">" * 10_000 + " deep",
    "lists": "\n".join(" " * (2 * level) + "- deep" for level in range(1_000)),
    "brackets": "[" * 60_000,
    "emphasis": "*a **b " * 8_000,
    "code": " ".join("`" * length for length in range(1, 340)),
    "items": "- a\n" * 15_000,
    "cells": "|a" * 10_000 + "\n" + "|-" * 10_000,
    "megabyte": "a *b* [c](d) " * 80_000,
}


def contrast(browser: Browser, selector: str) -> float:
    """The contrast of an element's text before its background, as WCAG computes it."""
    return browser.run(f"""(() => {{
        const node = document.querySelector({json.dumps(selector)});
        const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
        const behind = (of) => {{
            for (let at = of; at; at = at.parentElement) {{
                const colour = numbers(getComputedStyle(at).backgroundColor);
                if (colour.length === 3 || colour[3] > 0) return colour;
            }}
            return [255, 255, 255];
        }};
        const light = (colour) => colour.slice(0, 3)
            .map((part) => part / 255)
            .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
            .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
        const [one, other] = [light(numbers(getComputedStyle(node).color)), light(behind(node))];
        return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    }})()""")


def markdown(gateway: str) -> None:
    """Hits in Markdown: what is rendered, what stays text, and that nothing of a document runs or loads."""
    texts = {"manual.md": MARKDOWN, "hostile.md": HOSTILE, "notes.txt": "# A weir in *plain* text"}
    documents = [{"id": id, "title": id, "text": text} for id, text in texts.items()]
    send(gateway, "/v1/ingest?wait=true", {"documents": documents})
    with Browser() as browser:
        browser.open(gateway + "/?q=weir&mode=lexical")
        browser.wait("document.querySelectorAll('.results > li').length === 3")
        hit = "[...document.querySelectorAll('.results > li')].find((li) => li.querySelector('h3').innerText === {})"
        for id in texts:
            browser.run(f"{hit.format(json.dumps(id))}.id = {json.dumps(id.split('.')[0])}")

        inside = "[...document.querySelectorAll('#manual .snippet {}')].map((node) => node.innerText)"
        rendered = {
            "h4": ["Weir manual", "Table"],
            "h4 em": ["manual"],
            "strong": ["weir", "one"],
            "ul > li > code": ["code <b>"],
            "ul ol > li": ["inner"],
            "blockquote": ["a quote"],
            "th": ["gate", "width"],
            "td": ["one", "2 m"],
            "pre > code": ["weir serve <now>"],
            "strong > mark": ["weir"],
        }
        for selector, expected in rendered.items():
            expect(browser.run(inside.format(selector)), expected)
        links = "[...document.querySelectorAll('{} .snippet a')].map((link) => [link.href, link.rel.split(' ')[0]])"
        own = [["https://example.org/dam", "noopener"], [f"{gateway}/docs", "noopener"]]
        expect(browser.run(links.format("#manual")), [*own, ["https://example.org/weirs", "noopener"]])
        # a file of another kind is shown as it is
        expect(browser.text("#notes .snippet"), "# A weir in plain text".replace("plain", "*plain*"))
        expect(browser.run("document.querySelectorAll('#notes .snippet :not(p, mark)').length"), 0)

        # what a document brings is text, or a link to a page
        tags = "[...new Set([...document.querySelectorAll('#hostile .snippet *')].map((node) => node.localName))].sort()"
        assert set(browser.run(tags)) <= {"a", "h4", "mark", "p"}, browser.run(tags)
        shown = browser.text("#hostile .snippet")
        for part in ("<script>window.attacked = 1</script>", "<img src=x onerror=", "<svg onload="):
            assert part in shown, shown
        expect([one for one, _ in browser.run(links.format("#hostile")) if not one.startswith(("http://", "https://"))], [])
        browser.run("[...document.querySelectorAll('#hostile .snippet *')].forEach((node) => node.click?.())")
        for snippet in (HOSTILE, HOSTILE.replace("(", "( "), HOSTILE.replace("[", "![")):
            browser.run(f"document.querySelector('#hostile .snippet').replaceChildren(...markdown({json.dumps(snippet)}, []))")
            script = "[...document.querySelectorAll('#hostile .snippet a')].every(({protocol}) => /^https?:$/.test(protocol))"
            expect(browser.run(script), True)
            expect(browser.run("document.querySelectorAll('#hostile .snippet :is(script, img, svg, iframe)').length"), 0)
        browser.run("new Promise((done) => setTimeout(done, 100))")
        expect(browser.run("window.attacked ?? null"), None)

        # size, depth and number of elements
        for name, text in FLOODS.items():
            measured = browser.run(f"""(() => {{
                const [text, started] = [{json.dumps(text)}, performance.now()];
                const place = document.createElement('div');
                place.append(...markdown(text, []));
                const depth = (node) => Math.max(0, ...[...node.children].map((child) => 1 + depth(child)));
                return [place.querySelectorAll('*').length, depth(place), performance.now() - started, place.textContent.length];
            }})()""")
            elements, depth, took_ms, length = measured
            assert elements <= 4_000 and depth <= 30 and took_ms < 5_000 and length > 0, (name, measured)

        # by keyboard alone: Tab reaches the link and what opens below the hit
        browser.open(gateway + "/?q=manual&mode=lexical")
        browser.wait("document.querySelector('.results > li')")
        browser.run("document.querySelector('#query').focus()")
        reached = []
        for _ in range(30):
            browser.press("Tab", 9)
            reached.append(browser.run("document.activeElement.id || document.activeElement.innerText"))
        for part in ("Search", "collection", "mode", "top_k", "low dam", "the API", "Why this result", "In the document"):
            assert part in reached, reached
        browser.run("document.querySelector('.more summary').focus()")
        browser.press("Enter", 13)
        assert "by words (BM25)" in browser.text(".more table")

        # both colour schemes can be read
        for scheme in ("light", "dark"):
            feature = {"name": "prefers-color-scheme", "value": scheme}
            browser.call("Emulation.setEmulatedMedia", features=[feature])
            browser.wait(f"matchMedia('(prefers-color-scheme: {scheme})').matches")
            parts = ("p", "code", "pre > code", "th", "td", "blockquote", "a", "mark", "h4")
            for selector in [*(f".snippet {part}" for part in parts), ".about", ".relevance", "label", "#found", "summary"]:
                if browser.run(f"document.querySelector({json.dumps(selector)})") is not None:
                    seen = contrast(browser, selector)
                    assert seen >= 4.5, f"{scheme} {selector}: {seen}"

        # the gateway has gone
        browser.run("window.fetch = () => Promise.reject(new TypeError('gone'))")
        browser.fill("#query", "weir")
        browser.press("Enter", 13)
        assert "The gateway cannot be reached" in browser.text(".notice.error")
        expect(browser.errors, [])


def answer(cites: str, echoes: str) -> None:
    """A gateway with a route to a language model offers its answers: with what they cite, and rendered as safely as hits."""
    with Browser() as browser:
        ingest(cites)
        browser.open(cites + "/?q=what+is+a+weir")
        browser.wait("!document.querySelector('#answering').hidden && document.querySelector('.results > li')")
        expect(browser.texts("#model option"), ["my-route"])
        expect(browser.run("document.querySelector('#answer').innerText"), "")
        browser.click("#ask")
        browser.wait("document.querySelector('#answer .citations')")
        assert browser.text("#answer h2") == "Answer of my-route"
        first = browser.text("#answer .citations li")
        assert first.startswith("[1] weirs, bytes 0 to 34: “A weir is a low dam across a river.”"[:12]), first
        # another search is not the question that was answered
        search_for(browser, "boats")
        expect(browser.run("document.querySelector('#answer').innerText"), "")

        ingest(echoes)
        browser.open(echoes + "/")
        browser.wait("!document.querySelector('#answering').hidden")
        # the echo of the question is the answer
        browser.fill("#query", '**weir** [a](javascript:window.attacked=1) <img src=x onerror="window.attacked=2">')
        browser.click("#ask")
        expect(browser.text("#answer strong"), "weir")
        assert '<img src=x onerror="window.attacked=2">' in browser.text("#answer .snippet")
        expect(browser.run("document.querySelectorAll('#answer :is(a, img, script)').length"), 0)
        expect(browser.run("window.attacked ?? null"), None)
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
        routes += ["get-v1-collections-name-documents-id", "post-v1-chat-completions", "post-v1-embeddings"]
        for route in routes:
            browser.open(f"{gateway}/docs#{route}")
            browser.wait(f"document.querySelector('#{route}[open] form')")
            # names of this gateway, such as the id of a job and the model of its route, are filled in
            browser.wait(f"!document.querySelector('#{route} button.main').disabled")
            if route == "post-v1-chat-completions":
                assert "my-route" in browser.run(f"document.querySelector('#{route} textarea').value")
            if route == "get-v1-collections-name-documents-id":
                expect(browser.run(f"document.querySelector('#{route} [name=id]').value"), "a/1")
            browser.click(f"#{route} button.main")
            status = browser.text(f"#{route} output .status")
            assert status.startswith("20"), f"{route}: {browser.text(f'#{route} output')}"
            assert browser.text(f"#{route} .copied pre").startswith("curl -s"), route

        browser.open(gateway + "/docs#post-v1-search")
        browser.wait("document.querySelector('#post-v1-search .fields')")
        browser.wait("!document.querySelector('#post-v1-search button.main').disabled")
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
    {"start": start, "key": key, "markdown": markdown, "answer": answer, "docs": docs, "cors": cors, "upload": upload}[test](*arguments)
