// Command delaying stands between the server and the API server, and keeps each write for a while before it passes it
// on. Reads, lists and watches pass at once.
//
//	delaying -url https://127.0.0.1:6443 -ca ca.crt -seconds 0.02
//
// It listens on a loopback port without TLS, hands on who the caller is (a token), and prints its own address once it
// listens.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

func main() {
	target := flag.String("url", "", "the API server")
	ca := flag.String("ca", "", "certificate to trust")
	seconds := flag.Float64("seconds", 0, "for how long each write is kept")
	flag.Parse()
	fmt.Fprintln(os.Stderr, "delaying:", serve(*target, *ca, time.Duration(*seconds*float64(time.Second))))
	os.Exit(1)
}

// serve ends only with an error.
func serve(target, ca string, kept time.Duration) error {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	to, err := url.Parse(target)
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) { request.SetURL(to) },
		// As many connections as the server has to us, and each of its own: none waits for another.
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: trusted}, MaxIdleConnsPerHost: 200, DisableCompression: true,
		},
		FlushInterval: -1, // each event of a watch at once
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", listener.Addr())
	return http.Serve(listener, http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodGet {
			time.Sleep(kept)
		}
		proxy.ServeHTTP(writer, request)
	}))
}
