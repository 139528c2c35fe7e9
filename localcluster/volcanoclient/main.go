// A client with the Go types of Volcano's API, as operators and scripts have one: it reads an object, sets
// fields of it and writes the whole of it back. What these types have no field for is lost on the way.
//
//	volcanoclient KUBECONFIG update|update-status queue NAME JSON
//	volcanoclient KUBECONFIG update podgroup NAMESPACE/NAME JSON
//
// JSON is what is set, as in a manifest; null clears a field. It prints what the API server answers, and
// warnings on standard error.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"volcano.sh/apis/pkg/client/clientset/versioned"
)

func main() {
	if len(os.Args) != 6 {
		fail(fmt.Errorf("expected 5 arguments, got %d", len(os.Args)-1))
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	fail(err)
	config.WarningHandler = rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{})
	client, err := versioned.NewForConfig(config)
	fail(err)
	answer, err := run(client, os.Args[2]+" "+os.Args[3], os.Args[4], []byte(os.Args[5]))
	fail(err)
	fail(json.NewEncoder(os.Stdout).Encode(answer))
}

func run(client *versioned.Clientset, what, name string, set []byte) (any, error) {
	ctx, get, update := context.Background(), metav1.GetOptions{}, metav1.UpdateOptions{}
	if what == "update podgroup" {
		namespace, name, _ := strings.Cut(name, "/")
		groups := client.SchedulingV1beta1().PodGroups(namespace)
		group, err := groups.Get(ctx, name, get)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(set, group); err != nil {
			return nil, err
		}
		return groups.Update(ctx, group, update)
	}
	queues := client.SchedulingV1beta1().Queues()
	queue, err := queues.Get(ctx, name, get)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(set, queue); err != nil {
		return nil, err
	}
	switch what {
	case "update queue":
		return queues.Update(ctx, queue, update)
	case "update-status queue":
		return queues.UpdateStatus(ctx, queue, update)
	}
	return nil, fmt.Errorf("no such verb: %s", what)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
