package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// releasers is as many as our server has writers.
const releasers = 16

// releasing returns what takes the gate off a pod that has it, soon; "" takes off none.
func (s source) releasing(gate string) (func(object), error) {
	if gate == "" {
		return func(object) {}, nil
	}
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = releasers
	waiting := make(chan object, 100_000)
	for range releasers {
		go func() {
			for each := range waiting {
				if err := s.release(client, each, gate); err != nil {
					fail(err)
				}
			}
		}()
	}
	return func(seen object) {
		for _, each := range seen.Spec.Gates {
			if each.Name == gate && seen.Spec.NodeName == "" {
				waiting <- seen
			}
		}
	}, nil
}

func (s source) release(client *http.Client, pod object, gate string) error {
	body := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"schedulingGates":[{"$patch":"delete","name":%q}]}}`,
		pod.Metadata.UID, pod.Metadata.ResourceVersion, gate)
	path := "/api/v1/namespaces/" + pod.Metadata.Namespace + "/pods/" + pod.Metadata.Name
	asked, err := http.NewRequest(http.MethodPatch, s.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	asked.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	reply, err := client.Do(asked)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	said, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	if reply.StatusCode >= 300 && reply.StatusCode != http.StatusConflict && reply.StatusCode != http.StatusNotFound {
		return fmt.Errorf("%s: %d: %s", path, reply.StatusCode, said)
	}
	return nil
}
