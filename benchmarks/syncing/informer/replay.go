package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// assigned is in the field selector of whoever wants the pods on nodes: all of them are, and none has ended.
const assigned = "spec.nodeName!="

type replayed struct {
	pods, members, nodes int
	events               int           // a second, to whoever watches pods; 0: their real watch
	expires              time.Duration // after which such a watch has to begin anew with a list; 0: never
	version              atomic.Int64
	recorded             string              // the version of the recorded member
	shapes               map[string][2]shape // by content type: a member, and another
	upstream             http.Handler
}

func replay(arguments []string) error {
	flags := flag.NewFlagSet("replay", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the API server behind, and as whom we ask it for everybody")
	cert := flags.String("cert", "", "our certificate")
	key := flags.String("key", "", "its key")
	recorded := flags.String("recorded", "", "two pods, the first a member: a PodList in JSON")
	served := &replayed{}
	flags.IntVar(&served.pods, "pods", 100_000, "how many pods there are")
	flags.IntVar(&served.members, "members", 10_000, "how many of them are members")
	flags.IntVar(&served.nodes, "nodes", 5_000, "on how many nodes they are")
	flags.IntVar(&served.events, "events", 0, "events a second for who watches pods, instead of the real ones")
	flags.DurationVar(&served.expires, "expires", 0, "how long such a watch lasts until its version is too old")
	_ = flags.Parse(arguments)
	if err := served.record(*recorded); err != nil {
		return err
	}
	if err := served.stand(*kubeconfig); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	return http.ServeTLS(listener, served, *cert, *key)
}

// stand learns how to reach the API server behind, and where its pods are now: a watch goes on from there.
func (r *replayed) stand(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return err
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	proxy.FlushInterval = -1 // events at once
	r.upstream = proxy
	reply, err := (&http.Client{Transport: transport}).Get(config.Host + "/api/v1/pods?limit=1")
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.NewDecoder(reply.Body).Decode(&list); err != nil {
		return err
	}
	version, err := strconv.ParseInt(list.Metadata.ResourceVersion, 10, 64)
	r.version.Store(version)
	return err
}

func (r *replayed) record(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	r.shapes, r.recorded, err = shapes(content)
	return err
}

func (r *replayed) ServeHTTP(w http.ResponseWriter, asked *http.Request) {
	query := asked.URL.Query()
	pods := asked.Method == http.MethodGet && asked.URL.Path == "/api/v1/pods"
	if pods && query.Get("watch") != "" && r.events > 0 {
		r.watch(w)
		return
	}
	if !pods || query.Get("watch") != "" {
		r.upstream.ServeHTTP(w, asked)
		return
	}
	if fields := query.Get("fieldSelector"); query.Get("labelSelector") != "" || fields != "" && !strings.Contains(fields, assigned) {
		http.Error(w, "no selectors here but "+assigned, http.StatusBadRequest)
		return
	}
	kind := jsonType
	if strings.Contains(asked.Header.Get("Accept"), protobufType) {
		kind = protobufType
	}
	from, _ := strconv.Atoi(query.Get("continue"))
	to := r.pods
	// As the API server does, whose cache answers this version whole whatever the limit.
	cached := query.Get("resourceVersion") == "0"
	if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 && !cached {
		to = min(r.pods, from+limit)
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(r.page(kind, from, to)) // the caller may have gone
}

func (r *replayed) page(kind string, from, to int) []byte {
	next, version := "", strconv.FormatInt(r.version.Load(), 10)
	if to < r.pods {
		next = strconv.Itoa(to)
	}
	pods := make([][]byte, 0, to-from)
	for number := from; number < to; number++ {
		which := 1
		if number%(r.pods/r.members) == 0 {
			which = 0
		}
		pods = append(pods, r.shapes[kind][which].pod(number, number%r.nodes))
	}
	if kind == protobufType {
		return protobufPage(pods, version, next)
	}
	head := fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q,"continue":%q},"items":[`, version, next)
	return append(append([]byte(head), bytes.Join(pods, []byte(","))...), "]}"...)
}
