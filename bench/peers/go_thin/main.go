// go_thin is a thin retrieval gateway with the standard library alone: documents in memory, embeddings that are hashes of
// words, exact search. A baseline of bench/gateway.sh, not part of Weir.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net"
	"net/http"
	"time"
)

const (
	bodyBytesMax = 256 << 20
	topKDefault  = 5
	topKMax      = 1000
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatalf("could not listen on %s: %v; choose another address by -listen", *listen, err)
	}
	log.Printf("listening on %s", listener.Addr())
	server := &http.Server{Handler: routes(newStore()), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}

func routes(documents *store) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		reply(w, map[string]any{"status": "ok", "model_loaded": true, "document_count": documents.count()})
	})
	mux.HandleFunc("/v1/ingest", func(w http.ResponseWriter, r *http.Request) { ingest(documents, w, r) })
	mux.HandleFunc("/v1/search", func(w http.ResponseWriter, r *http.Request) { search(documents, w, r) })
	return mux
}

func ingest(documents *store, w http.ResponseWriter, r *http.Request) {
	var body struct {
		Documents []document `json:"documents"`
	}
	if !read(&body, w, r) {
		return
	}
	documents.put(body.Documents)
	reply(w, map[string]any{"ingested": len(body.Documents)})
}

func search(documents *store, w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	body := struct {
		Query string `json:"query"`
		TopK  int    `json:"top_k"`
	}{TopK: topKDefault}
	if !read(&body, w, r) {
		return
	}
	if body.TopK < 1 || body.TopK > topKMax {
		http.Error(w, `{"error":"top_k must be between 1 and 1000"}`, http.StatusBadRequest)
		return
	}
	hits := documents.search(body.Query, body.TopK)
	took := float64(time.Since(started).Microseconds()) / 1000
	reply(w, map[string]any{"results": hits, "took_ms": took})
}

// read decodes the body of a POST request and answers what is wrong with it.
func read(body any, w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost {
		http.Error(w, `{"error":"use POST"}`, http.StatusMethodNotAllowed)
		return false
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyBytesMax)).Decode(body); err != nil {
		http.Error(w, `{"error":"the body is not the JSON of this route"}`, http.StatusBadRequest)
		return false
	}
	return true
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("content-type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		log.Printf("could not send a reply: %v", err)
	}
}
