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

const (
	// assigned is in the field selector of whoever wants the pods on nodes: all of them are, and none has ended.
	assigned = "spec.nodeName!="
	// queueLabel is what members have, and no other pod.
	queueLabel = "sluice.dev/queue"
)

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
	numbers, count := r.selected(query.Get("labelSelector"), query.Get("fieldSelector"))
	kind := jsonType
	if accepts := asked.Header.Get("Accept"); strings.Contains(accepts, protobufType) {
		kind = protobufType
	} else if strings.Contains(accepts, "as=PartialObjectMetadataList") {
		kind = metadataType
	}
	from, _ := strconv.Atoi(query.Get("continue"))
	to := count
	// As the API server does, whose cache answers this version whole whatever the limit.
	cached := query.Get("resourceVersion") == "0"
	if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 && !cached {
		to = min(count, from+limit)
	}
	next := ""
	if to < count {
		next = strconv.Itoa(to)
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(r.page(kind, numbers, from, to, next)) // the caller may have gone
}

// selected is how many pods the selectors name, and the number of each of them.
func (r *replayed) selected(labels, fields string) (func(int) int, int) {
	every := r.pods / r.members
	none := strings.Contains(fields, "spec.nodeName=") || strings.Contains(fields, "spec.schedulerName=")
	switch {
	case none: // all are on nodes, and of the default scheduler
		return nil, 0
	case labels == queueLabel:
		return func(i int) int { return i * every }, r.members
	case labels == "!"+queueLabel:
		return func(i int) int { return i + i/(every-1) + 1 }, r.pods - r.members
	}
	return func(i int) int { return i }, r.pods
}

func (r *replayed) page(kind string, numbers func(int) int, from, to int, next string) []byte {
	version := strconv.FormatInt(r.version.Load(), 10)
	pods := make([][]byte, 0, to-from)
	for i := from; i < to; i++ {
		number := numbers(i)
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
