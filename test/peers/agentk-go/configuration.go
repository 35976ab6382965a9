package main

import (
	"context"
	"encoding/base64"
	"io"
	"math/rand"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

const getConfigurationMethod = "/gitlab.agent.agent_configuration.rpc.AgentConfiguration/GetConfiguration"

// agentMeta is entity.AgentMeta. Its kubernetes_version is present although empty until it is known
// (doc/reference/captured.md 1).
func (o *options) agentMeta(kubernetesKnown bool) []byte {
	var kubernetes []byte
	if kubernetesKnown {
		for index, value := range []string{"1", "28", "v1.28.0", "linux/amd64"} {
			kubernetes = appendText(kubernetes, protowire.Number(index+1), value)
		}
	}
	var meta []byte
	for index, value := range []string{o.version, o.commit, o.podNamespace, o.podName} {
		meta = appendText(meta, protowire.Number(index+1), value)
	}
	return appendMessage(meta, 5, kubernetes)
}

func (o *options) slowBackoff() *backoff {
	return &backoff{init: o.configBackoff, max: 5 * time.Minute, reset: 10 * time.Minute, factor: 2, jitter: 1}
}

// watchConfiguration keeps one GetConfiguration stream open (doc/reference/tunnel-protocol.md 2.9). It calls sent once
// the first is out.
func (o *options) watchConfiguration(ctx context.Context, kas *grpc.ClientConn, sent func()) {
	wait := o.slowBackoff()
	lastCommit := ""
	sources := &gitopsSources{options: o, kas: kas, running: map[string]context.CancelFunc{}}
	apply := func(gitops []byte) error { return sources.apply(ctx, gitops) }
	for ctx.Err() == nil {
		err := o.configurationStream(ctx, kas, following{&lastCommit, sent, apply})
		sent()
		emit("configuration-ended", fields{"code": status.Code(err).String(), "message": status.Convert(err).Message()})
		if err != nil && !sleep(ctx, wait.next()) {
			return
		}
	}
}

// following is what outlives one stream.
type following struct {
	lastCommit *string
	sent       func()
	// takes GitopsCF
	apply func(gitops []byte) error
}

func (o *options) configurationStream(ctx context.Context, kas *grpc.ClientConn, as following) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := kas.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, getConfigurationMethod, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	request := appendText(nil, 1, *as.lastCommit)
	if !o.withoutMeta { // 18.5 and later send the commit alone
		request = appendNumber(appendMessage(request, 2, o.agentMeta(false)), 3, 1)
	}
	if err = stream.SendMsg(request); err != nil && err != io.EOF {
		return err
	}
	_ = stream.CloseSend()
	as.sent()
	for {
		var message []byte
		if err = stream.RecvMsg(&message); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err = o.applyConfiguration(message, as); err != nil {
			violation("AgentConfiguration.GetConfiguration", err)
			return err
		}
	}
}

func (o *options) applyConfiguration(message []byte, as following) error {
	commit, externalURL := "", ""
	var agentID, projectID uint64
	var configuration, gitops []byte
	err := readMessage(message, func(number protowire.Number, bytes []byte, _ uint64) (err error) {
		switch number {
		case 1:
			configuration = bytes
		case 2:
			commit, err = text(bytes)
		}
		return err
	})
	if err == nil {
		err = readMessage(configuration, func(number protowire.Number, bytes []byte, varint uint64) (err error) {
			switch number {
			case 1:
				gitops = bytes
			case 4:
				agentID = varint
			case 5:
				projectID = varint
			case 8:
				o.ownProject, err = text(bytes)
			case 11:
				externalURL, err = text(bytes)
			}
			return err
		})
	}
	if err != nil {
		return invalid("%v", err)
	}
	if commit == "" {
		return invalid("invalid ConfigurationResponse.CommitId: value length must be at least 1 bytes")
	}
	if o.knownAgentID != 0 && (o.knownAgentID != agentID || o.knownURL != externalURL) {
		emit("configuration-refused", fields{"commit": commit, "agentId": agentID, "externalUrl": externalURL})
		return nil // its commit is not remembered
	}
	o.knownAgentID, o.knownURL, *as.lastCommit = agentID, externalURL, commit
	emit("configuration", fields{"commit": commit, "agentId": agentID, "projectId": projectID, "externalUrl": externalURL,
		"bytes": base64.StdEncoding.EncodeToString(configuration)})
	return as.apply(gitops)
}

// register says every five minutes who this is (doc/reference/tunnel-protocol.md 1.6).
func (o *options) register(ctx context.Context, kas *grpc.ClientConn) {
	wait := o.slowBackoff()
	podID := uint64(rand.Int63())
	for ctx.Err() == nil {
		var response []byte
		request := appendNumber(appendMessage(nil, 1, o.agentMeta(true)), 2, podID)
		err := kas.Invoke(ctx, "/"+o.registerService+"/Register", request, &response, grpc.WaitForReady(true))
		delay := o.registerEvery
		if err == nil {
			emit("registered", fields{"podId": podID})
		} else {
			emit("register-failed", fields{"code": status.Code(err).String(), "message": status.Convert(err).Message()})
			delay = wait.next()
		}
		if !sleep(ctx, delay) {
			return
		}
	}
}
