// informer-go follows the holder of one Lease as controllers do, by an informer of client-go. It tells what it sees, and
// what it asks the API server, as JSON lines on stdout, and ends with its input.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// It asks for 5 to 10 minutes of its own accord: what is asked anew is to be what was lost, and nothing else.
var watchSeconds int64 = 3600

type told map[string]any

var stdout = struct {
	sync.Mutex
	*json.Encoder
}{Encoder: json.NewEncoder(os.Stdout)}

func tell(event string, more told) {
	line := told{"event": event}
	for name, value := range more {
		line[name] = value
	}
	stdout.Lock()
	defer stdout.Unlock()
	_ = stdout.Encode(line)
}

// answerOf passes an answer on, and tells why there is none.
func answerOf[Answer any](answer Answer, err error) (Answer, error) {
	if err != nil {
		tell("failed", told{"message": err.Error()})
	}
	return answer, err
}

func saw(object any) {
	lease, ok := object.(*unstructured.Unstructured)
	if !ok {
		tell("strange", told{"message": fmt.Sprintf("an object %T", object)})
		return
	}
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	tell("saw", told{"holder": holder})
}

func run(kubeconfig, namespace, name string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	resource := client.Resource(leases).Namespace(namespace)
	selector := fields.OneTermEqualSelector("metadata.name", name).String()
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			tell("list", told{"from": options.ResourceVersion})
			return answerOf[runtime.Object](resource.List(ctx, options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			options.TimeoutSeconds = &watchSeconds
			lists := options.SendInitialEvents != nil && *options.SendInitialEvents
			tell("watch", told{"from": options.ResourceVersion, "lists": lists})
			return answerOf(resource.Watch(ctx, options))
		},
	}
	source := cache.ToListWatcherWithWatchListSemantics(listWatch, client)
	informer := cache.NewSharedIndexInformer(source, &unstructured.Unstructured{}, 0, cache.Indexers{})
	handlers := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { saw(object) },
		UpdateFunc: func(_, object any) { saw(object) },
		DeleteFunc: func(any) { tell("strange", told{"message": "it was deleted"}) },
	}
	if _, err := informer.AddEventHandler(handlers); err != nil {
		return err
	}
	informer.RunWithContext(context.Background())
	return nil
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how it reaches the API server")
	namespace := flag.String("namespace", "", "")
	name := flag.String("name", "", "of the Lease")
	flag.Parse()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	if err := run(*kubeconfig, *namespace, *name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
