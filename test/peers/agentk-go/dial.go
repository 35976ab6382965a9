package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/keepalive"
)

const (
	dialTimeout           = 30 * time.Second // doc/reference/tunnel-protocol.md 2.2
	tlsTimeout            = 10 * time.Second
	responseHeaderTimeout = 20 * time.Second
	maxWebSocketMessage   = 10 * 1024 * 1024
)

// bearer adds the agent token to every RPC.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}
func (bearer) RequireTransportSecurity() bool { return false }

func (o *options) userAgent() string { return fmt.Sprintf("gitlab-agent/%s/%s", o.version, o.commit) }

func (o *options) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{InsecureSkipVerify: o.insecure, ServerName: o.serverName, MinVersion: tls.VersionTLS12}
	if o.caFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(o.caFile)
	if err != nil {
		return nil, err
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", o.caFile)
	}
	return config, nil
}

// dial makes the connection as a stock agent does (doc/reference/tunnel-protocol.md 2.1, doc/reference/captured.md 1).
func (o *options) dial() (*grpc.ClientConn, error) {
	address, err := url.Parse(o.kasAddress)
	if err != nil {
		return nil, err
	}
	config, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	settings := []grpc.DialOption{
		grpc.WithPerRPCCredentials(bearer(o.token)),
		grpc.WithUserAgent(o.userAgent()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: o.keepalive, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.UseCompressor(o.compressor)),
	}
	if o.authority != "" {
		settings = append(settings, grpc.WithAuthority(o.authority))
	}
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	port := map[string]string{"grpc": "80", "grpcs": "443"}[address.Scheme]
	var target string
	switch address.Scheme {
	case "ws", "wss":
		target = "passthrough:" + o.kasAddress
		settings = append(settings, plain, grpc.WithContextDialer(o.webSocketDialer(config)))
	case "grpc", "grpcs":
		target = "dns:" + withPort(address, port)
		settings = append(settings,
			grpc.WithContextDialer(dialTCP),
			grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
		if address.Scheme == "grpcs" {
			plain = grpc.WithTransportCredentials(credentials.NewTLS(config))
		}
		settings = append(settings, plain)
	default:
		return nil, fmt.Errorf("unknown scheme %q of --kas-address", address.Scheme)
	}
	return grpc.Dial(target, settings...)
}

func withPort(address *url.URL, port string) string {
	if address.Port() != "" {
		return address.Host
	}
	return net.JoinHostPort(strings.Trim(address.Host, "[]"), port)
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	connection, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	return announced(connection, err, "")
}

// webSocketDialer upgrades at exactly the path of the address and hands the byte stream inside to grpc-go.
func (o *options) webSocketDialer(config *tls.Config) func(context.Context, string) (net.Conn, error) {
	client := &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:       config,
			TLSHandshakeTimeout:   tlsTimeout,
			ResponseHeaderTimeout: responseHeaderTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	compression := websocket.CompressionDisabled
	if o.offerDeflate {
		compression = websocket.CompressionNoContextTakeover
	}
	header := http.Header{"User-Agent": {o.userAgent()}}
	for _, entry := range o.kasHeaders {
		name, value, _ := strings.Cut(entry, ":")
		header.Add(name, strings.TrimSpace(value))
	}
	if o.upgradeToken {
		header.Set("Authorization", "Bearer "+o.token)
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		socket, response, err := websocket.Dial(ctx, address, &websocket.DialOptions{
			HTTPClient: client, HTTPHeader: header, Subprotocols: []string{"ws-tunnel"}, CompressionMode: compression,
		})
		if err != nil {
			return announced(nil, err, "")
		}
		socket.SetReadLimit(maxWebSocketMessage)
		return announced(websocket.NetConn(context.Background(), socket, websocket.MessageBinary), nil, response.Header.Get("Server"))
	}
}

// announced tells of each dial, so that a test sees reconnects.
func announced(connection net.Conn, err error, server string) (net.Conn, error) {
	if err != nil {
		emit("dial-failed", fields{"message": err.Error()})
		return nil, err
	}
	emit("connected", fields{"server": server})
	live.add(connection)
	return connection, nil
}
