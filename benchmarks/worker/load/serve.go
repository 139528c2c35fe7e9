package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

// args and result are the fields of k8s.io/kube-scheduler/extender/v1 that a filter needs.
type args struct {
	Pod struct {
		Metadata struct {
			Name        string            `json:"name"`
			Namespace   string            `json:"namespace"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	} `json:"Pod"`
	NodeNames *[]string `json:"NodeNames"`
}

type result struct {
	Nodes                      *struct{}         `json:"Nodes"`
	NodeNames                  *[]string         `json:"NodeNames"`
	FailedNodes                map[string]string `json:"FailedNodes"`
	FailedAndUnresolvableNodes map[string]string `json:"FailedAndUnresolvableNodes"`
	Error                      string            `json:"Error"`
}

func filter(w http.ResponseWriter, r *http.Request) {
	var asked args
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(result{NodeNames: asked.NodeNames}); err != nil {
		return // the caller has gone
	}
}

// admit allows every request of an AdmissionReview.
func admit(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID string `json:"uid"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	answer := map[string]any{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"response": map[string]any{"uid": review.Request.UID, "allowed": true},
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		return // the caller has gone
	}
}

func serve(arguments []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	addr := flags.String("addr", "127.0.0.1:0", "where to listen")
	cert := flags.String("cert", "", "certificate file")
	key := flags.String("key", "", "key file")
	http2 := flags.Bool("http2", false, "offer HTTP/2")
	_ = flags.Parse(arguments)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(*http2)
	http.HandleFunc("/filter", filter)
	http.HandleFunc("/admit", admit)
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "listening at https://%s (go)\n", listener.Addr())
	server := &http.Server{Protocols: protocols, ErrorLog: log.New(io.Discard, "", 0)}
	return server.ServeTLS(listener, *cert, *key)
}
