// What controllers in Go are made of, on client-go alone: shared informers that begin with a
// WatchList, listers, a work queue, leader election, server-side apply by typed configurations,
// the dynamic client and protobuf. Each step prints a line; a step that fails ends the program.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	appsconfig "k8s.io/client-go/applyconfigurations/apps/v1"
	coreconfig "k8s.io/client-go/applyconfigurations/core/v1"
	metaconfig "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
)

var namespace = os.Getenv("NAMESPACE")

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	check(err)
	inProtobuf := rest.CopyConfig(config)
	inProtobuf.ContentType = "application/vnd.kubernetes.protobuf"
	inProtobuf.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(inProtobuf)
	check(err)
	dynamicClient, err := dynamic.NewForConfig(config)
	check(err)
	queueAndInformer(ctx, client)
	serverSideApply(ctx, client)
	conflicts(ctx, client)
	custom(ctx, dynamicClient)
	election(ctx, client)
}

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func queueAndInformer(ctx context.Context, client kubernetes.Interface) {
	factory := informers.NewSharedInformerFactoryWithOptions(
		client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "from=go" }),
	)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	enqueue := func(object any) {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
		check(err)
		queue.Add(key)
	}
	maps := factory.Core().V1().ConfigMaps()
	_, err := maps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
		DeleteFunc: enqueue,
	})
	check(err)
	labelled := map[string]string{"from": "go"}
	for _, name := range []string{"first", "second"} {
		made := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelled}, Data: map[string]string{"a": "1"},
		}
		_, err = client.CoreV1().ConfigMaps(namespace).Create(ctx, made, metav1.CreateOptions{})
		check(err)
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		fmt.Println("synced", kind, synced)
	}
	objects, err := maps.Lister().ConfigMaps(namespace).List(labels.Everything())
	check(err)
	fmt.Println("listed", len(objects))
	for range 2 {
		take(queue)
	}
	_, err = client.CoreV1().ConfigMaps(namespace).Patch(
		ctx, "first", types.StrategicMergePatchType, []byte(`{"data":{"a":"2"}}`), metav1.PatchOptions{},
	)
	check(err)
	fmt.Println("after a patch:", take(queue))
	first, err := maps.Lister().ConfigMaps(namespace).Get("first")
	check(err)
	fmt.Println("cached", first.Data["a"])
	check(client.CoreV1().ConfigMaps(namespace).Delete(ctx, "second", metav1.DeleteOptions{}))
	fmt.Println("after a deletion:", take(queue))
	_, err = maps.Lister().ConfigMaps(namespace).Get("second")
	fmt.Println("gone", apierrors.IsNotFound(err))
	queue.ShutDown()
}

func take(queue workqueue.TypedRateLimitingInterface[string]) string {
	key, _ := queue.Get()
	queue.Forget(key)
	queue.Done(key)
	return strings.TrimPrefix(key, namespace+"/")
}

func serverSideApply(ctx context.Context, client kubernetes.Interface) {
	wanted := appsconfig.Deployment("web", namespace).WithSpec(appsconfig.DeploymentSpec().
		WithReplicas(0).
		WithSelector(metaconfig.LabelSelector().WithMatchLabels(map[string]string{"app": "web"})).
		WithTemplate(coreconfig.PodTemplateSpec().
			WithLabels(map[string]string{"app": "web"}).
			WithSpec(coreconfig.PodSpec().WithContainers(
				coreconfig.Container().WithName("web").WithImage("nginx:1.27"),
			))))
	deployments := client.AppsV1().Deployments(namespace)
	applied, err := deployments.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "go"})
	check(err)
	fmt.Println("applied generation", applied.Generation)
	again, err := deployments.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "go"})
	check(err)
	fmt.Println("unchanged", again.Generation == applied.Generation)
	wanted.Spec.WithReplicas(1)
	_, err = deployments.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "other"})
	fmt.Println("conflict", apierrors.IsConflict(err))
	var refused *apierrors.StatusError
	if errors.As(err, &refused) {
		fmt.Println(refused.ErrStatus.Details.Causes[0].Type, refused.ErrStatus.Details.Causes[0].Field)
	}
	extracted, err := appsconfig.ExtractDeployment(applied, "go")
	check(err)
	fmt.Println("extracted", *extracted.Spec.Replicas, *extracted.Spec.Template.Spec.Containers[0].Image)
	scale, err := deployments.GetScale(ctx, "web", metav1.GetOptions{})
	check(err)
	fmt.Println("scale", scale.Spec.Replicas, scale.Status.Selector)
}

func conflicts(ctx context.Context, client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps(namespace)
	stale, err := maps.Get(ctx, "first", metav1.GetOptions{})
	check(err)
	fresh := stale.DeepCopy()
	fresh.Data["a"] = "3"
	_, err = maps.Update(ctx, fresh, metav1.UpdateOptions{})
	check(err)
	_, err = maps.Update(ctx, stale, metav1.UpdateOptions{})
	fmt.Println("stale", apierrors.IsConflict(err))
	tries := 0
	check(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if tries++; tries > 1 {
			stale, err = maps.Get(ctx, "first", metav1.GetOptions{})
			check(err)
		}
		stale.Data["a"] = "4"
		_, err = maps.Update(ctx, stale, metav1.UpdateOptions{})
		return err
	}))
	fmt.Println("tries", tries)
	uid := types.UID("00000000-0000-0000-0000-000000000000")
	err = maps.Delete(ctx, "first", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	fmt.Println("another's uid", apierrors.IsConflict(err))
	pages, token := 0, ""
	for {
		page, err := maps.List(ctx, metav1.ListOptions{Limit: 1, Continue: token})
		check(err)
		pages++
		if token = page.Continue; token == "" {
			break
		}
	}
	fmt.Println("pages", pages)
}

func custom(ctx context.Context, client dynamic.Interface) {
	toys := schema.GroupVersionResource{Group: "clients.example.com", Version: "v1", Resource: "toys"}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil)
	informer := factory.ForResource(toys).Informer()
	factory.Start(ctx.Done())
	fmt.Println("synced", cache.WaitForCacheSync(ctx.Done(), informer.HasSynced))
	toy := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "clients.example.com/v1", "kind": "Toy",
		"metadata": map[string]any{"name": "ball"}, "spec": map[string]any{"size": int64(3)},
	}}
	in := client.Resource(toys).Namespace(namespace)
	made, err := in.Create(ctx, toy, metav1.CreateOptions{})
	check(err)
	check(unstructured.SetNestedField(made.Object, int64(3), "status", "size"))
	_, err = in.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	check(err)
	check(wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		found, exists, err := informer.GetStore().GetByKey(namespace + "/ball")
		if err != nil || !exists {
			return false, err
		}
		_, has, err := unstructured.NestedInt64(found.(*unstructured.Unstructured).Object, "status", "size")
		return has, err
	}))
	fmt.Println("status seen")
	check(in.Delete(ctx, "ball", metav1.DeleteOptions{}))
}

func election(ctx context.Context, client kubernetes.Interface) {
	ctx, stop := context.WithCancel(ctx)
	lock, err := resourcelock.New(
		resourcelock.LeasesResourceLock, namespace, "go", client.CoreV1(), client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: "one"},
	)
	check(err)
	lines := []string{}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second,
		RetryPeriod: 200 * time.Millisecond, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { lines = append(lines, "leads"); stop() },
			OnStoppedLeading: func() { lines = append(lines, "stopped") },
		},
	})
	sort.Strings(lines)
	lease, err := client.CoordinationV1().Leases(namespace).Get(context.Background(), "go", metav1.GetOptions{})
	check(err)
	fmt.Println(lines, "released", *lease.Spec.HolderIdentity == "")
}
