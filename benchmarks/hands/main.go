// Command hands writes to the API server as fast as it takes it: the requests of standard input, one JSON
// object a line ({"method", "path", "type", "body"}), begun in their order over so many connections.
//
//	hands -url https://127.0.0.1:6443 -ca ca.crt -token t -workers 8 < requests
//
// It prints one JSON object: {"requests", "failed", "failure", "began", "ended"}, the times in Unix seconds. A 404
// of a DELETE is no failure.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

type request struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Type   string          `json:"type"`
	Body   json.RawMessage `json:"body"`
}

type report struct {
	Requests int     `json:"requests"`
	Failed   int     `json:"failed"`
	Failure  string  `json:"failure"`
	Began    float64 `json:"began"`
	Ended    float64 `json:"ended"`
}

type writer struct {
	url    string
	token  string
	client *http.Client
	mutex  sync.Mutex
	failed int
	first  error
}

func main() {
	url := flag.String("url", "", "the API server")
	ca := flag.String("ca", "", "certificate to trust")
	token := flag.String("token", "", "who we are")
	workers := flag.Int("workers", 8, "connections")
	flag.Parse()
	if err := run(*url, *ca, *token, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "hands:", err)
		os.Exit(1)
	}
}

func run(url, ca, token string, workers int) error {
	all, err := read(os.Stdin)
	if err != nil {
		return err
	}
	client, err := dialer(ca, workers)
	if err != nil {
		return err
	}
	w := &writer{url: url, token: token, client: client}
	if err := w.dial(workers); err != nil {
		return err
	}
	began := time.Now()
	w.all(all, workers)
	done := report{Requests: len(all), Failed: w.failed, Began: unix(began), Ended: unix(time.Now())}
	if w.first != nil {
		done.Failure = w.first.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(done)
}

func read(from io.Reader) ([]request, error) {
	var all []request
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var one request
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, lines.Err()
}

func dialer(ca string, workers int) (*http.Client, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: trusted},
		MaxIdleConnsPerHost: workers,
		MaxConnsPerHost:     workers,
	}
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}, nil
}

// dial opens the connections, so that no handshake is in the time.
func (w *writer) dial(workers int) error {
	errs := make([]error, workers)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() { errs[i] = w.once(request{Method: "GET", Path: "/livez?verbose=false"}) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) all(requests []request, workers int) {
	next := make(chan request)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for one := range next {
				if err := w.once(one); err != nil {
					w.note(err)
				}
			}
		})
	}
	for _, one := range requests {
		next <- one
	}
	close(next)
	group.Wait()
}

func (w *writer) note(err error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.failed++
	if w.first == nil {
		w.first = err
	}
}

func (w *writer) once(one request) error {
	asked, err := http.NewRequest(one.Method, w.url+one.Path, bytes.NewReader(one.Body))
	if err != nil {
		return err
	}
	asked.Header.Set("Authorization", "Bearer "+w.token)
	if one.Type != "" {
		asked.Header.Set("Content-Type", one.Type)
	}
	reply, err := w.client.Do(asked)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	said, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	if reply.StatusCode >= 300 && !(one.Method == http.MethodDelete && reply.StatusCode == http.StatusNotFound) {
		return fmt.Errorf("%s %s: %d: %s", one.Method, one.Path, reply.StatusCode, bytes.TrimSpace(said))
	}
	return nil
}

func unix(at time.Time) float64 { return float64(at.UnixNano()) / 1e9 }
