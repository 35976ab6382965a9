import t from 'tap'
import type { HttpRequestHeader } from '../../../src/proto/http/http-message.ts'
import { type Cluster, clusterForward, head, trailer } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { startServer } from './start-server.ts'

/**
 * Handshakes of client libraries, recorded at a server of `http://127.0.0.1:18999/k8s-proxy`. `npm run soak -- clients`
 * plays them.
 */

const pods = '/k8s-proxy/api/v1/namespaces/t/pods'
const token = 'Bearer pat:42:as-user'
const channels = 'v5.channel.k8s.io,v4.channel.k8s.io,v3.channel.k8s.io,v2.channel.k8s.io,channel.k8s.io'

/** websocket-client, of Python */
const python = (path: string, ...more: readonly string[]) => [
  `GET ${path} HTTP/1.1`,
  'Upgrade: websocket',
  'Host: 127.0.0.1:18999',
  'Origin: http://127.0.0.1:18999',
  'Sec-WebSocket-Key: k+Qmr5Qo5foBxwg8l0oH+A==',
  'Sec-WebSocket-Version: 13',
  'Connection: Upgrade',
  `authorization: ${token}`,
  ...more,
]

/** ws, of Node.js */
const clientNode = (path: string) => [
  `GET ${path} HTTP/1.1`,
  `Authorization: ${token}`,
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: VIcTlsw25FW0B69MATrPgg==',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits',
  `Sec-WebSocket-Protocol: ${channels}`,
  'Host: 127.0.0.1:18999',
]

/** Vert.x, which adds an origin even if the library has set one */
const fabric8 = (path: string, ...more: readonly string[]) => [
  `GET ${path} HTTP/1.1`,
  `Authorization: ${token}`,
  'User-Agent: fabric8-kubernetes-client/7.3.1',
  'host: 127.0.0.1:18999',
  'upgrade: websocket',
  'connection: upgrade',
  'sec-websocket-key: xY+kCgy2FD6no49YO1Ejfw==',
  'sec-websocket-version: 13',
  ...more,
]

const origin = 'http://127.0.0.1:18999'
const recorded: Readonly<Record<string, readonly string[]>> = {
  'Python kubernetes 34.1.0, exec': python(
    `${pods}/box/exec?command=id&stdout=True`,
    'sec-websocket-protocol: v4.channel.k8s.io',
  ),
  'Python kubernetes 34.1.0, port-forward': python(
    `${pods}/box/portforward?ports=8080`,
    'sec-websocket-protocol: v4.channel.k8s.io',
  ),
  'Python websocket-client 1.9, watch': python(`${pods}?watch=1`),
  '@kubernetes/client-node 2.0.1, exec': clientNode(
    `${pods}/box/exec?stdout=true&stderr=false&stdin=false&tty=false&command=id&container=main`,
  ),
  '@kubernetes/client-node 2.0.1, port-forward': clientNode(`${pods}/box/portforward?ports=8080`),
  'fabric8 7.3.1, watch': fabric8(`${pods}?allowWatchBookmarks=true&watch=true`, `Origin: ${origin}`),
  'fabric8 7.3.1, port-forward': fabric8(
    `${pods}/box/portforward?ports=8080`,
    `origin: ${origin}`,
    'sec-websocket-protocol: v4.channel.k8s.io',
  ),
}

for (const [name, lines] of Object.entries(recorded)) {
  t.test(name, async (t) => {
    const seen: HttpRequestHeader[] = []
    const cluster: Cluster = async function* ({ header }) {
      seen.push(header)
      yield head(101, [['Upgrade', ['websocket']]], 'Switching Protocols')
      yield trailer
    }
    const { server, port } = await startServer(clusterForward(cluster))
    t.teardown(() => server.stop(AbortSignal.abort()))
    const client = await RawClient.open(port)
    t.teardown(() => client.close())
    const answer = await client.write(`${lines.join('\r\n')}\r\n\r\n`).until(/\r\n\r\n/)
    t.match(answer, /^HTTP\/1\.1 101 /)
    t.notMatch(answer, /Access-Control/i)
    const [got] = seen
    t.equal(got?.impersonation?.username, 'gitlab:user:ada')
    t.notMatch(JSON.stringify(got), /as-user/, 'the token stays here')
    const recordedValue = (wanted: string) =>
      lines.find((line) => line.toLowerCase().startsWith(wanted))?.split(': ')[1]
    for (const header of ['origin', 'sec-websocket-protocol', 'sec-websocket-key']) {
      const sent = got?.header.find(([name]) => name.toLowerCase() === header)?.[1]
      t.strictSame(sent?.join(), recordedValue(header), header)
    }
  })
}
