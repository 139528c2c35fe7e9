// Command webhook stands beside our mutating webhook for pods: net/http, and the patch that a member of an open
// queue gets from ours. It looks up nothing, so it is the least that a webhook in Go can do. With -gate it adds a
// scheduling gate, too.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
)

const (
	queueKey     = "sluice.dev/queue"
	admissionKey = "sluice.dev/admission"
	marker       = "sluice.dev/member"
	namedBy      = "scheduling.volcano.sh/queue-name"
)

type metadata struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type resources struct {
	Requests map[string]string `json:"requests"`
	Limits   map[string]string `json:"limits"`
}

type pod struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Containers []struct {
			Resources resources `json:"resources"`
		} `json:"containers"`
	} `json:"spec"`
}

type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    *struct {
		UID    string `json:"uid"`
		Object pod    `json:"object"`
	} `json:"request,omitempty"`
	Response *response `json:"response,omitempty"`
}

type response struct {
	UID       string `json:"uid"`
	Allowed   bool   `json:"allowed"`
	PatchType string `json:"patchType"`
	Patch     []byte `json:"patch"`
}

type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func escaped(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// added returns the steps that add the values to a map; the API server omits a map that is empty.
func added(path string, present map[string]string, keys []string, values map[string]string) []step {
	if len(present) == 0 {
		return []step{{"add", path, values}}
	}
	steps := make([]step, 0, len(keys))
	for _, key := range keys {
		steps = append(steps, step{"add", path + "/" + escaped(key), values[key]})
	}
	return steps
}

func patch(uid, gate string, p *pod) []step {
	queue := p.Metadata.Annotations[namedBy]
	place := "/spec/containers/0/resources"
	steps := added("/metadata/annotations", p.Metadata.Annotations, []string{queueKey, admissionKey},
		map[string]string{queueKey: queue, admissionKey: uid})
	steps = append(steps, added("/metadata/labels", p.Metadata.Labels, []string{queueKey},
		map[string]string{queueKey: queue})...)
	one := map[string]string{marker: "1"}
	steps = append(steps, added(place+"/requests", p.Spec.Containers[0].Resources.Requests, []string{marker}, one)...)
	steps = append(steps, added(place+"/limits", p.Spec.Containers[0].Resources.Limits, []string{marker}, one)...)
	if gate != "" {
		steps = append(steps, step{"add", "/spec/schedulingGates", []map[string]string{{"name": gate}}})
	}
	return steps
}

func mutate(w http.ResponseWriter, r *http.Request, gate string) {
	var asked review
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Request == nil {
		http.Error(w, "no AdmissionReview", http.StatusBadRequest)
		return
	}
	encoded, err := json.Marshal(patch(asked.Request.UID, gate, &asked.Request.Object))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer := review{APIVersion: asked.APIVersion, Kind: asked.Kind, Response: &response{
		UID: asked.Request.UID, Allowed: true, PatchType: "JSONPatch", Patch: encoded,
	}}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func main() {
	cert := flag.String("cert", "", "certificate")
	key := flag.String("key", "", "its key")
	gate := flag.String("gate", "", "a scheduling gate that each pod gets")
	flag.Parse()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	http.HandleFunc("/mutate/pods", func(w http.ResponseWriter, r *http.Request) { mutate(w, r, *gate) })
	log.Fatal(http.ServeTLS(listener, nil, *cert, *key))
}
