// agentk-go is a small agent that behaves on the wire as a stock agentk 16.5 does. It exists to test kas with
// another implementation of gRPC, HTTP/2 and WebSocket than kas's own. Its events are JSON lines on stdout.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

type options struct {
	kasAddress, token, caFile, serverName, authority string
	insecure, offerDeflate, upgradeToken             bool
	kasHeaders                                       repeated
	version, commit, podNamespace, podName           string
	compressor                                       string
	keepalive, backoffInit, configBackoff            time.Duration
	registerEvery                                    time.Duration
	withoutConfiguration, withoutRegister            bool
	withoutMeta                                      bool
	minIdle, maxTunnels, scaleUp                     int
	extraMethod, registerService                     string
	apiServer, apiCA, apiToken                       string
	apiInsecure                                      bool
	fault                                            fault
	exitWithStdin                                    bool

	knownAgentID uint64
	knownURL     string
	ownProject   string // full path
}

type repeated []string

func (r *repeated) String() string         { return strings.Join(*r, ", ") }
func (r *repeated) Set(value string) error { *r = append(*r, value); return nil }

func readOptions() *options {
	o := &options{token: os.Getenv("AGENTK_TOKEN")}
	flag.StringVar(&o.kasAddress, "kas-address", "", "grpc, grpcs, ws or wss URL of kas")
	flag.StringVar(&o.caFile, "ca-cert-file", "", "CA of kas, PEM")
	flag.StringVar(&o.serverName, "kas-tls-server-name", "", "name to check in the certificate of kas")
	flag.BoolVar(&o.insecure, "kas-insecure-skip-tls-verify", false, "do not check the certificate of kas")
	flag.Var(&o.kasHeaders, "kas-header", "`Name: value` of the WebSocket upgrade, repeatable")
	flag.StringVar(&o.authority, "authority", "", "sent instead of what a stock agent sends as :authority")
	flag.BoolVar(&o.offerDeflate, "offer-deflate", true, "offer permessage-deflate, as a stock agent does")
	flag.BoolVar(&o.upgradeToken, "upgrade-token", false, "send the token with the WebSocket upgrade, as 17.2 and later do")
	flag.StringVar(&o.version, "version", "v16.5.0", "version to announce")
	flag.StringVar(&o.commit, "commit", "8daa08cc", "commit to announce")
	flag.StringVar(&o.podNamespace, "pod-namespace", "gitlab-agent", "")
	flag.StringVar(&o.podName, "pod-name", "agentk-go", "")
	flag.StringVar(&o.compressor, "compressor", "gzip", "of messages sent; empty for none")
	flag.DurationVar(&o.keepalive, "keepalive", 55*time.Second, "silence before a PING; grpc-go raises it to 10 s at least")
	flag.DurationVar(&o.backoffInit, "backoff", time.Second, "first back-off of a tunnel")
	flag.DurationVar(&o.configBackoff, "config-backoff", 10*time.Second, "first back-off of configuration and registration")
	flag.DurationVar(&o.registerEvery, "register-every", 5*time.Minute, "")
	flag.BoolVar(&o.withoutConfiguration, "without-configuration", false, "open no GetConfiguration stream")
	flag.BoolVar(&o.withoutRegister, "without-register", false, "do not register")
	flag.BoolVar(&o.withoutMeta, "without-meta", false, "no agent_meta in GetConfiguration, as 18.5 and later")
	flag.StringVar(&o.registerService, "register-service", "gitlab.agent.agent_registrar.rpc.AgentRegistrar", "service to register with")
	flag.IntVar(&o.minIdle, "min-idle", 2, "idle tunnels to keep")
	flag.IntVar(&o.maxTunnels, "max-tunnels", 500, "")
	flag.IntVar(&o.scaleUp, "scale-up", 10, "tunnels to add when too few are idle")
	flag.StringVar(&o.extraMethod, "extra-method", "", "a further `pkg.Service/Method` to announce in the descriptor (not served)")
	flag.StringVar(&o.apiServer, "api-server", "http://127.0.0.1:1", "URL of the API server")
	flag.StringVar(&o.apiCA, "api-ca", "", "CA of the API server, PEM")
	flag.BoolVar(&o.apiInsecure, "api-insecure", false, "do not check the certificate of the API server")
	flag.StringVar(&o.apiToken, "api-token", "", "bearer token for the API server")
	flag.StringVar((*string)(&o.fault), "fault", "", "misbehave in every call, see faults.go")
	flag.BoolVar(&o.exitWithStdin, "exit-with-stdin", false, "end at once when the input ends")
	flag.Parse()
	return o
}

func (o *options) descriptor() []byte {
	services := map[string][]string{kubernetesAPIService: {"MakeRequest"}}
	if service, method, found := strings.Cut(o.extraMethod, "/"); found {
		services[service] = append(services[service], method)
	}
	return descriptorMessage(services)
}

func main() {
	if err := run(readOptions()); err != nil {
		emit("failed", fields{"message": err.Error()})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run does things in the order of a stock agent: GetConfiguration, two Connects, then Register
// (doc/reference/captured.md 1).
func run(o *options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if o.exitWithStdin {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
	}
	live.cutOnSignal()
	kas, err := o.dial()
	if err != nil {
		return err
	}
	defer kas.Close()
	transport, err := o.newTransport()
	if err != nil {
		return err
	}
	api, err := (&kubernetesAPI{options: o, transport: transport}).serve()
	if err != nil {
		return err
	}
	if !o.withoutConfiguration {
		sent := make(chan struct{})
		var once sync.Once
		go o.watchConfiguration(ctx, kas, func() { once.Do(func() { close(sent) }) })
		<-sent
	}
	pool := &tunnels{kas: kas, api: api, options: o, leaving: ctx}
	pool.start()
	if !o.withoutRegister {
		go o.register(ctx, kas)
	}
	<-ctx.Done()
	pool.slots.Wait() // running calls end by themselves
	emit("stopped", nil)
	return nil
}
