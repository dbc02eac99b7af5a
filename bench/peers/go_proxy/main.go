// The reverse proxy of Go's standard library, as it comes: go_proxy -listen 127.0.0.1:8080 -upstream http://127.0.0.1:9000
package main

import (
	"flag"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	upstream := flag.String("upstream", "http://127.0.0.1:9000", "where requests go")
	flag.Parse()
	target, err := url.Parse(*upstream)
	if err != nil {
		log.Fatalf("go_proxy: -upstream is no URL: %v", err)
	}
	// With the default of two idle connections to a host, most requests would open a new one.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 10000
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	http.HandleFunc("/", func(reply http.ResponseWriter, request *http.Request) {
		// Otherwise the server closes the request's body when the reply begins, and a stream breaks if the transport is still
		// waiting for the body's end: on busy cores, one in twenty.
		_ = http.NewResponseController(reply).EnableFullDuplex()
		proxy.ServeHTTP(reply, request)
	})
	http.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe(*listen, nil))
}
