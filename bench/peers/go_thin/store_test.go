package main

import (
	"fmt"
	"net/http/httptest"
	"sort"
	"strings"
	"testing"
)

func TestSearchEqualsSortingAllDocuments(t *testing.T) {
	documents := newStore()
	var all []document
	for at := 0; at < 200; at++ {
		all = append(all, document{ID: fmt.Sprint(at), Text: fmt.Sprintf("word%d word%d word%d", at%7, at%11, at)})
	}
	documents.put(all)
	query := "word3 word5 word38"
	vector := embed(query)
	score := func(doc document) float32 { return dot(vector, embed(" "+doc.Text)) }
	sort.SliceStable(all, func(a, b int) bool { return score(all[a]) > score(all[b]) })
	hits := documents.search(query, 5)
	for at, found := range hits {
		if found.Score != score(all[at]) {
			t.Errorf("place %d: %s with %v, wanted %s with %v", at, found.ID, found.Score, all[at].ID, score(all[at]))
		}
	}
	if len(hits) != 5 || hits[0].ID != "38" {
		t.Errorf("the document with all the words is not first: %v", hits)
	}
}

func TestTheSameIDReplacesADocument(t *testing.T) {
	documents := newStore()
	documents.put([]document{{ID: "a", Text: "old"}, {ID: "a", Text: "new"}})
	if hits := documents.search("new", 5); len(hits) != 1 || hits[0].Text != "new" || hits[0].Score < 0.999 {
		t.Errorf("found %v", hits)
	}
}

func TestTheRoutesAnswerAsTheHarnessExpects(t *testing.T) {
	handler := routes(newStore())
	for _, call := range []struct{ path, body, want string }{
		{"/v1/ingest", `{"documents":[{"id":"a","text":"river mill"}]}`, `"ingested":1`},
		{"/v1/search", `{"query":"mill","top_k":3}`, `"took_ms"`},
		{"/v1/search", `{"query":"mill","top_k":0}`, `top_k must be`},
		{"/v1/search", `[`, `not the JSON`},
	} {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest("POST", call.path, strings.NewReader(call.body)))
		if !strings.Contains(recorder.Body.String(), call.want) {
			t.Errorf("%s %s: %s", call.path, call.body, recorder.Body)
		}
	}
}
