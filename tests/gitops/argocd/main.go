// Command argocd runs the application controller or the repository server of Argo CD, or a Redis for them: what deploys from
// Git, without the API server, the command line client and the user interface.
package main

import (
	"fmt"
	"os"

	"github.com/alicebob/miniredis/v2"
	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	repositories "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	"github.com/spf13/cobra"
)

func main() {
	redis := &cobra.Command{
		Use:   "redis ADDRESS",
		Short: "Run a Redis that keeps everything in memory",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := miniredis.NewMiniRedis().StartAddr(args[0]); err != nil {
				return err
			}
			select {}
		},
	}
	root := &cobra.Command{Use: "argocd", SilenceUsage: true}
	root.AddCommand(controller.NewCommand(), repositories.NewCommand(), newAction(), redis)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
