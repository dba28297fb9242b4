package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/argoproj/argo-cd/v3/util/settings"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// What the API server makes of an action, before it writes the object.
type answer struct {
	Actions []v1alpha1.ResourceAction  `json:"actions"`
	Object  *unstructured.Unstructured `json:"object"`
}

func newAction() *cobra.Command {
	return &cobra.Command{
		Use:   "action NAMESPACE NAME",
		Short: "Run an action of the ConfigMap argocd-cm on the object on standard input",
		Args:  cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
			if err != nil {
				return err
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			overrides, err := settings.NewSettingsManager(command.Context(), client, args[0]).GetResourceOverrides()
			if err != nil {
				return err
			}
			answer, err := run(lua.VM{ResourceOverrides: overrides}, args[1])
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(answer)
		},
	}
}

func run(machine lua.VM, name string) (*answer, error) {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	discovery, err := machine.GetResourceActionDiscovery(object)
	if err != nil {
		return nil, err
	}
	actions, err := machine.ExecuteResourceActionDiscovery(object, discovery)
	if err != nil {
		return nil, err
	}
	action, err := machine.GetResourceAction(object, name)
	if err != nil {
		return nil, err
	}
	changed, err := machine.ExecuteResourceAction(object, action.ActionLua, nil)
	if err != nil {
		return nil, err
	}
	if len(changed) != 1 || changed[0].K8SOperation != lua.PatchOperation {
		return nil, fmt.Errorf("%s is not a change of the object: %v", name, changed)
	}
	return &answer{Actions: actions, Object: changed[0].UnstructuredObj}, nil
}
