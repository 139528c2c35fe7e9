// The program of the image `pause`: the first process of each pod, and of the pods that tests create.
// Without an argument it waits until it is told to end; `pause 20s` ends by itself, for Jobs.
package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	var end <-chan time.Time
	if len(os.Args) > 1 {
		duration, err := time.ParseDuration(os.Args[1])
		if err != nil {
			os.Exit(2)
		}
		end = time.After(duration)
	}
	children := make(chan os.Signal, 1) // orphans of a pod that shares its process namespace
	signal.Notify(children, syscall.SIGCHLD)
	for {
		select {
		case <-signals:
			return
		case <-end:
			return
		case <-children:
			for {
				if pid, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 {
					break
				}
			}
		}
	}
}
