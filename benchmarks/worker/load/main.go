// Command load puts a WSGI server under the load that kube-scheduler and kube-apiserver make, and offers the
// Go server to compare it with.
//
//	load serve   -addr 127.0.0.1:0 -cert c -key k        a net/http extender that decodes and echoes
//	load request -url https://... -ca c -seconds 3 -workers 1 -names 100 -pad 4096
//
// request prints one JSON object: {"requests", "errors", "rps", "p50_us", "p99_us", "max_us"}.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("say serve or request"))
	}
	run := map[string]func([]string) error{"serve": serve, "request": request}[os.Args[1]]
	if run == nil {
		fail(fmt.Errorf("unknown verb %q: say serve or request", os.Args[1]))
	}
	if err := run(os.Args[2:]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "load:", err)
	os.Exit(1)
}
