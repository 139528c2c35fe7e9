// Command twin is a Go extender that prefers nodes as Sluice does for a policy of Volcano: by binpack, or by
// nodeorder's least requested and balanced resources. It holds nodes and assigned pods from client-go informers,
// counts what it has just scored as used, and answers with the same levels from 0 to 10.
//
//	twin -kubeconfig f -policy binpack|nodeorder -addr 127.0.0.1:0 -cert c -key k
//
// It prints its address as soon as it is in sync.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// pod is what is read of the pod in a call, not all of it as corev1.Pod has it.
type pod struct {
	Metadata struct {
		UID types.UID `json:"uid"`
	} `json:"metadata"`
	Spec struct {
		InitContainers []container                               `json:"initContainers"`
		Containers     []container                               `json:"containers"`
		Overhead       map[corev1.ResourceName]resource.Quantity `json:"overhead"`
	} `json:"spec"`
}

type container struct {
	Resources struct {
		Requests map[corev1.ResourceName]resource.Quantity `json:"requests"`
	} `json:"resources"`
}

type args struct {
	Pod       pod      `json:"Pod"`
	NodeNames []string `json:"NodeNames"`
}

type hostPriority struct {
	Host  string `json:"Host"`
	Score int64  `json:"Score"`
}

type extender struct {
	table *table
	score func(node, request) float64
}

func (e *extender) prioritize(w http.ResponseWriter, r *http.Request) {
	var asked args
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	levels := e.levels(&asked)
	answer := make([]hostPriority, len(levels))
	for i, level := range levels {
		answer[i] = hostPriority{asked.NodeNames[i], level}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the caller may have gone
}

func (e *extender) levels(asked *args) []int64 {
	if len(asked.NodeNames) == 0 {
		return []int64{}
	}
	wanted := requestOf(&asked.Pod)
	e.table.drop(asked.Pod.Metadata.UID)
	scores := e.table.scores(asked.NodeNames, func(n node) float64 { return e.score(n, wanted) })
	chosen := choose(scores)
	e.table.assume(asked.Pod.Metadata.UID, asked.NodeNames[chosen], wanted)
	return toLevels(scores)
}

func requestOf(p *pod) request {
	needs := func(list []container) []map[corev1.ResourceName]resource.Quantity {
		found := make([]map[corev1.ResourceName]resource.Quantity, len(list))
		for i, each := range list {
			found[i] = each.Resources.Requests
		}
		return found
	}
	return sum(needs(p.Spec.Containers), needs(p.Spec.InitContainers), p.Spec.Overhead)
}

func run() error {
	addr := flag.String("addr", "127.0.0.1:0", "where to listen")
	cert := flag.String("cert", "", "certificate file")
	key := flag.String("key", "", "key file")
	kubeconfig := flag.String("kubeconfig", "", "whom to follow, and as whom")
	policy := flag.String("policy", "binpack", "what scores: binpack or nodeorder")
	flag.Parse()
	score := map[string]func(node, request) float64{"binpack": binpack, "nodeorder": nodeOrder}[*policy]
	if score == nil {
		return fmt.Errorf("unknown policy %q: say binpack or nodeorder", *policy)
	}
	served := &extender{table: newTable(), score: score}
	if err := served.table.follow(context.Background(), *kubeconfig); err != nil {
		return err
	}
	http.HandleFunc("POST /extender/prioritize", served.prioritize)
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	return http.ServeTLS(listener, nil, *cert, *key)
}

func main() {
	if err := run(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "twin:", err)
		os.Exit(1)
	}
}
