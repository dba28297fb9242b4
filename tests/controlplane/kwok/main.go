// Command kwok simulates the nodes of the control plane: kwok's controllers with the stages of a file, and nothing else of
// its program, whose server for logs and commands wants Kubernetes libraries newer than those of the API server. Its flags
// are those of the same names of kwok, so that either program serves.
package main

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/client/clientset/versioned"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	"sigs.k8s.io/kwok/pkg/utils/client"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// How many objects of a kind play their stages, or are listed, at a time.
const parallelism = 4

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file with the address of the API server and a credential")
	stages := flag.String("config", "", "file with the Stages of Nodes and Pods")
	var conf controllers.Config
	flag.BoolVar(&conf.ManageAllNodes, "manage-all-nodes", false, "simulate every node")
	flag.StringVar(&conf.NodeIP, "node-ip", "", "address of every node")
	flag.UintVar(&conf.NodeLeaseDurationSeconds, "node-lease-duration-seconds", 40, "duration of a node's Lease; 0 for no Leases")
	flag.Parse()
	if err := run(*kubeconfig, *stages, conf); err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		os.Exit(1)
	}
}

func run(kubeconfig, stages string, conf controllers.Config) error {
	ctx := signals.SetupSignalContext()
	conf.Clock = clock.RealClock{}
	conf.CIDR = "10.0.0.0/24"
	conf.PodPlayStageParallelism = parallelism
	conf.NodePlayStageParallelism = parallelism
	conf.NodeLeaseParallelism = parallelism
	conf.PodsOnNodeSyncParallelism = parallelism
	conf.LocalStages = map[internalversion.StageResourceRef][]*internalversion.Stage{}
	objects, err := config.Load(ctx, stages)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", stages, err)
	}
	for _, stage := range config.FilterWithType[*internalversion.Stage](objects) {
		kind := stage.Spec.ResourceRef
		conf.LocalStages[kind] = append(conf.LocalStages[kind], stage)
	}
	clients, err := client.NewClientset("", kubeconfig)
	if err != nil {
		return err
	}
	server, err := clients.ToRESTConfig()
	if err != nil {
		return err
	}
	if conf.DynamicClient, err = clients.ToDynamicClient(); err != nil {
		return err
	}
	if conf.RESTMapper, err = clients.ToRESTMapper(); err != nil {
		return err
	}
	if conf.RESTClient, err = rest.RESTClientFor(server); err != nil {
		return err
	}
	if conf.TypedClient, err = kubernetes.NewForConfig(server); err != nil {
		return err
	}
	if conf.TypedKwokClient, err = versioned.NewForConfig(server); err != nil {
		return err
	}
	conf.ImpersonatingDynamicClient = clients.ToImpersonatingDynamicClient()
	conf.ImpersonatingTypedClient = clients.ToImpersonatingTypedClient()
	if conf.ID, err = controllers.Identity(); err != nil {
		return err
	}
	nodes, err := controllers.NewController(conf)
	if err != nil {
		return err
	}
	if err := nodes.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
