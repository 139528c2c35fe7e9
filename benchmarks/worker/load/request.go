package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

type plan struct {
	url     string
	workers int
	until   time.Time
	body    []byte
	expect  []byte
	client  *http.Client
}

type seen struct {
	took   []time.Duration
	errors int
}

func request(arguments []string) error {
	flags := flag.NewFlagSet("request", flag.ExitOnError)
	url := flags.String("url", "", "where to post")
	ca := flags.String("ca", "", "certificate to trust")
	cert := flags.String("cert", "", "client certificate to show, if the server asks for one")
	key := flags.String("key", "", "its key")
	seconds := flags.Float64("seconds", 3, "for how long")
	workers := flags.Int("workers", 1, "how many at once; 1 is what kube-scheduler does")
	names := flags.Int("names", 100, "node names in the body")
	pad := flags.Int("pad", 4096, "bytes of pod beside them")
	format := flags.String("format", "node-%04d.zone-a.example", "of a node's name, by its number")
	pod := flags.String("pod", "", "a file with the pod that is sent instead of one that is made up")
	expect := flags.String("expect", "", "what every answer holds; one without it is an error")
	http2 := flags.Bool("http2", false, "speak HTTP/2 if offered")
	_ = flags.Parse(arguments)
	client, err := dialer(*ca, *cert, *key, *http2, *workers)
	if err != nil {
		return err
	}
	nodes := make([]string, *names)
	for i := range nodes {
		nodes[i] = fmt.Sprintf(*format, i)
	}
	body, err := extenderArgs(nodes, *pad, *pod)
	if err != nil {
		return err
	}
	warm := plan{*url, *workers, time.Now().Add(300 * time.Millisecond), body, []byte(*expect), client}
	warm.run()
	start := time.Now()
	measured := plan{*url, *workers, start.Add(time.Duration(*seconds * float64(time.Second))), body, warm.expect, client}
	return json.NewEncoder(os.Stdout).Encode(summary(measured.run(), time.Since(start)))
}

func dialer(ca, cert, key string, http2 bool, workers int) (*http.Client, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: trusted}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{
		TLSClientConfig:     config,
		ForceAttemptHTTP2:   http2,
		MaxIdleConnsPerHost: max(2, workers),
		IdleConnTimeout:     90 * time.Second,
	}
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}, nil
}

// extenderArgs is what kube-scheduler sends: the node names, and a pod from a file or one of about pad bytes.
func extenderArgs(nodes []string, pad int, file string) ([]byte, error) {
	var pod any = paddedPod(pad)
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		pod = json.RawMessage(content)
	}
	return json.Marshal(map[string]any{"Pod": pod, "Nodes": nil, "NodeNames": nodes})
}

func paddedPod(pad int) map[string]any {
	environment := []map[string]string{}
	for i := 0; i*64 < pad; i++ {
		environment = append(environment, map[string]string{"name": fmt.Sprintf("VARIABLE_%04d", i), "value": strings.Repeat("x", 24)})
	}
	return map[string]any{
		"metadata": map[string]any{"name": "pod", "namespace": "team", "annotations": map[string]string{"sluice.dev/queue": "research"}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "env": environment}}},
	}
}

func (p plan) run() seen {
	parts := make([]seen, p.workers)
	var group sync.WaitGroup
	for i := range parts {
		group.Go(func() { parts[i] = p.loop() })
	}
	group.Wait()
	var all seen
	for _, part := range parts {
		all.took = append(all.took, part.took...)
		all.errors += part.errors
	}
	return all
}

func (p plan) loop() seen {
	var mine seen
	for time.Now().Before(p.until) {
		start := time.Now()
		if err := p.once(); err != nil {
			mine.errors++
			continue
		}
		mine.took = append(mine.took, time.Since(start))
	}
	return mine
}

func (p plan) once() error {
	reply, err := p.client.Post(p.url, "application/json", bytes.NewReader(p.body))
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", reply.StatusCode)
	}
	if len(p.expect) == 0 {
		_, err := io.Copy(io.Discard, reply.Body)
		return err
	}
	answer, err := io.ReadAll(reply.Body)
	if err == nil && !bytes.Contains(answer, p.expect) {
		err = fmt.Errorf("no %q in the answer", p.expect)
	}
	return err
}

func summary(all seen, took time.Duration) map[string]any {
	slices.Sort(all.took)
	at := func(part float64) float64 {
		if len(all.took) == 0 {
			return -1
		}
		return float64(all.took[int(part*float64(len(all.took)-1))].Nanoseconds()) / 1000
	}
	return map[string]any{
		"requests": len(all.took), "errors": all.errors, "rps": float64(len(all.took)) / took.Seconds(),
		"p50_us": at(0.5), "p99_us": at(0.99), "max_us": at(1),
	}
}
