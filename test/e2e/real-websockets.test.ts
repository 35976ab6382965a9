import { readFile } from 'node:fs/promises'
import type { Test } from 'tap'
import type { KubernetesObject } from '../../dev/control-plane/api-client.ts'
import type { NodeCluster } from '../support/nodes/node-cluster.ts'
import { NodesGround } from '../support/nodes/nodes-ground.ts'
import { onNodes } from '../support/nodes/on-nodes.ts'
import { type Answered, ask, openWebSocket, type Way } from '../support/nodes/websocket-way.ts'
import { container, namespaceOf } from '../support/nodes/workloads.ts'

/**
 * Five of Kubernetes' own end-to-end tests, at real nodes, straight at the API server and through kas:
 * - "remote command execution over websockets" and "retrieving logs from the container over websockets"
 *   (common/node/pods.go)
 * - "should support forwarding over websockets", twice (kubectl/portforward.go)
 * - "A set of valid responses are returned for both pod and service Proxy" (network/proxy.go)
 *
 * Each WebSocket sends an `Origin`, as Go's client does there.
 */

const namespace = 'websockets'
const base = `/api/v1/namespaces/${namespace}`
const name = 'main'
const stepMs = 60_000
const page = 'a page of the pod'

/** An application that redirects to `?to=LOCATION`, or prints the request. */
const application = `#!/bin/sh
to=\${QUERY_STRING#to=}
[ "$to" = host ] && to=http://$HTTP_HOST/target
case $QUERY_STRING in
  to=*) printf 'HTTP/1.0 302 Found\\r\\nLocation: %s\\r\\n\\r\\n' "$to" ;;
  *) printf 'HTTP/1.0 200 OK\\r\\nContent-Type: text/plain\\r\\n\\r\\n%s %s %s' "$REQUEST_METHOD" "$QUERY_STRING" "$HTTP_COOKIE" ;;
esac
`

/** The container has two servers, one of which listens on loopback alone, and prints a line. */
const script = [
  'echo container is alive',
  `mkdir -p /tmp/served/folder /tmp/served/cgi-bin; echo ${page} >/tmp/served/index.html`,
  `echo ${Buffer.from(application).toString('base64')} | base64 -d >/tmp/served/cgi-bin/asked`,
  'chmod +x /tmp/served/cgi-bin/asked',
  'httpd -p 8080 -h /tmp/served; exec httpd -f -p 127.0.0.1:8081 -h /tmp/served',
].join('; ')

const rbac = { apiVersion: 'rbac.authorization.k8s.io/v1', metadata: { name, namespace } }
const resources = ['pods', 'pods/log', 'pods/exec', 'pods/portforward', 'pods/proxy', 'services/proxy']
const rights: readonly KubernetesObject[] = [
  { ...rbac, kind: 'Role', rules: [{ apiGroups: [''], resources, verbs: ['*'] }] },
  {
    ...rbac,
    kind: 'RoleBinding',
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
    subjects: [{ kind: 'ServiceAccount', name: 'agentk', namespace: 'agentk' }],
  },
]

onNodes(
  'WebSockets and proxies at real nodes',
  { file: import.meta.url, nodes: 1, timeoutMs: 150_000 },
  async (t, cluster) => {
    const ground = await NodesGround.start(t, cluster)
    await createPod(cluster)
    const [direct, through] = await waysOf(ground)
    for (const way of [direct, through]) {
      await t.test(`${way.name}: remote command execution over websockets`, (t) => executes(t, way))
      await t.test(`${way.name}: retrieving logs over websockets`, (t) => retrievesLogs(t, way))
      await t.test(`${way.name}: port forwarding over websockets, to all addresses`, (t) => forwards(t, way, 8080))
      await t.test(`${way.name}: port forwarding over websockets, to loopback`, (t) => forwards(t, way, 8081))
    }
    await t.test('valid responses are returned for both pod and service Proxy', (t) => proxies(t, direct, through))
    await t.test('an application gets what was asked, and leads where it says', (t) =>
      asksApplication(t, direct, through),
    )
    await t.test('a command of 100 KB, and one of 3,000 words', (t) => executesLong(t, direct, through))
  },
)

async function createPod(cluster: NodeCluster): Promise<void> {
  const signal = AbortSignal.timeout(stepMs)
  await cluster.create(namespaceOf(namespace), ...rights)
  await cluster.admin.until(`${base}/serviceaccounts`, ({ metadata }) => metadata.name === 'default', signal)
  const metadata = { name, namespace, labels: { app: name } }
  const spec = { terminationGracePeriodSeconds: 1, containers: [container({ script })] }
  const ports = [{ name: 'web', port: 80, targetPort: 8080 }]
  await cluster.create(
    { apiVersion: 'v1', kind: 'Pod', metadata, spec },
    { apiVersion: 'v1', kind: 'Service', metadata, spec: { selector: metadata.labels, ports } },
  )
  await cluster.admin.until(`${base}/pods`, ({ status }) => status?.phase === 'Running', signal)
  const isReady = ({ endpoints }: KubernetesObject) => endpoints?.[0]?.conditions?.ready === true
  await cluster.admin.until(`/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`, isReady, signal)
}

async function waysOf({ cluster, stack, endpoint }: NodesGround): Promise<[direct: Way, through: Way]> {
  const { metadata } = await cluster.admin.get('/api/v1/namespaces/agentk/serviceaccounts/agentk')
  const account = { namespace: 'agentk', name: 'agentk', uid: metadata.uid }
  const token = cluster.signToken({ account, lifeMs: 3_600_000 })
  const ca = await readFile(cluster.caFile, 'utf8')
  return [
    { name: 'direct', url: cluster.server, ca, token },
    {
      name: 'through kas',
      url: stack.kubernetesUrl,
      ca: await readFile(stack.caFile, 'utf8'),
      token: endpoint.authorization.replace('Bearer ', ''),
    },
  ]
}

async function executes(t: Test, way: Way): Promise<void> {
  const command = ['echo', 'remote execution test'].map((word) => `command=${encodeURIComponent(word)}`).join('&')
  for (const by of ['header', 'protocol'] as const) {
    const path = `${base}/pods/${name}/exec?stderr=1&stdout=1&container=main&${command}`
    const opened = openWebSocket(way, path, 'v4.channel.k8s.io', by)
    t.teardown(() => opened.close())
    await opened.until((read) => read(1) !== '' && read(3) !== '')
    t.equal(opened.read(1).toString(), 'remote execution test\n', by)
    t.match(JSON.parse(opened.read(3).toString()), { status: 'Success' })
    t.equal(opened.socket.protocol, 'v4.channel.k8s.io')
  }
}

async function retrievesLogs(t: Test, way: Way): Promise<void> {
  const opened = openWebSocket(way, `${base}/pods/${name}/log?container=main`, 'binary.k8s.io')
  t.teardown(() => opened.close())
  const first = 'c'.charCodeAt(0) // this protocol has no channels
  await opened.until((read) => read(first) !== '')
  t.equal(opened.read(first).toString(), 'ontainer is alive\n')
}

async function forwards(t: Test, way: Way, port: number): Promise<void> {
  const opened = openWebSocket(way, `${base}/pods/${name}/portforward?ports=${port}`, 'v4.channel.k8s.io')
  t.teardown(() => opened.close())
  const number = Buffer.alloc(2)
  number.writeUInt16LE(port)
  await opened.until(() => opened.read(0).length >= 2 && opened.read(1).length >= 2)
  t.strictSame([opened.read(0), opened.read(1)], [number, number], 'both channels begin with the port')
  opened.send(0, 'GET / HTTP/1.0\r\n\r\n')
  await opened.until((read) => read(0).includes(page))
  t.equal(opened.read(1).length, 2, 'no error')
}

const methods = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT']

async function proxies(t: Test, direct: Way, through: Way): Promise<void> {
  for (const target of [`${base}/pods/${name}:8080/proxy`, `${base}/services/${name}:web/proxy`]) {
    for (const method of methods) {
      for (const path of ['', '/', '/folder', '/some/path?x=1&b=2&a=1', `?method=${method}`]) {
        const [before, now] = await Promise.all([
          ask(direct, method, target + path),
          ask(through, method, target + path),
        ])
        t.equal(now.status, before.status, `${method} ${target}${path}`)
        t.equal(now.body, before.body)
        const led = ({ url }: Way, location: unknown) => new URL(String(location), url + target + path)
        const place = ({ pathname, search }: URL) => pathname + search
        const { location } = before.headers
        if (location === undefined) t.equal(now.headers.location, undefined)
        else t.equal(place(led(through, now.headers.location)), place(led(direct, location)), `to ${location}`)
      }
    }
    const redirected = await ask(through, 'GET', `${target}?method=GET`)
    t.equal(redirected.status, 301)
    t.notMatch(redirected.headers.location, /^\//, 'it is relative')
    t.equal((await ask(through, 'GET', `${target}/`)).body, `${page}\n`)
  }
}

async function asksApplication(t: Test, direct: Way, through: Way): Promise<void> {
  for (const target of [`${base}/pods/${name}:8080/proxy`, `${base}/services/${name}:web/proxy`]) {
    const asked = `${target}/cgi-bin/asked`
    for (const query of ['?wsdl', '?b=2&a=1', '?a=1;b=2', '?c=x%20y&c=x+y&', '?a=%C3%A9&=&%61=b', '']) {
      const cookie = { Cookie: 's=1; t="2"' }
      for (const method of ['GET', 'POST']) {
        const [before, now] = await Promise.all([
          ask(direct, method, asked + query, cookie),
          ask(through, method, asked + query, cookie),
        ])
        t.match(before.body, `${method} ${query.slice(1)} s=1; t="2"`)
        t.equal(now.body, before.body, `${method} ${query}`)
      }
    }
    for (const to of ['/target?x=1', 'host', 'https://login.example.com/?next=/api', 'beside', '../up']) {
      const [before, now] = await Promise.all([direct, through].map((way) => ask(way, 'GET', `${asked}?to=${to}`)))
      const led = (answer: Answered | undefined) => new URL(String(answer?.headers.location), `https://kas/x${asked}`)
      t.equal(now?.status, before?.status)
      if (to === 'host') t.match(before?.headers.location, /^https?:/, 'API servers write their own address')
      const [one, other] = [led(before), led(now)]
      const isHere = to === 'host' || to.startsWith('/')
      t.equal(other.host, isHere ? 'kas' : one.host, to)
      t.equal(other.pathname.replace(/^\/x/, '') + other.search, one.pathname.replace(/^\/x/, '') + one.search, to)
    }
  }
}

async function executesLong(t: Test, direct: Way, through: Way): Promise<void> {
  const run = async (way: Way, words: readonly string[]) => {
    const command = words.map((word) => `command=${encodeURIComponent(word)}`).join('&')
    const opened = openWebSocket(way, `${base}/pods/${name}/exec?stdout=1&${command}`, 'v5.channel.k8s.io')
    t.teardown(() => opened.close())
    await opened.until((read) => read(3) !== '')
    return opened.read(1).toString()
  }
  for (const words of [
    ['sh', '-c', 'printf %s "$0" | wc -c', 'a'.repeat(100_000)],
    ['sh', '-c', 'echo $#', 'x', ...Array.from({ length: 3000 }, (_, i) => String(i))],
  ]) {
    const said = await run(direct, words)
    t.match(said, /^(?:100000|3000)\n$/)
    t.equal(await run(through, words), said)
  }
}
