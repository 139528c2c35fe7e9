// Command stopping is the least that could acknowledge a stop: it watches one Queue and, as soon as the spec is newer
// than what the status speaks of, patches condition Active of the status. It promises nothing: it looks at no pod, at
// no bind and at no other replica.
//
//	stopping -url https://127.0.0.1:6443 -ca ca.crt -cert admin.crt -key admin.key -queue research
//
// It prints "ready" once it watches.
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
	"time"
)

const queues = "/apis/scheduling.volcano.sh/v1beta1/queues"

type condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	ObservedGeneration int64     `json:"observedGeneration"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

type status struct {
	State              string      `json:"state,omitempty"`
	ObservedGeneration int64       `json:"observedGeneration"`
	Conditions         []condition `json:"conditions"`
}

type queue struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Generation      int64  `json:"generation"`
	} `json:"metadata"`
	Spec struct {
		State string `json:"state"`
	} `json:"spec"`
	Status status `json:"status"`
}

type event struct {
	Object queue `json:"object"`
}

type follower struct {
	url    string
	name   string
	client *http.Client
}

func main() {
	url := flag.String("url", "", "the API server")
	ca := flag.String("ca", "", "certificate to trust")
	cert := flag.String("cert", "", "our certificate")
	key := flag.String("key", "", "its key")
	name := flag.String("queue", "", "the Queue")
	flag.Parse()
	client, err := dialer(*ca, *cert, *key)
	if err == nil {
		err = (&follower{url: *url + queues, name: *name, client: client}).follow()
	}
	fmt.Fprintln(os.Stderr, "stopping:", err)
	os.Exit(1)
}

func dialer(ca, cert, key string) (*http.Client, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{pair}}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}}, nil
}

// follow ends only with an error.
func (f *follower) follow() error {
	first, err := f.read()
	if err != nil {
		return err
	}
	if err := f.answer(first); err != nil { // which opens a connection for the next ones as well
		return err
	}
	reply, err := f.ask(http.MethodGet, fmt.Sprintf("?watch=1&fieldSelector=metadata.name=%s&resourceVersion=%s",
		f.name, first.Metadata.ResourceVersion), nil)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	fmt.Println("ready")
	lines := bufio.NewScanner(reply.Body)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var seen event
		if err := json.Unmarshal(lines.Bytes(), &seen); err != nil {
			return err
		}
		if seen.Object.Status.ObservedGeneration == seen.Object.Metadata.Generation {
			continue
		}
		if err := f.answer(seen.Object); err != nil {
			return err
		}
	}
	return fmt.Errorf("the watch ended: %w", lines.Err())
}

func (f *follower) read() (queue, error) {
	reply, err := f.ask(http.MethodGet, "/"+f.name, nil)
	if err != nil {
		return queue{}, err
	}
	defer reply.Body.Close()
	var read queue
	return read, json.NewDecoder(reply.Body).Decode(&read)
}

func (f *follower) answer(seen queue) error {
	active, reason := "True", "Ready"
	if seen.Spec.State == "Suspended" {
		active, reason = "False", "Suspended"
	}
	body, err := json.Marshal(map[string]status{"status": {
		State:              seen.Spec.State,
		ObservedGeneration: seen.Metadata.Generation,
		Conditions: []condition{{
			Type: "Active", Status: active, Reason: reason, Message: "nothing was looked at",
			ObservedGeneration: seen.Metadata.Generation, LastTransitionTime: time.Now().UTC().Truncate(time.Second),
		}},
	}})
	if err != nil {
		return err
	}
	reply, err := f.ask(http.MethodPatch, "/"+f.name+"/status", body)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	_, err = io.Copy(io.Discard, reply.Body)
	return err
}

func (f *follower) ask(method, path string, body []byte) (*http.Response, error) {
	asked, err := http.NewRequest(method, f.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	asked.Header.Set("Content-Type", "application/merge-patch+json")
	reply, err := f.client.Do(asked)
	if err != nil {
		return nil, err
	}
	if reply.StatusCode >= 300 {
		defer reply.Body.Close()
		said, _ := io.ReadAll(reply.Body)
		return nil, fmt.Errorf("%s %s: %d: %s", method, path, reply.StatusCode, said)
	}
	return reply, nil
}
