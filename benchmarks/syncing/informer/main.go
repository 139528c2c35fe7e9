// Command informer has two verbs, for how much it costs to know all pods of a large cluster.
//
//	informer replay -kubeconfig f -cert c -key k -recorded pods.json -pods 100000 -members 10000 -nodes 5000
//	informer follow -kubeconfig f [-members] [-labels selector]
//
// replay stands in front of an API server and is it, but for the list of all pods: that is the recorded pods,
// the first of which is a member, multiplied; with -events, their watch is made up too. It prints its address.
// follow is a client-go informer of all pods; with -labels it asks for those that the selector selects alone.
// With -members it is a reflector that keeps what Sluice keeps: of members alone, and only the fields that are
// needed. It prints one JSON object once it is in sync, {"objects", "seconds"}, and then waits to be ended.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("say replay or follow"))
	}
	run := map[string]func([]string) error{"replay": replay, "follow": follow}[os.Args[1]]
	if run == nil {
		fail(fmt.Errorf("unknown verb %q: say replay or follow", os.Args[1]))
	}
	if err := run(os.Args[2:]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "informer:", err)
	os.Exit(1)
}
