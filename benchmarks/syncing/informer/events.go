package main

import (
	"bytes"
	"fmt"
	"net/http"
	"time"
)

// tick is how often events are written, several at once.
const tick = 5 * time.Millisecond

// watch writes so many events a second, each that a member was modified, one member after the other; after
// `expires` it says that the version is too old, and whoever asked has to list again.
func (r *replayed) watch(w http.ResponseWriter) {
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(http.StatusOK)
	began, sent := time.Now(), 0
	for now := range time.Tick(tick) {
		if r.expires > 0 && now.Sub(began) > r.expires {
			_, _ = w.Write([]byte(expired))
			return
		}
		var due bytes.Buffer
		for ; sent < int(now.Sub(began).Seconds()*float64(r.events)); sent++ {
			r.event(&due, sent, r.version.Add(1))
		}
		if _, err := w.Write(due.Bytes()); err != nil {
			return
		}
		w.(http.Flusher).Flush()
	}
}

func (r *replayed) event(to *bytes.Buffer, number int, version int64) {
	which := number % r.members * (r.pods / r.members)
	pod := r.shapes[jsonType][0].pod(which, which%r.nodes)
	old := fmt.Appendf(nil, `"resourceVersion":%q`, r.recorded)
	fmt.Fprintf(to, `{"type":"MODIFIED","object":%s}`+"\n",
		bytes.Replace(pod, old, fmt.Appendf(nil, `"resourceVersion":"%d"`, version), 1))
}

const expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
	`"message":"too old resource version","reason":"Expired","code":410}}` + "\n"
