package main

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	assigned = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
	lifetime = 30 * time.Second
	// What kube-scheduler counts for a container that requests none.
	defaultCPU, defaultMemory = 100, 200 * 1024 * 1024
)

type request struct{ cpu, memory, paddedCPU, paddedMemory int64 }

func (r *request) add(other request, sign int64) {
	r.cpu += sign * other.cpu
	r.memory += sign * other.memory
	r.paddedCPU += sign * other.paddedCPU
	r.paddedMemory += sign * other.paddedMemory
}

func highest(a, b request) request {
	return request{
		max(a.cpu, b.cpu), max(a.memory, b.memory), max(a.paddedCPU, b.paddedCPU), max(a.paddedMemory, b.paddedMemory),
	}
}

type quantities = map[corev1.ResourceName]resource.Quantity

func sum(containers, initContainers []quantities, overhead quantities) request {
	var whole, peak request
	for _, each := range containers {
		whole.add(ofContainer(each), 1)
	}
	for _, each := range initContainers {
		peak = highest(peak, ofContainer(each))
	}
	whole = highest(whole, peak)
	cpu, memory := amounts(overhead)
	whole.add(request{cpu, memory, cpu, memory}, 1)
	return whole
}

func ofContainer(requests quantities) request {
	cpu, memory := amounts(requests)
	found := request{cpu, memory, cpu, memory}
	if _, there := requests[corev1.ResourceCPU]; !there {
		found.paddedCPU = defaultCPU
	}
	if _, there := requests[corev1.ResourceMemory]; !there {
		found.paddedMemory = defaultMemory
	}
	return found
}

func amounts(list quantities) (cpu, memory int64) {
	if quantity, there := list[corev1.ResourceCPU]; there {
		cpu = quantity.MilliValue()
	}
	if quantity, there := list[corev1.ResourceMemory]; there {
		memory = quantity.Value()
	}
	return cpu, memory
}

// node is what it has, and what is used of it; known: it is there, and not only its pods.
type node struct {
	known             bool
	allocatable, used request
}

// placed is a pod on a node; until: when it is no longer assumed there, zero if it was seen there.
type placed struct {
	node    string
	request request
	until   time.Time
}

// table is what is used of every node, by pods that are seen there or assumed there.
type table struct {
	mutex sync.RWMutex
	nodes map[string]*node
	pods  map[types.UID]placed
	ends  []end // the earliest first
}

type end struct {
	at  time.Time
	uid types.UID
}

func newTable() *table {
	return &table{nodes: map[string]*node{}, pods: map[types.UID]placed{}}
}

func (t *table) scores(names []string, score func(node) float64) []float64 {
	scores := make([]float64, len(names))
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	for i, name := range names {
		if each := t.nodes[name]; each != nil && each.known {
			scores[i] = score(*each)
		}
	}
	return scores
}

func (t *table) assume(uid types.UID, name string, wanted request) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := time.Now()
	for len(t.ends) > 0 && t.ends[0].at.Before(now) {
		if t.pods[t.ends[0].uid].until.Equal(t.ends[0].at) {
			t.displace(t.ends[0].uid)
		}
		t.ends = t.ends[1:]
	}
	if there, known := t.pods[uid]; known && there.until.IsZero() {
		return
	}
	until := now.Add(lifetime)
	t.place(uid, placed{name, wanted, until})
	t.ends = append(t.ends, end{until, uid})
}

// drop ends an assumption: the pod is being scheduled again.
func (t *table) drop(uid types.UID) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if !t.pods[uid].until.IsZero() {
		t.displace(uid)
	}
}

func (t *table) place(uid types.UID, where placed) {
	t.displace(uid)
	t.pods[uid] = where
	t.at(where.node).used.add(where.request, 1)
}

func (t *table) displace(uid types.UID) {
	if where, there := t.pods[uid]; there {
		delete(t.pods, uid)
		t.at(where.node).used.add(where.request, -1)
	}
}

func (t *table) at(name string) *node {
	found := t.nodes[name]
	if found == nil {
		found = &node{}
		t.nodes[name] = found
	}
	return found
}

// follow returns once both informers are in sync and what they hold is in the table.
func (t *table) follow(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := clientOf(config)
	if err != nil {
		return err
	}
	nodes := cache.NewListWatchFromClient(client, "nodes", metav1.NamespaceAll, fields.Everything())
	pods := cache.NewListWatchFromClient(client, "pods", metav1.NamespaceAll, fields.ParseSelectorOrDie(assigned))
	followed := []struct {
		from    cache.ListerWatcher
		example runtime.Object
		handler cache.ResourceEventHandler
	}{
		{nodes, &corev1.Node{}, cache.ResourceEventHandlerFuncs{
			AddFunc:    func(seen any) { t.setNode(seen.(*corev1.Node)) },
			UpdateFunc: func(_, seen any) { t.setNode(seen.(*corev1.Node)) },
			DeleteFunc: func(gone any) { t.removeNode(gone) },
		}},
		{pods, &corev1.Pod{}, cache.ResourceEventHandlerFuncs{
			AddFunc:    func(seen any) { t.seePod(seen.(*corev1.Pod)) },
			UpdateFunc: func(_, seen any) { t.seePod(seen.(*corev1.Pod)) },
			DeleteFunc: func(gone any) { t.removePod(gone) },
		}},
	}
	for _, each := range followed {
		informer := cache.NewSharedIndexInformer(each.from, each.example, 0, cache.Indexers{})
		if err := informer.SetTransform(withoutManagedFields); err != nil {
			return err
		}
		registered, err := informer.AddEventHandler(each.handler)
		if err != nil {
			return err
		}
		go informer.Run(ctx.Done())
		cache.WaitForCacheSync(ctx.Done(), registered.HasSynced)
	}
	return nil
}

func withoutManagedFields(seen any) (any, error) {
	if object, is := seen.(metav1.Object); is {
		object.SetManagedFields(nil)
	}
	return seen, nil
}

// clientOf reads protobuf; the typed clients of every other kind are left out: they take minutes to compile.
func clientOf(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.APIPath = "/api"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(config)
}

func (t *table) setNode(seen *corev1.Node) {
	cpu, memory := amounts(seen.Status.Allocatable)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	found := t.at(seen.Name)
	found.known, found.allocatable = true, request{cpu: cpu, memory: memory}
}

func (t *table) removeNode(gone any) {
	if last, unknown := gone.(cache.DeletedFinalStateUnknown); unknown {
		gone = last.Obj
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.at(gone.(*corev1.Node).Name).known = false
}

func (t *table) seePod(seen *corev1.Pod) {
	needs := func(list []corev1.Container) []quantities {
		found := make([]quantities, len(list))
		for i := range list {
			found[i] = list[i].Resources.Requests
		}
		return found
	}
	wanted := sum(needs(seen.Spec.Containers), needs(seen.Spec.InitContainers), seen.Spec.Overhead)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.place(seen.UID, placed{node: seen.Spec.NodeName, request: wanted})
}

func (t *table) removePod(gone any) {
	if last, unknown := gone.(cache.DeletedFinalStateUnknown); unknown {
		gone = last.Obj
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.displace(gone.(*corev1.Pod).UID)
}
