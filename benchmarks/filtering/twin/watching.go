package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
)

// source is an API server, as the administrator.
type source struct{ url, ca, cert, key string }

var errExpired = errors.New("its version is too old")

// object is what is kept of a pod or a queue.
type object struct {
	Metadata struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		State         string `json:"state"`
		NodeName      string `json:"nodeName"`
		SchedulerName string `json:"schedulerName"`
		Gates         []struct {
			Name string `json:"name"`
		} `json:"schedulingGates"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

// cache holds every object of one kind, as of the last event.
type cache struct {
	mutex sync.RWMutex
	held  map[string]object
	after func(map[string]object)
	each  func(object)
}

// follow lists and then watches, and again when the watch is at its end; it returns once the first list is held.
// each is called with every object that an event brings.
func (s source) follow(path string, after func(map[string]object), each func(object)) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	kept := &cache{after: after, each: each}
	version, err := kept.list(client, s.url+path)
	if err != nil {
		return err
	}
	go func() {
		for {
			err := kept.watch(client, s.url+path+"?watch=1&resourceVersion="+version)
			if !errors.Is(err, errExpired) {
				fail(fmt.Errorf("the watch of %s ended: %w", path, err))
			}
			if version, err = kept.list(client, s.url+path); err != nil {
				fail(err)
			}
		}
	}()
	return nil
}

// list takes the place of all that is held; it returns the list's version.
func (c *cache) list(client *http.Client, url string) (string, error) {
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []object `json:"items"`
	}
	reply, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	if err := json.NewDecoder(reply.Body).Decode(&list); err != nil {
		return "", err
	}
	held := map[string]object{}
	for _, each := range list.Items {
		held[each.key()] = each
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.held = held
	c.after(held)
	return list.Metadata.ResourceVersion, nil
}

func (c *cache) watch(client *http.Client, url string) error {
	reply, err := client.Get(url)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	events := json.NewDecoder(reply.Body)
	for {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := events.Decode(&event); err != nil {
			return err
		}
		if event.Type == "ERROR" {
			return errExpired
		}
		var seen object
		if err := json.Unmarshal(event.Object, &seen); err != nil {
			return err
		}
		c.take(event.Type, seen)
		c.each(seen)
	}
}

func (c *cache) take(kind string, seen object) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if kind == "DELETED" {
		delete(c.held, seen.key())
	} else {
		c.held[seen.key()] = seen
	}
	c.after(c.held)
}

func (o object) key() string { return o.Metadata.Namespace + "/" + o.Metadata.Name }

func (s source) client() (*http.Client, error) {
	pem, err := os.ReadFile(s.ca)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{pair}}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}}, nil
}
