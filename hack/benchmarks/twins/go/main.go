// The same controller as the other twins, on controller-runtime: it gives every Widget a ConfigMap
// and writes the Widget's status. Settings come from BENCH_* variables; see ../__init__.py.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

type widgetSpec struct {
	Size int64 `json:"size"`
}

type widgetStatus struct {
	Size int64 `json:"size,omitempty"`
}

type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              widgetSpec   `json:"spec"`
	Status            widgetStatus `json:"status,omitempty"`
}

func (w *Widget) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

func (l *WidgetList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]Widget, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Widget)
	}
	return &out
}

type reconciler struct {
	client.Client
	scheme *runtime.Scheme

	mu      sync.Mutex
	wanted  int
	settled map[string]bool
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var widget Widget
	if err := r.Get(ctx, request.NamespacedName, &widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	size := strconv.FormatInt(widget.Spec.Size, 10)
	var config corev1.ConfigMap
	err := r.Get(ctx, request.NamespacedName, &config)
	if apierrors.IsNotFound(err) {
		config = corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: request.Name, Namespace: request.Namespace},
			Data:       map[string]string{"size": size},
		}
		if err := controllerutil.SetControllerReference(&widget, &config, r.scheme); err != nil {
			return ctrl.Result{}, err
		}
		err = r.Create(ctx, &config)
	} else if err == nil && config.Data["size"] != size {
		before := config.DeepCopy()
		config.Data = map[string]string{"size": size}
		err = r.Patch(ctx, &config, client.MergeFrom(before))
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if widget.Status.Size != widget.Spec.Size {
		before := widget.DeepCopyObject().(*Widget)
		widget.Status.Size = widget.Spec.Size
		if err := r.Status().Patch(ctx, &widget, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, err
		}
	}
	r.count(request.Name)
	return ctrl.Result{}, nil
}

func (r *reconciler) count(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled == nil {
		return
	}
	r.settled[name] = true
	if len(r.settled) == r.wanted {
		r.settled = nil
		fmt.Println("settled")
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1 // the others do not throttle themselves either
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	version := schema.GroupVersion{Group: "bench.test", Version: "v1"}
	scheme.AddKnownTypes(version, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(scheme, version)
	options := ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "127.0.0.1:0"},
		Client: client.Options{
			Cache: &client.CacheOptions{EnableReadYourWritesConsistency: ptr.To(true)},
		},
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{os.Getenv("BENCH_NAMESPACE"): {}},
		},
	}
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	if kind := os.Getenv("BENCH_CACHE"); kind != "" {
		return onlyCache(ctx, manager, kind)
	}
	wanted, err := strconv.Atoi(os.Getenv("BENCH_WIDGETS"))
	if err != nil {
		return err
	}
	made := &reconciler{
		Client: manager.GetClient(), scheme: scheme, wanted: wanted, settled: map[string]bool{},
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Widget{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(made)
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

func onlyCache(ctx context.Context, manager ctrl.Manager, kind string) error {
	var object client.Object = &corev1.ConfigMap{}
	if kind == "Pod" {
		object = &corev1.Pod{}
	}
	if _, err := manager.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
		return err
	}
	go func() {
		if manager.GetCache().WaitForCacheSync(ctx) {
			time.Sleep(time.Second)
			fmt.Println("settled")
		}
	}()
	return manager.Start(ctx)
}
