package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// newTransport makes the client to the API server: HTTP/2 where TLS offers it, bytes as they are.
func (o *options) newTransport() (*http.Transport, error) {
	config, err := (&options{caFile: o.apiCA, insecure: o.apiInsecure}).tlsConfig()
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: 25, IdleConnTimeout: 90 * time.Second,
	}, nil
}

// outbound makes the request and sends the answer back.
func (c *call) outbound(ctx context.Context, body io.Reader) error {
	defer close(c.upgraded)
	request, err := c.newRequest(ctx, body)
	if err != nil {
		return unavailable(err)
	}
	if request.Header.Get("Upgrade") != "" {
		return c.upgrade(ctx, request)
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return unavailable(err)
	}
	return c.answer(response)
}

func (c *call) newRequest(ctx context.Context, body io.Reader) (*http.Request, error) {
	base, err := url.Parse(c.options.apiServer)
	if err != nil {
		return nil, err
	}
	base.Path = strings.TrimSuffix(base.Path, "/") + c.request.path
	base.RawQuery = url.Values(c.request.query).Encode()
	length := int64(-1)
	if c.request.contentLength != nil {
		length = *c.request.contentLength
	}
	if length == 0 {
		body = nil
	}
	request, err := http.NewRequestWithContext(ctx, c.request.method, base.String(), body)
	if err != nil {
		return nil, err
	}
	request.ContentLength = length
	for name, values := range c.request.header {
		request.Header[name] = values
	}
	request.Header.Del("Content-Length")
	request.Header.Add("Via", fmt.Sprintf("gRPC/1.0 %s", c.options.userAgent()))
	if c.options.apiToken != "" {
		request.Header.Set("Authorization", "Bearer "+c.options.apiToken)
	}
	return request, c.impersonate(request.Header)
}

// impersonate allows exactly one source of an identity (doc/reference/tunnel-protocol.md 1.4).
func (c *call) impersonate(header http.Header) error {
	fromHeader := false
	for name := range header {
		fromHeader = fromHeader || strings.HasPrefix(name, "Impersonate-")
	}
	as := c.request.impersonation
	if fromHeader {
		c.impersonatedUsing = "header"
		if !as.empty() {
			return errors.New("nested impersonation is not supported - agent is already configured to impersonate an identity")
		}
	}
	if as.empty() {
		return nil
	}
	c.impersonatedUsing = "config"
	header.Set("Impersonate-User", as.username)
	if as.uid != "" {
		header.Set("Impersonate-Uid", as.uid)
	}
	for _, group := range as.groups {
		header.Add("Impersonate-Group", group)
	}
	for _, extra := range as.extra {
		for _, value := range extra.values {
			header.Add("Impersonate-Extra-"+url.PathEscape(extra.key), value)
		}
	}
	return nil
}

var hopByHop = []string{"Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding"}

func (c *call) sendHeader(response *http.Response) error {
	header := response.Header.Clone()
	for _, name := range strings.Split(header.Get("Connection"), ",") {
		if name = strings.TrimSpace(name); !strings.EqualFold(name, "upgrade") {
			header.Del(name)
		}
	}
	for _, name := range hopByHop {
		header.Del(name)
	}
	header.Del("Connection")
	if response.StatusCode == http.StatusSwitchingProtocols {
		header.Set("Connection", "upgrade")
	} else {
		header.Del("Upgrade")
	}
	header.Add("Via", fmt.Sprintf("%d.%d %s", response.ProtoMajor, response.ProtoMinor, c.options.userAgent()))
	c.sentStatus = response.StatusCode
	return c.SendMsg(httpHeaderMessage(response.StatusCode, response.Status, header))
}

func (c *call) answer(response *http.Response) error {
	defer response.Body.Close()
	if err := c.sendHeader(response); err != nil {
		return err
	}
	if err := c.copyOut(response.Body, httpData); err != nil {
		return err
	}
	return c.SendMsg(httpTrailerMessage())
}

func (c *call) copyOut(from io.Reader, kind int) error {
	buffer := make([]byte, chunkBytes)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			c.sent += int64(n)
			if err := c.SendMsg(httpDataMessage(protowire.Number(kind), buffer[:n])); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return unavailable(err)
		}
	}
}

// upgrade dials HTTP/1.1 on its own and becomes a pipe of bytes after 101 (doc/reference/tunnel-protocol.md 6.5).
func (c *call) upgrade(ctx context.Context, request *http.Request) error {
	connection, err := c.dialUpgrade(ctx, request.URL)
	if err != nil {
		return unavailable(err)
	}
	defer connection.Close()
	stop := context.AfterFunc(ctx, func() { connection.Close() })
	defer stop()
	if err = request.Write(connection); err != nil {
		return unavailable(err)
	}
	reader := bufio.NewReader(connection)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return unavailable(err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return c.answer(response)
	}
	if err = c.sendHeader(response); err != nil {
		return err
	}
	if err = c.SendMsg(httpTrailerMessage()); err != nil {
		return err
	}
	c.upgraded <- halfCloser{connection}
	return c.copyOut(reader, httpUpgradeData)
}

func (c *call) dialUpgrade(ctx context.Context, address *url.URL) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialTimeout}
	if address.Scheme == "http" {
		return dialer.DialContext(ctx, "tcp", withPort(address, "80"))
	}
	config := c.transport.TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", withPort(address, "443"))
}

// halfCloser ends one direction on Close: the other may still have bytes to deliver.
type halfCloser struct{ net.Conn }

func (h halfCloser) Close() error {
	if half, ok := h.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return h.Conn.Close()
}
