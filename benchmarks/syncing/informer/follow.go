package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func follow(arguments []string) error {
	began := time.Now()
	flags := flag.NewFlagSet("follow", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "whom to follow, and as whom")
	members := flags.Bool("members", false, "keep what is needed of members, and nothing else")
	labels := flags.String("labels", "", "ask only for the pods that this label selector selects")
	_ = flags.Parse(arguments)
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	pods, err := lister(config, *labels)
	if err != nil {
		return err
	}
	count := all
	if *members {
		count = some
	}
	held := count(pods)
	return errOrWait(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"objects": held, "seconds": time.Since(began).Seconds(),
	}))
}

func errOrWait(err error) error {
	if err != nil {
		return err
	}
	select {}
}

// lister lists and watches the pods that the labels select, or all, in protobuf as controllers of today do. The
// typed clients of every other kind are left out: they take minutes to compile.
func lister(config *rest.Config, labels string) (cache.ListerWatcher, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config.QPS = -1 // client-go's own limit, five requests a second, is not what is measured
	config.ContentType = runtime.ContentTypeProtobuf
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.APIPath = "/api"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	selected := func(options *metav1.ListOptions) { options.LabelSelector = labels }
	return cache.NewFilteredListWatchFromClient(client, "pods", metav1.NamespaceAll, selected), nil
}

// all keeps every pod, whole, as an informer does by default; it returns once it is in sync.
func all(pods cache.ListerWatcher) int {
	informer := cache.NewSharedIndexInformer(pods, &corev1.Pod{}, 0, cache.Indexers{})
	done := context.Background().Done()
	go informer.Run(done)
	cache.WaitForCacheSync(done, informer.HasSynced)
	return len(informer.GetStore().ListKeys())
}

// member is what Sluice keeps of one.
type member struct {
	name, namespace, uid, version, queue, node, phase string
	owner                                             types.UID
	priority                                          int32
	created                                           time.Time
	gated                                             bool
}

// some keeps members alone; it returns once it is in sync.
func some(pods cache.ListerWatcher) int {
	kept := &store{held: map[string]member{}, synced: make(chan struct{})}
	go cache.NewReflectorWithOptions(pods, &corev1.Pod{}, kept, cache.ReflectorOptions{}).Run(context.Background().Done())
	<-kept.synced
	kept.mutex.Lock()
	defer kept.mutex.Unlock()
	return len(kept.held)
}

type store struct {
	mutex  sync.Mutex
	held   map[string]member
	synced chan struct{}
	once   sync.Once
}

func (s *store) Add(obj any) error    { return s.take(obj.(*corev1.Pod)) }
func (s *store) Update(obj any) error { return s.take(obj.(*corev1.Pod)) }
func (s *store) Resync() error        { return nil }

func (s *store) Delete(obj any) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	pod := obj.(*corev1.Pod)
	delete(s.held, pod.Namespace+"/"+pod.Name)
	return nil
}

func (s *store) Replace(list []any, _ string) error {
	s.mutex.Lock()
	s.held = map[string]member{}
	s.mutex.Unlock()
	for _, each := range list {
		if err := s.take(each.(*corev1.Pod)); err != nil {
			return err
		}
	}
	s.once.Do(func() { close(s.synced) })
	return nil
}

func (s *store) take(pod *corev1.Pod) error {
	queue := pod.Annotations["sluice.dev/queue"]
	if queue == "" {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	kept := member{
		name: pod.Name, namespace: pod.Namespace, uid: string(pod.UID), version: pod.ResourceVersion, queue: queue,
		node: pod.Spec.NodeName, phase: string(pod.Status.Phase), created: pod.CreationTimestamp.Time,
		gated: len(pod.Spec.SchedulingGates) > 0,
	}
	if pod.Spec.Priority != nil {
		kept.priority = *pod.Spec.Priority
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		kept.owner = owner.UID
	}
	s.held[pod.Namespace+"/"+pod.Name] = kept
	return nil
}
