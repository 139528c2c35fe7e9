// Command twin is a Go extender that does what Sluice's filter does: it reads the pod and the node names, finds
// the pod's queue, notes that it was let through, and answers with the names or with the queue's text for each.
// With an API server it follows its pods and queues, as ours does; what it does not do is write anything, but with
// -gate: then it takes that scheduling gate off each pod at once, by one patch.
//
//	twin -addr 127.0.0.1:0 -cert c -key k [-stopped parked | -api https://... -api-ca c -api-cert c -api-key k]
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type pod struct {
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		UID         string            `json:"uid"`
		Annotations map[string]string `json:"annotations"`
		Labels      map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		SchedulerName string `json:"schedulerName"`
	} `json:"spec"`
}

type args struct {
	Pod       pod      `json:"Pod"`
	NodeNames []string `json:"NodeNames"`
}

type result struct {
	Nodes                      *struct{}         `json:"Nodes"`
	NodeNames                  []string          `json:"NodeNames"`
	FailedNodes                map[string]string `json:"FailedNodes"`
	FailedAndUnresolvableNodes map[string]string `json:"FailedAndUnresolvableNodes"`
	Error                      string            `json:"Error"`
}

// board is what is known of every queue: empty text for one that schedules.
type board map[string]string

type extender struct {
	board  atomic.Pointer[board]
	passes sync.Map
}

func (e *extender) filter(w http.ResponseWriter, r *http.Request) {
	var asked args
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := result{FailedNodes: map[string]string{}, FailedAndUnresolvableNodes: map[string]string{}}
	if text := e.rejection(&asked.Pod); text == "" {
		answer.NodeNames = asked.NodeNames
	} else {
		answer.NodeNames = []string{}
		for _, name := range asked.NodeNames {
			answer.FailedAndUnresolvableNodes[name] = text
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the caller may have gone
}

func (e *extender) rejection(p *pod) string {
	queue := p.Metadata.Annotations["sluice.dev/queue"]
	if queue == "" {
		return ""
	}
	key := p.Metadata.Namespace + "/" + p.Metadata.Name
	e.passes.Store(key, time.Now())
	text := (*e.board.Load())[queue]
	if text != "" {
		e.passes.Delete(key)
	}
	return text
}

// publish has these queues stopped and no other.
func (e *extender) publish(stopped []string) {
	known := board{}
	for _, name := range stopped {
		known[name] = fmt.Sprintf("queue %q is Suspended; an admin of queues can resume it", name)
	}
	e.board.Store(&known)
}

func (e *extender) follow(from source, gate string) error {
	queues := func(held map[string]object) {
		var stopped []string
		for _, each := range held {
			if each.Spec.State == "Suspended" {
				stopped = append(stopped, each.Metadata.Name)
			}
		}
		e.publish(stopped)
	}
	if err := from.follow("/apis/scheduling.volcano.sh/v1beta1/queues", queues, func(object) {}); err != nil {
		return err
	}
	release, err := from.releasing(gate)
	if err != nil {
		return err
	}
	return from.follow("/api/v1/pods", func(map[string]object) {}, release)
}

func run() error {
	addr := flag.String("addr", "127.0.0.1:0", "where to listen")
	cert := flag.String("cert", "", "certificate file")
	key := flag.String("key", "", "key file")
	stopped := flag.String("stopped", "", "queues that do not schedule, with commas")
	var from source
	gate := flag.String("gate", "", "a scheduling gate to take off")
	flag.StringVar(&from.url, "api", "", "an API server to follow")
	flag.StringVar(&from.ca, "api-ca", "", "its certificate")
	flag.StringVar(&from.cert, "api-cert", "", "our certificate there")
	flag.StringVar(&from.key, "api-key", "", "its key")
	flag.Parse()
	served := &extender{}
	served.publish(strings.Split(*stopped, ","))
	if from.url != "" {
		if err := served.follow(from, *gate); err != nil {
			return err
		}
	}
	http.HandleFunc("POST /extender/filter", served.filter)
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	return http.ServeTLS(listener, nil, *cert, *key)
}

func main() {
	if err := run(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "twin:", err)
	os.Exit(1)
}
